package node

import (
	"errors"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/internal/podinfo"
	"github.com/podwright/podwright/runtime/pods"
	"github.com/podwright/podwright/syncloop/admission"
)

// Matching is what pods that ask for a certain node are compared with (FD2).
type Matching struct {
	// Self is the node.
	Self *Self
	// Machine is what to compare with; nil means this machine.
	Machine *pods.Machine
	// Health knows what the runtime can do.
	Health *Health
	// HTTP2 and GRPCTLS are what probes speak.
	HTTP2, GRPCTLS bool
	// Events receives an event for each unknown label that a pod asks for.
	Events podinfo.EventRecorder
}

// Handlers refuse pods that are not meant for this node, or that ask for what it does not have.
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
	}
}

// Warning admits every pod and reports the labels that it asked for in vain. It comes after all other handlers,
// because those are asked again while one of them has not answered.
func (m Matching) Warning() admission.Handler { return admission.HandlerFunc(m.warn) }

// able asks what the node can do. What the runtime can do is not known before its first answer; a
// refusal would be final, so until then a pod that needs something from the runtime waits.
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

func (m Matching) warn(r admission.Request) admission.Verdict {
	if unknown := m.Self.matched().UnknownLabels(r.Pod); len(unknown) > 0 {
		m.Events.Eventf(r.Pod, v1.EventTypeWarning, "NodeLabelsUnknown",
			"nodeSelector or node affinity: %s not compared, the labels of this node are not configured (Config.Node.Labels)", strings.Join(unknown, ", "))
	}
	return admission.Verdict{}
}
