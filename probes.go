package podwright

import (
	"context"

	"go.opentelemetry.io/otel/metric"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/podworkers"
	"github.com/podwright/podwright/probe"
	"github.com/podwright/podwright/runtime"
	"github.com/podwright/podwright/runtime/pods"
)

// The joints of package probe: what it sees of pods, and where its results go.

// buildProbes makes the probe manager. It needs the parts built before it.
func (e *Engine) buildProbes(meter metric.Meter) error {
	o := e.config.Probes
	o.Pods, o.Runtime, o.Memory, o.OnResult = probedPods{e}, e.config.Runtime, e.probeMemory, e.probed
	o.Events, o.Clock = e.config.Observe.Events, e.config.Clock
	o.Logger, o.Meter = e.config.Observe.Logger.WithName("probe"), meter
	var err error
	e.probes, err = probe.New(o)
	return err
}

// probedPods shows pods to the probes as they are now.
type probedPods struct{ e *Engine }

func (p probedPods) View(uid types.UID) (probe.View, bool) {
	st, ok := p.e.status.Get(uid)
	if !ok {
		return probe.View{}, false
	}
	out := probe.View{Status: &st}
	if out.Pod, out.Leaving = p.e.syncer.StoppingPod(uid); !out.Leaving {
		if out.Pod, ok = p.e.loop.Store().Get(uid); !ok {
			return probe.View{}, false
		}
	}
	// Only for the exact times of starts: an old or missing view is no harm.
	if view, err := p.e.pleg.Get(uid); err == nil {
		out.Runtime = view
	}
	return out, true
}

// probed hears of a new result (spec/probe.md 6.2). Pods that are gone are unknown to
// whom it tells.
func (e *Engine) probed(ctx context.Context, a probe.Announcement) {
	if a.Result == probe.Success {
		e.probeMemory.Wait(ctx, a)
	}
	switch a.Kind {
	case probe.Startup:
		e.status.SetContainerStartup(a.UID, a.ID, a.Result == probe.Success)
	case probe.Readiness:
		e.status.SetContainerReadiness(a.UID, a.ID, a.Result == probe.Success)
	case probe.Liveness:
		if a.Result != probe.Failure {
			return
		}
	}
	pod, desired := e.loop.Store().Get(a.UID)
	if _, known := e.workers.Explain(a.UID); !desired || !known {
		return
	}
	e.workers.UpdatePod(podworkers.UpdateOptions{Type: podworkers.Sync, Pod: pod, StartTime: e.config.Clock.Now()})
}

// probeSource gives the reconciler the results that make it kill or wait (6.3, 6.5).
type probeSource struct{ e *Engine }

func (s probeSource) ProbeResults(id runtime.ContainerID) (startup, liveness pods.ProbeResult) {
	startup, _ = s.e.probes.Result(probe.Startup, id)
	liveness, _ = s.e.probes.Result(probe.Liveness, id)
	return startup, liveness
}
