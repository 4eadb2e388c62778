package node

import (
	"errors"
	"maps"
	"strings"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

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
	taints := admission.Taints(m.Self.Taints)
	match := admission.HandlerFunc(func(r admission.Request) admission.Verdict {
		if v := admission.NodeMatch(m.Self.matched()).Admit(r); !v.Admitted() {
			return v
		}
		return taints.Admit(r)
	})
	return []admission.Handler{
		&compared{Handler: match, self: m.Self, since: map[types.UID]time.Time{}},
		able{admission.Able(admission.Abilities{
			StrictGroups: m.Health.StrictGroups, AppArmor: machine.AppArmor, HTTP2: m.HTTP2, GRPCTLS: m.GRPCTLS,
		}), m.Health},
	}
}

// Warning admits every pod and reports the labels that it asked for in vain. It comes after all other handlers,
// because those are asked again while one of them has not answered.
func (m Matching) Warning() admission.Handler { return admission.HandlerFunc(m.warn) }

// compared compares pods with the node's object (SN4). A pod may arrive before the change of the node for which it was
// bound, and a refusal is final: a pod that does not match is compared with the node as it is now, and again after a second.
type compared struct {
	admission.Handler
	self *Self

	mu sync.Mutex
	// since is when pods did not match for the first time. It outlasts the refusal, since a pod may be judged twice.
	since map[types.UID]time.Time
}

// mismatchKept is how long it is remembered when a pod did not match: longer than the pauses between two questions about it.
const mismatchKept = time.Minute

// nodeBehind is why a pod that does not match has no verdict yet.
type nodeBehind struct{}

func (nodeBehind) Error() string {
	return "the pod does not match this node as it was last seen; the node is looked at again before the pod is refused"
}

// Yields reports that other pods do not leave it room: it will hardly be admitted.
func (nodeBehind) Yields() bool { return true }

// mayChange reports whether a pod was refused for the labels or taints of the node, which its object has: its name and its
// operating system stay.
func mayChange(v admission.Verdict) bool {
	switch v.Reason {
	case "NodeAffinity", "PodOSSelectorNodeLabelDoesNotMatch", "TaintToleration":
		return true
	}
	return false
}

// Ask implements [admission.Asker].
func (c *compared) Ask(r admission.Request) (admission.Verdict, error) {
	v := c.Admit(r)
	if !mayChange(v) || !c.self.forgetObject() {
		return v, nil
	}
	if v = c.Admit(r); !mayChange(v) || c.waited(r.Pod.UID) {
		return v, nil
	}
	return admission.Verdict{}, nodeBehind{}
}

// waited reports whether a pod that does not match has waited for the node, and begins the wait if necessary.
func (c *compared) waited(uid types.UID) bool {
	now := c.self.options.Clock.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	maps.DeleteFunc(c.since, func(_ types.UID, since time.Time) bool { return now.Sub(since) >= mismatchKept })
	since, waits := c.since[uid]
	if !waits || now.Before(since) { // the clock was set back
		c.since[uid] = now
		return false
	}
	return now.Sub(since) >= selfPeriod
}

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
