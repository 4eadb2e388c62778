package enginetest_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright"
	"github.com/podwright/podwright/runtime/fake"
	"github.com/podwright/podwright/syncloop"
	"github.com/podwright/podwright/syncloop/source"
)

// crowdOf returns n pods.
func crowdOf(n int) []*v1.Pod {
	var pods []*v1.Pod
	for i := range n {
		pods = append(pods, newPod(fmt.Sprintf("p%02d", i)))
	}
	return pods
}

// running counts how many of n pods run.
func running(rt *fake.Runtime, n int) (count int) {
	for i := range n {
		count += rt.Running(types.UID(fmt.Sprintf("uid-p%02d", i)), "main")
	}
	return count
}

// TestClosingIsNotEmptying: IN9. If a source is closed before it has answered, its pods stay as
// they are remembered, at once and for as long as the agent runs. This does not affect a source
// that continues: the pods that it drops are removed. "remove all" counts as an answer.
func TestClosingIsNotEmptying(t *testing.T) {
	t.Parallel()
	const n = 10
	forget := func(c *podwright.Config) { c.Storage.ForgetDesired = true }
	for _, test := range []struct {
		name      string
		configure func(*podwright.Config)
		removeAll bool
		reboot    bool // the runtime loses its records too
		last      bool // no other source: the engine ends
		want      int
	}{
		{name: "remembered pods run on", want: n},
		{name: "remembered pods are started again", reboot: true, want: n},
		{name: "without memory nothing is stopped", configure: forget, want: n},
		{name: "the only source", last: true, want: n},
		{name: "remove all", removeAll: true, want: 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := newHost(t, fake.New(fake.Options{}))
				other := func() (*source.Channel, func(*podwright.Config)) {
					s := source.NewChannel(source.ChannelOptions{Name: "other", NodeName: "n1"})
					return s, func(c *podwright.Config) {
						if !test.last {
							c.Sources = append(c.Sources, syncloop.Source(s))
						}
						if test.configure != nil {
							test.configure(c)
						}
					}
				}
				second, add := other()
				first := h.agent(add)
				first.set(crowdOf(n)...)
				if !test.last {
					if err := second.Set(t.Context(), []*v1.Pod{newPod("others")}); err != nil {
						t.Fatal(err)
					}
				}
				first.within(time.Minute, "all pods to run", func() error {
					if got := running(h.rt, n); got != n {
						return fmt.Errorf("%d of %d", got, n)
					}
					return nil
				})
				<-time.After(2 * time.Second)
				h.kill(first)
				if test.reboot {
					h.rt.LoseRecords()
				}

				second, add = other()
				r := h.agent(add)
				if err := r.source.Close(t.Context(), test.removeAll); err != nil {
					t.Fatal(err)
				}
				if !test.last {
					// A source that has answered is responsible for its own pods (IN11).
					if err := second.Set(t.Context(), nil); err != nil {
						t.Fatal(err)
					}
				}
				<-time.After(time.Hour)
				synctest.Wait()
				if got := running(h.rt, n); got != test.want {
					t.Errorf("%d of %d pods run an hour after the source was closed, want %d", got, n, test.want)
				}
				if h.rt.Running("uid-others", "main") != 0 && !test.last {
					t.Error("a pod that the other source dropped still runs")
				}
				if test.last {
					<-r.ended
				}
			})
		})
	}
}
