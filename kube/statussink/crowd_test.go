package statussink

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/runtime/fake"
)

// TestCrowdTakesTwoWritesPerPod: KW6. Many pods that are created within one second cost at
// most two writes each until they are shown running, and no reads; neither do pods whose
// images take a while.
func TestCrowdTakesTwoWritesPerPod(t *testing.T) {
	t.Run("many pods", func(t *testing.T) { crowdOf(t, crowd, 0) })
	t.Run("200 pods with slow pulls", func(t *testing.T) { crowdOf(t, 200, 3*time.Second) })
}

func crowdOf(t *testing.T, n int, pull time.Duration) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		s.before = func(string) { <-time.After(10 * time.Millisecond) }
		rt := fake.New(fake.Options{MaxCalls: 1, Registry: func(string, *runtimeapi.AuthConfig) fake.Pull { return fake.Pull{Took: pull} }})
		for _, m := range []fake.Method{fake.RunPodSandbox, fake.CreateContainer, fake.StartContainer} {
			rt.Inject(fake.Fault{Match: fake.Match{Method: m}, Effect: fake.Effect{Delay: 10 * time.Millisecond}})
		}
		a := newAgent(t, s, rt, nil)
		a.start()
		for i := range n {
			uid := types.UID(fmt.Sprint("u", i))
			s.put(runnable(uid, string(uid)))
			<-time.After(time.Second / time.Duration(n))
		}
		began := time.Now()
		a.within(10*time.Minute, "all shown running", func() bool {
			pods, _ := s.list()
			return !slices.ContainsFunc(pods, func(pod *v1.Pod) bool { return pod.Status.Phase != v1.PodRunning })
		})
		took := time.Since(began)
		reads, writes := strings.Count(s.took(), "GET"), map[int]int{}
		for i := range n {
			stored := s.statuses(types.UID(fmt.Sprint("u", i)))
			writes[1+slices.IndexFunc(stored, func(st v1.PodStatus) bool { return st.Phase == v1.PodRunning })]++
		}
		t.Logf("all running after %v; pods by writes until Running: %v; %d reads", took, writes, reads)
		for w, pods := range writes {
			if w > 2 || w < 1 {
				t.Errorf("%d pods took %d writes", pods, w)
			}
		}
		if reads > 0 {
			t.Errorf("%d reads", reads)
		}
		a.stop()
	})
}
