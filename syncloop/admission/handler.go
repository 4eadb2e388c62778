package admission

import (
	"fmt"
	"iter"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/internal/foreign"
)

// Request is one question: may this pod run beside those?
type Request struct {
	// Pod is the candidate. Read-only.
	Pod *v1.Pod
	// Others yields the pods that have a place on the node (AD1, AD4), the candidate
	// excluded, with the resources they were granted. Going through them costs; a
	// handler does so only if the candidate makes it necessary. Nil: there are none.
	Others iter.Seq[*v1.Pod]
}

// others is Others, never nil.
func (r Request) others() iter.Seq[*v1.Pod] {
	if r.Others == nil {
		return func(func(*v1.Pod) bool) {}
	}
	return r.Others
}

// Verdict is an answer. The zero value admits the pod.
type Verdict struct {
	// Reason is one word in upper camel case, such as OutOfcpu; empty if the pod
	// is admitted. The metric of refusals counts reasons that are not of this library or
	// of the kubelet as Other.
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

// StatusMessage is the message of a pod that is refused.
func (v Verdict) StatusMessage() string { return "Pod was rejected: " + v.Message }

// Refuse returns a refusal.
func Refuse(reason, format string, args ...any) Verdict {
	return Verdict{Reason: reason, Message: fmt.Sprintf(format, args...)}
}

// Handler judges pods. Admit is called with locks of the caller held: it must not
// block nor call back. An engine calls the handlers of its user on a goroutine per pod
// instead, so that one that does harms its pod alone (IN6): a verdict within 0.5 s comes before the next
// pod is asked about, a later one may come beside those of others. A handler that is also asked
// softly is called by many goroutines at once.
type Handler interface {
	Admit(Request) Verdict
}

// Asker is an optional ability of a [Handler]: to give its verdict later. [Judge] calls Ask
// instead of Admit.
type Asker interface {
	Handler
	// Ask returns the verdict, or an error while there is none: the pod waits, alone, and is
	// asked about again (IN6).
	Ask(Request) (Verdict, error)
}

// HandlerFunc adapts a function to [Handler].
type HandlerFunc func(Request) Verdict

// Admit calls f.
func (f HandlerFunc) Admit(r Request) Verdict { return f(r) }

// Judge asks the handlers in order; the first refusal wins (AD2). An error says that a
// handler panicked, or that an [Asker] has not answered yet: there is no verdict.
func Judge(handlers []Handler, r Request) (Verdict, error) {
	for _, h := range handlers {
		if v, err := ask(h, r); err != nil || !v.Admitted() {
			return v, err
		}
	}
	return Verdict{}, nil
}

// ask asks a handler; a panic is an error.
func ask(h Handler, r Request) (v Verdict, err error) {
	if a, ok := h.(Asker); ok {
		return a.Ask(r)
	}
	var unlisted *foreign.Calls // the pod without a verdict is listed
	err = unlisted.Contain(foreign.Call{Name: "a handler"}, func() error {
		v = h.Admit(r)
		return nil
	})
	return v, err
}

// Refusal is a verdict as an error. What sets a pod up returns it, wrapped or not,
// to refuse the pod late (AD8), for instance because its volume can no longer be
// attached to this node.
type Refusal struct{ Verdict }

// Error is the reason and the message.
func (r *Refusal) Error() string { return r.Reason + ": " + r.Message }

// metricReason is the reason as the metric's label (AD3). Unknown reasons share a
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
