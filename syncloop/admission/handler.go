package admission

import (
	"fmt"
	"iter"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/internal/foreign"
)

// Request is one question: may this pod run beside the others?
type Request struct {
	// Pod is the candidate. Read-only.
	Pod *v1.Pod
	// Others yields the pods that have a place on the node (AD1, AD4), except the
	// candidate, with the resources they were granted. Iterating is expensive; a handler
	// should do so only if the candidate makes it necessary. Nil means no pods.
	Others iter.Seq[*v1.Pod]
}

// others returns Others, but never nil.
func (r Request) others() iter.Seq[*v1.Pod] {
	if r.Others == nil {
		return func(func(*v1.Pod) bool) {}
	}
	return r.Others
}

// Verdict is an answer. The zero value admits the pod.
type Verdict struct {
	// Reason is one word in upper camel case, such as OutOfcpu; empty if the pod
	// is admitted. The metric of refusals counts every reason outside this library and
	// the kubelet as Other.
	Reason string
	// Message tells users what is missing and what they can do. It is published, so it
	// must not contain secrets.
	Message string
}

// Admitted reports whether the pod may run.
func (v Verdict) Admitted() bool { return v.Reason == "" }

// LacksRoom reports whether the pod was refused because other pods have what it asks for:
// resources, a place or a port. A static pod is started again when they are gone (IN14).
func (v Verdict) LacksRoom() bool {
	return strings.HasPrefix(v.Reason, outOf) || v.Reason == reasonHostPorts
}

// StatusMessage returns the status message of a refused pod.
func (v Verdict) StatusMessage() string { return "Pod was rejected: " + v.Message }

// Refuse returns a refusal.
func Refuse(reason, format string, args ...any) Verdict {
	return Verdict{Reason: reason, Message: fmt.Sprintf(format, args...)}
}

// Handler judges pods. The caller holds locks while it calls Admit, so Admit must not
// block or call back. An engine calls the handlers of its user on a goroutine per pod
// instead, so a handler that blocks harms that pod only (IN6): the engine waits up to 0.5 s for
// a verdict before it asks about the next pod; a later verdict may come at the same time as others.
// Many goroutines at once call a handler that is also asked softly.
type Handler interface {
	Admit(Request) Verdict
}

// Asker is an optional interface of a [Handler] that may give its verdict later. [Judge] calls
// Ask instead of Admit.
type Asker interface {
	Handler
	// Ask returns the verdict, or an error while there is none: then only this pod waits, and
	// Ask is called again (IN6).
	Ask(Request) (Verdict, error)
}

// HandlerFunc adapts a function to [Handler].
type HandlerFunc func(Request) Verdict

// Admit calls f.
func (f HandlerFunc) Admit(r Request) Verdict { return f(r) }

// Judge asks the handlers in order; the first refusal wins (AD2). An error means that there is
// no verdict, because a handler panicked or an [Asker] has not answered yet.
func Judge(handlers []Handler, r Request) (Verdict, error) {
	for _, h := range handlers {
		if v, err := ask(h, r); err != nil || !v.Admitted() {
			return v, err
		}
	}
	return Verdict{}, nil
}

// ask asks a handler and turns a panic into an error.
func ask(h Handler, r Request) (v Verdict, err error) {
	var unlisted *foreign.Calls // the pod without a verdict is listed
	err = unlisted.Contain(foreign.Call{Name: "a handler"}, func() (err error) {
		if a, ok := h.(Asker); ok {
			v, err = a.Ask(r)
			return err
		}
		v = h.Admit(r)
		return nil
	})
	return v, err
}

// Refusal is a verdict as an error. The code that sets a pod up returns it, wrapped
// or not, to refuse the pod late (AD8), for instance because its volume can no longer
// be attached to this node.
type Refusal struct{ Verdict }

// Error returns the reason and the message.
func (r *Refusal) Error() string { return r.Reason + ": " + r.Message }

// metricReason returns the reason as the metric's label (AD3). Unknown reasons share a
// label, so that handlers cannot create time series.
func metricReason(reason string) string {
	switch reason {
	case reasonAppArmor, reasonOSLabel, reasonOS, reasonAffinity, reasonTaint, "InvalidNodeInfo",
		"InitContainerRestartPolicyForbidden", reasonGroups, "PodLevelResourcesNotSupported",
		"UnexpectedAdmissionError", "UnknownReason", "UnexpectedPredicateFailureType", "Evicted", "TopologyAffinityError",
		"VolumeAttachmentLimitExceeded",
		reasonCPU, reasonMemory, reasonEphemeralStorage, reasonPods, reasonHostPorts, reasonSysctl, ReasonShutdown, ReasonPodSecurity, ReasonSourcePolicy, reasonNodeName:
		return reason
	}
	if strings.HasPrefix(reason, outOf) {
		return "OutOfExtendedResources"
	}
	return "Other"
}
