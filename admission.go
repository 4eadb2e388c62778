package podwright

import (
	"fmt"
	"iter"
	"os"
	"slices"
	"strings"

	"go.opentelemetry.io/otel/metric"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/cleanup/eviction"
	"github.com/podwright/podwright/internal/podinfo"
	"github.com/podwright/podwright/runtime/pods"
	"github.com/podwright/podwright/status"
	"github.com/podwright/podwright/syncloop/admission"
)

// Admission says which pods may run on this node (spec/syncloop.md 11). A pod is
// judged once, when its source first names it; a refused one gets phase Failed with
// the reason and is not tried again. The verdict survives a restart of the agent.
//
// The zero value refuses pods that could not work: those that want a port of the
// node another pod has, and those that set kernel parameters which are neither safe
// nor allowed. It neither counts pods nor adds up what they request. A node that shuts
// down, or runs out of what [Config.Eviction] watches, takes no new pods either.
type Admission struct {
	// MaxPods bounds the pods that run. 0 or negative: no bound.
	MaxPods int
	// FitResources refuses a pod whose requests do not fit into
	// [Config.Allocatable] beside those of the others.
	FitResources bool
	// AllowedSysctls are kernel parameters pods may set besides the safe ones; a
	// name, or a prefix that ends in *.
	AllowedSysctls []string
	// Handlers are asked after those above, in this order. Package
	// syncloop/admission has more of them.
	Handlers []admission.Handler
	// Soft handlers are asked before every setup of a pod (AD6). While one refuses,
	// the pod's containers are stopped and wait with the reason Blocked; it is asked
	// again every 10 s.
	Soft []admission.Handler
}

// buildAdmission makes what judges pods.
func (e *Engine) buildAdmission(meter metric.Meter) (err error) {
	a := e.config.Admission
	kernel := kernelRelease()
	own := []admission.Handler{
		admission.Shutdown(e.shuttingDown, nil),
		admission.HandlerFunc(e.pressed),
		admission.Sysctls(func(pod *v1.Pod) error { return pods.CheckSysctls(pod, a.AllowedSysctls, kernel) }),
		admission.HostPorts(),
	}
	room := []admission.Handler{admission.PodCount(a.MaxPods)}
	if a.FitResources {
		room = append(room, admission.Resources(func() v1.ResourceList { return e.resizer.allocatable }))
	}
	e.preempting = &preempting{e: e, rest: slices.Concat(own, a.Handlers), going: map[types.UID]bool{}}
	e.gate, err = admission.NewGate(admission.Options{
		Handlers: slices.Concat(own, room, a.Handlers), Memory: e.recovery.Verdicts(e.shuttingDown), Exempt: e.ending, Active: e.active, Rejected: e.rejected,
		Recorder: e.config.Observe.Events, Logger: e.config.Observe.Logger.WithName("admission"), Meter: meter,
	})
	if err != nil {
		return err
	}
	if i := slices.Index(a.Soft, nil); i >= 0 {
		return fmt.Errorf("Admission.Soft[%d] is nil", i)
	}
	return nil
}

// buildSetupGates makes what stands between the sources and the setup of a pod.
func (e *Engine) buildSetupGates(meter func(room string) metric.Meter) error {
	if err := e.buildMirrors(); err != nil {
		return err
	}
	return e.buildAdmission(meter("syncloop/admission"))
}

// kernelRelease is what uname -r prints, "" if the machine does not say.
func kernelRelease() string {
	release, err := os.ReadFile("/proc/sys/kernel/osrelease")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(release))
}

// pressed refuses pods that the node must not take while it runs out of something
// (section 16).
func (e *Engine) pressed(r admission.Request) admission.Verdict {
	if e.evictor == nil {
		return admission.Verdict{}
	}
	if admitted, message := e.evictor.Admit(r.Pod); !admitted {
		return admission.Refuse(eviction.Reason, "%s", message)
	}
	return admission.Verdict{}
}

// ending reports whether the pod's end was requested or is behind it, other than by
// refusal.
func (e *Engine) ending(pod *v1.Pod) bool {
	if e.journal.Refused(pod.UID) {
		return false
	}
	s, _ := e.status.Get(pod.UID)
	return podinfo.Terminal(s.Phase) || e.workers.IsPodTerminationRequested(pod.UID)
}

// active returns the pod with what it was granted, and whether it has a place on the
// node (AD4).
func (e *Engine) active(pod *v1.Pod) (*v1.Pod, bool) {
	if e.workers.IsPodKnownTerminated(pod.UID) {
		return nil, false
	}
	s, _ := e.status.Get(pod.UID)
	if (podinfo.Terminal(pod.Status.Phase) || podinfo.Terminal(s.Phase)) && !e.workers.IsPodTerminationRequested(pod.UID) {
		return nil, false
	}
	return e.resizer.allocations.Allocated(pod), true
}

// withheld reports a pod that has no worker because the loop keeps it: it was refused,
// or waits for its admission or for the gate. To restart it, a second Create, would be
// to ask for a second life (U5).
func (e *Engine) withheld(uid types.UID) bool {
	return e.loop.Withheld(uid) || e.loop.Holds(uid)
}

// others yields the active pods without one, for soft handlers.
func (e *Engine) others(except types.UID) iter.Seq[*v1.Pod] {
	return func(yield func(*v1.Pod) bool) {
		for _, pod := range e.loop.Store().Pods() {
			if pod.UID == except || e.loop.Withheld(pod.UID) {
				continue
			}
			if granted, ok := e.active(pod); ok && !yield(granted) {
				return
			}
		}
	}
}

// rejected publishes the status of a refused pod (AD3).
func (e *Engine) rejected(pod *v1.Pod, v admission.Verdict) {
	in := status.Input{Pod: pod, NodeIPs: e.config.Node.IPs, Now: e.config.Clock.Now()}
	if old, ok := e.status.Get(pod.UID); ok {
		in.Old = &old
	}
	if err := e.status.SetPodStatus(pod, status.Rejected(in, v.Reason, v.StatusMessage())); err != nil {
		e.config.Observe.Logger.Error(err, "the refusal of a pod cannot be told", "uid", pod.UID)
	}
}
