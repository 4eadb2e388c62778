package node

import (
	"context"
	"net/netip"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/probe"
	"github.com/podwright/podwright/runtime"
	"github.com/podwright/podwright/runtime/pods"
)

// Probed shows the probes the current state of pods, and passes their results on. Every field must
// be set before a method is called.
type Probed struct {
	Statuses ProbedStatuses
	Desired  Desired
	// Stopping returns a pod that is being stopped, and false for any other.
	Stopping func(uid types.UID) (*v1.Pod, bool)
	Views    interface {
		Get(uid types.UID) (*runtime.PodStatus, error)
	}
	// Addresses returns the node's addresses, primary first.
	Addresses func() []string
	// Remember returns once a success will survive the agent.
	Remember func(ctx context.Context, a probe.Announcement)
	// Wake asks for a look at a pod.
	Wake func(uid types.UID)
}

// ProbedStatuses receives what probes say about containers; [status.Manager] does.
type ProbedStatuses interface {
	Statuses
	SetContainerStartup(uid types.UID, id runtime.ContainerID, started bool)
	SetContainerReadiness(uid types.UID, id runtime.ContainerID, ready bool)
}

// View returns a pod, or false if there is nothing to probe.
func (p *Probed) View(uid types.UID) (probe.View, bool) {
	st, ok := p.Statuses.Get(uid)
	if !ok {
		return probe.View{}, false
	}
	out := probe.View{Status: &st}
	if out.Pod, out.Leaving = p.Stopping(uid); !out.Leaving {
		if out.Pod, ok = p.Desired.Get(uid); !ok {
			return probe.View{}, false
		}
	}
	if out.Pod.Spec.HostNetwork {
		st.PodIP = p.hostAddress(st.PodIP)
	}
	// Only for the exact start times: an old or missing view does no harm.
	if view, err := p.Views.Get(uid); err == nil {
		out.Runtime = view
	}
	return out, true
}

// hostAddress returns where a pod on the host network is reached: at the address that its status keeps
// as long as the node has it, then at the node's primary one (spec/probe.md 5.1).
func (p *Probed) hostAddress(kept string) string {
	have := p.Addresses()
	old, err := netip.ParseAddr(kept)
	if len(have) == 0 || err == nil && slices.ContainsFunc(have, func(text string) bool {
		ip, err := netip.ParseAddr(text)
		return err == nil && ip.Unmap() == old.Unmap()
	}) {
		return kept
	}
	return have[0]
}

// Announce passes a new result on (spec/probe.md 6.2). The receivers ignore pods that are gone.
func (p *Probed) Announce(ctx context.Context, a probe.Announcement) {
	if a.Result == probe.Success {
		p.Remember(ctx, a)
	}
	switch a.Kind {
	case probe.Startup:
		p.Statuses.SetContainerStartup(a.UID, a.ID, a.Result == probe.Success)
	case probe.Readiness:
		p.Statuses.SetContainerReadiness(a.UID, a.ID, a.Result == probe.Success)
	case probe.Liveness:
		if a.Result != probe.Failure {
			return
		}
	}
	p.Wake(a.UID)
}

// ProbeResults gives the reconciler the results that make it kill or wait (spec/probe.md 6.3, 6.5).
type ProbeResults func(kind probe.Kind, id runtime.ContainerID) (probe.Result, bool)

// ProbeResults returns what the probes last said.
func (r ProbeResults) ProbeResults(id runtime.ContainerID) (startup, liveness pods.ProbeResult) {
	startup, _ = r(probe.Startup, id)
	liveness, _ = r(probe.Liveness, id)
	return startup, liveness
}
