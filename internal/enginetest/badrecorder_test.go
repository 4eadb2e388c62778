package enginetest_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"

	"github.com/podwright/podwright"
	"github.com/podwright/podwright/runtime/fake"
)

// badRecorder panics for some pods and hangs for others.
type badRecorder struct {
	events
	hung chan struct{}
}

func (b *badRecorder) Eventf(object apiruntime.Object, kind, reason, format string, args ...any) {
	name := ""
	switch o := object.(type) {
	case *v1.Pod:
		name = o.Name
	case *v1.ObjectReference:
		name = o.Name
	}
	switch {
	case strings.HasPrefix(name, "panics"):
		panic("no such pod")
	case strings.HasPrefix(name, "hangs"):
		<-b.hung
	}
	b.events.Eventf(object, kind, reason, format, args...)
}

// TestBadRecorderHarmsNoPod: IN6, IN10. The event recorder panics for three of ten pods and does
// not return for four. All pods run, and end when they are removed. The other pods have their
// events, and Healthy names the pods for which the recorder hangs.
func TestBadRecorderHarmsNoPod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bad := &badRecorder{hung: make(chan struct{})}
		r := newRig(t, fake.New(fake.Options{}), t.TempDir(), func(c *podwright.Config) { c.Observe.Events = bad }).start()
		release := sync.OnceFunc(func() { close(bad.hung) })
		t.Cleanup(release) // before the engine is stopped
		var pods []*v1.Pod
		for i := range 10 {
			pods = append(pods, newPod(fmt.Sprintf("%s-%d", []string{"panics", "panics", "panics", "hangs", "hangs", "hangs", "hangs", "web", "web", "web"}[i], i)))
		}
		r.set(pods...)
		for _, p := range pods {
			r.phase(p.UID, v1.PodRunning, 5*time.Second)
		}
		for _, p := range pods[7:] {
			if bad.events.count(p.Name+" Started") != 1 {
				t.Errorf("%s: no event that it started", p.Name)
			}
		}
		r.within(15*time.Second, "the hung recorder is named", func() error {
			err := r.problems()
			for _, p := range pods[3:7] {
				if err == nil || !strings.Contains(err.Error(), string(p.UID)) {
					return errors.New("not named: " + p.Name)
				}
			}
			return nil
		})
		r.set()
		r.empty(2 * time.Minute)
		release()
		r.within(time.Second, "all is well", r.problems)
		if bad.events.count("hangs-3 Started") != 1 {
			t.Error("an event that waited is lost")
		}
	})
}
