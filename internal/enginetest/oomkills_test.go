package enginetest_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"
	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright"
	"github.com/podwright/podwright/internal/instrument/instrumenttest"
	"github.com/podwright/podwright/runtime/fake"
)

// oneMeter gives every part the same meter.
type oneMeter struct {
	noop.MeterProvider
	meter metric.Meter
}

func (o oneMeter) Meter(string, ...metric.MeterOption) metric.Meter { return o.meter }

// TestOOMKillsAreToldOnce: runtime.md 28. Each container in a crash loop that the kernel kills causes one event and
// one count, and no more with later relists or the next agent. A container that fails on its own does not count.
func TestOOMKillsAreToldOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newHost(t, byContainer(map[string]fake.Script{
			"hungry": {Exit: &fake.Exit{After: 10 * time.Second, Code: 137, Reason: "OOMKilled"}},
			"broken": {Exit: &fake.Exit{After: 10 * time.Second, Code: 137}},
		}))
		counted := &instrumenttest.Meter{}
		first := n.agent(func(c *podwright.Config) { c.Observe.MeterProvider = oneMeter{meter: counted} })
		exits := func() int { f := n.rt.Facts("uid-web", "hungry"); return f.Started - f.Running }
		pod := newPod("web", "hungry", "broken")
		pod.Spec.RestartPolicy = v1.RestartPolicyAlways
		first.set(pod)
		first.within(10*time.Minute, "three kills", func() error {
			if exits() < 3 {
				return errors.New("not yet")
			}
			return nil
		})
		<-time.After(30 * time.Second)
		want := slices.Repeat([]string{"Out of memory: the kernel killed container hungry"}, exits())
		if told := first.events.said("web OOMKilled"); !slices.Equal(told, want) {
			t.Errorf("told %q, want %q", told, want)
		}
		for container, kills := range map[string]int{"hungry": len(want), "broken": 0} {
			series := fmt.Sprintf("container_oom_events_total{container=%s,namespace=default,pod=web}", container)
			if got, ok := counted.Read(t.Context())[series]; !ok || got != float64(kills) {
				t.Errorf("%s: %v, %t, want %d", series, got, ok, kills)
			}
		}
		first.stop()
		second := n.agent()
		second.set(pod)
		<-time.After(9 * time.Second) // shorter than the pause until the next start
		if told := second.events.said("web OOMKilled"); len(told) != 0 {
			t.Errorf("told again: %q", told)
		}
	})
}
