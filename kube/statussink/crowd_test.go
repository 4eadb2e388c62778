package statussink

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/runtime/fake"
)

// TestCrowdTakesTwoWritesPerPod: KW6. 1,000 pods that are created within one second cost at
// most two writes each until they are shown running, and no reads.
func TestCrowdTakesTwoWritesPerPod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		s.before = func(string) { <-time.After(10 * time.Millisecond) }
		rt := fake.New(fake.Options{MaxCalls: 1})
		for _, m := range []fake.Method{fake.PullImage, fake.RunPodSandbox, fake.CreateContainer, fake.StartContainer} {
			rt.Inject(fake.Fault{Match: fake.Match{Method: m}, Effect: fake.Effect{Delay: 10 * time.Millisecond}})
		}
		a := newAgent(t, s, rt, nil)
		a.start()
		const n = 1000
		for i := range n {
			uid := types.UID(fmt.Sprint("u", i))
			s.put(runnable(uid, string(uid)))
			<-time.After(time.Millisecond)
		}
		began := time.Now()
		a.within(10*time.Minute, "all shown running", func() bool {
			pods, _ := s.list()
			for _, pod := range pods {
				if pod.Status.Phase != v1.PodRunning {
					return false
				}
			}
			return true
		})
		writes := map[int]int{}
		for i := range n {
			stored := s.statuses(types.UID(fmt.Sprint("u", i)))
			for j := range stored {
				if stored[j].Phase == v1.PodRunning {
					writes[j+1]++
					break
				}
			}
		}
		reads := strings.Count(s.took(), "GET")
		t.Logf("%d reads", reads)
		t.Logf("all running after %v; pods by writes until Running: %v", time.Since(began), writes)
		for w := range writes {
			if w > 2 {
				t.Errorf("%d pods took %d writes", writes[w], w)
			}
		}
		a.stop()
	})
}
