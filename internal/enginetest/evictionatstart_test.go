package enginetest_test

import (
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright"
	"github.com/podwright/podwright/runtime/fake"
	"github.com/podwright/podwright/syncloop/source"
)

// TestEvictionAtStartComparesAllPods: section 16: an agent that starts while the node is low on memory compares the pods of
// all its sources, also of one that answers later. A pod that uses nothing does not go for one that is not known yet.
func TestEvictionAtStartComparesAllPods(t *testing.T) {
	for _, late := range []time.Duration{0, time.Millisecond, 5 * time.Second, 15 * time.Second, time.Minute} {
		t.Run(late.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := newHost(t, fake.New(fake.Options{}))
				innocent, hog := newPod("innocent"), newPod("hog")
				node := &pressed{}
				agent := func() (*rig, *source.Channel) {
					slow := source.NewChannel(source.ChannelOptions{Name: "slow", NodeName: "n1"})
					r := h.agent(func(c *podwright.Config) {
						node.watched(c)
						c.Sources = append(c.Sources, slow)
					})
					r.set(innocent)
					return r, slow
				}
				deliver := func(slow *source.Channel) {
					if err := slow.Set(t.Context(), []*v1.Pod{hog}); err != nil {
						t.Fatal(err)
					}
				}
				r, slow := agent()
				deliver(slow)
				r.phase(innocent.UID, v1.PodRunning, time.Minute)
				r.phase(hog.UID, v1.PodRunning, time.Minute)
				r.stop()
				node.pressUntil(func() bool { return h.rt.Running(hog.UID, "main") == 0 })
				r, slow = agent()
				time.AfterFunc(late, func() { deliver(slow) })
				r.phase(hog.UID, v1.PodFailed, 45*time.Second)
				<-time.After(2 * time.Minute)
				if st := r.pod(innocent.UID).Status; st.Phase != v1.PodRunning || starts(h.rt, innocent.UID) != 1 {
					t.Errorf("the pod that uses nothing: %s %s %s", st.Phase, st.Reason, st.Message)
				}
			})
		})
	}
}
