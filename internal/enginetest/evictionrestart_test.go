package enginetest_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright"
	"github.com/podwright/podwright/cleanup/eviction"
	"github.com/podwright/podwright/runtime/fake"
	"github.com/podwright/podwright/syncloop/source"
)

// slowDisk is a crowdedDisk that is slow to measure.
type slowDisk struct{ crowdedDisk }

func (d slowDisk) Node(ctx context.Context) (map[eviction.Signal]eviction.Observation, error) {
	<-time.After(3 * time.Second)
	return d.crowdedDisk.Node(ctx)
}

// TestEvictionCountsRememberedEnds: IN4, IN8. The agent is killed while a pod that filled the disk
// is being evicted, and the source of that pod answers late after the restart. No other pod is
// evicted meanwhile: the space that the first one uses will soon be free.
func TestEvictionCountsRememberedEnds(t *testing.T) {
	const good = 10
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t, fake.New(fake.Options{}))
		victim := withScratch(newPod("victim"))
		disk := slowDisk{crowdedDisk{root: h.root, pods: []*v1.Pod{victim}, each: 950}}
		var others []*v1.Pod
		for i := range good {
			others = append(others, newPod(fmt.Sprintf("good-%d", i)))
		}
		agent := func() (*rig, *source.Channel) {
			slow := source.NewChannel(source.ChannelOptions{Name: "slow", NodeName: "n1"})
			r := h.agent(func(c *podwright.Config) {
				c.Sources = append(c.Sources, slow)
				c.Eviction = &podwright.Eviction{Stats: disk, Policy: eviction.Policy{
					Thresholds: []eviction.Threshold{{Signal: eviction.NodeFsAvailable, Value: eviction.Value{Quantity: 100}}},
				}}
			})
			r.set(others...)
			return r, slow
		}
		r, slow := agent()
		if err := slow.Set(t.Context(), []*v1.Pod{victim}); err != nil {
			t.Fatal(err)
		}
		for _, p := range append(others, victim) {
			r.phase(p.UID, v1.PodRunning, time.Minute)
		}
		answer := h.rt.Inject(fake.Fault{Match: fake.Match{Method: fake.StopContainer, PodUID: victim.UID}, Effect: fake.Effect{Hang: true}})
		if err := os.WriteFile(scratchFile(h.root, victim.UID), []byte("much"), 0o600); err != nil {
			t.Fatal(err)
		}
		r.within(time.Minute, "the victim to be stopped", func() error {
			if len(h.rt.Calls(fake.Match{Method: fake.StopContainer, PodUID: victim.UID})) == 0 {
				return errors.New("not yet")
			}
			return nil
		})
		h.kill(r)
		answer()

		r, slow = agent()
		<-time.After(8 * time.Second) // the agent has looked at its disk
		if err := slow.Set(t.Context(), []*v1.Pod{victim}); err != nil {
			t.Fatal(err)
		}
		<-time.After(2 * time.Minute)
		for _, p := range others {
			if st := r.pod(p.UID).Status; st.Phase != v1.PodRunning || starts(h.rt, p.UID) != 1 {
				t.Errorf("%s: %s %s, %d starts", p.Name, st.Phase, st.Reason, starts(h.rt, p.UID))
			}
		}
		if st := r.pod(victim.UID).Status; st.Phase != v1.PodFailed || st.Reason != "Evicted" {
			t.Errorf("the victim: %s %s", st.Phase, st.Reason)
		}
		if _, err := os.Stat(scratchFile(h.root, victim.UID)); err == nil {
			t.Errorf("the victim keeps its data: %s", r.explain(victim.UID))
		}
	})
}
