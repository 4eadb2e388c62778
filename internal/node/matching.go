package node

import (
	"errors"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/internal/podinfo"
	"github.com/podwright/podwright/runtime/pods"
	"github.com/podwright/podwright/syncloop/admission"
)

// Matching is what pods are compared with that ask for a certain node (FD2).
type Matching struct {
	// Self is the node.
	Self *Self
	// Machine is nil for this one.
	Machine *pods.Machine
	// Health knows what the runtime can do.
	Health *Health
	// HTTP2 and GRPCTLS are what probes speak.
	HTTP2, GRPCTLS bool
	// Events is told of each label that a pod asks for and that is not known.
	Events podinfo.EventRecorder
}

// Handlers refuse pods that this node is not meant for, or that ask for what it does not have.
func (m Matching) Handlers() []admission.Handler {
	machine := m.Machine
	if machine == nil {
		examined := pods.ExamineMachine()
		machine = &examined
	}
	return []admission.Handler{
		admission.HandlerFunc(func(r admission.Request) admission.Verdict {
			return admission.NodeMatch(m.Self.matched()).Admit(r)
		}),
		admission.Taints(m.Self.Taints),
		able{admission.Able(admission.Abilities{
			StrictGroups: m.Health.StrictGroups, AppArmor: machine.AppArmor, HTTP2: m.HTTP2, GRPCTLS: m.GRPCTLS,
		}), m.Health},
		admission.Scarce(m.Self.Allocatable),
		admission.HandlerFunc(m.warn),
	}
}

// able asks what the node can do. Before the runtime's first answer that is not known of the
// runtime; a refusal would be final, so a pod that asks for something of it waits.
type able struct {
	admission.Handler
	health *Health
}

var errNotAnswered = errors.New("the container runtime has not said yet what it can do")

// Ask implements [admission.Asker].
func (a able) Ask(r admission.Request) (admission.Verdict, error) {
	sc := r.Pod.Spec.SecurityContext
	if sc != nil && sc.SupplementalGroupsPolicy != nil && !a.health.Answered() {
		return admission.Verdict{}, errNotAnswered
	}
	return a.Admit(r), nil
}

// warn admits every pod and says which labels it asked for in vain.
func (m Matching) warn(r admission.Request) admission.Verdict {
	if unknown := m.Self.matched().UnknownLabels(r.Pod); len(unknown) > 0 {
		m.Events.Eventf(r.Pod, v1.EventTypeWarning, "NodeLabelsUnknown",
			"nodeSelector or node affinity: %s not compared, the labels of this node are not configured (Config.Node.Labels)", strings.Join(unknown, ", "))
	}
	return admission.Verdict{}
}
