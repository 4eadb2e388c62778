package enginetest_test

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright"
	"github.com/podwright/podwright/runtime/fake"
	"github.com/podwright/podwright/syncloop/admission"
)

// TestLateAnswersAreHeardOnce: IN6. A handler hangs for so many pods that the loop no longer waits for it, and panics for some.
// What it answers late about one pod has no other pod asked about again: they do not take turns in waking the loop.
func TestLateAnswersAreHeardOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const most = 2000
		var calls atomic.Int32
		hung := make(chan struct{})
		r := newRig(t, fake.New(fake.Options{}), t.TempDir(), func(c *podwright.Config) {
			c.Admission.Handlers = []admission.Handler{admission.HandlerFunc(func(r admission.Request) admission.Verdict {
				switch n := calls.Add(1); {
				case n > most: // so that the test ends
				case strings.HasPrefix(r.Pod.Name, "panics"):
					panic("no policy for " + r.Pod.Name)
				case strings.HasPrefix(r.Pod.Name, "hangs"):
					<-hung
				}
				return admission.Verdict{}
			})}
		}).start()
		t.Cleanup(sync.OnceFunc(func() { close(hung) })) // before the engine is stopped
		var pods, good []*v1.Pod
		for i := range 20 {
			pods = append(pods, newPod(fmt.Sprintf("hangs-%d", i)))
		}
		for i := range 4 {
			pods, good = append(pods, newPod(fmt.Sprintf("panics-%d", i))), append(good, newPod(fmt.Sprintf("web-%d", i)))
		}
		r.set(append(pods, good...)...)
		for _, p := range good {
			r.phase(p.UID, v1.PodRunning, 5*time.Second)
		}
		<-time.After(10 * time.Minute)
		// Each of the four is asked about every 5 s.
		if n := calls.Load(); n < 400 || n > 700 {
			t.Errorf("the handler was called %d times", n)
		}
	})
}
