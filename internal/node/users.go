package node

import (
	"errors"
	"fmt"
	"slices"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/podwright/podwright/cleanup"
	"github.com/podwright/podwright/internal/foreign"
	"github.com/podwright/podwright/internal/podinfo"
	"github.com/podwright/podwright/internal/problem"
	"github.com/podwright/podwright/syncloop/admission"
)

// Users calls the functions of the program that embeds the engine: a function that panics or does
// not return harms only the pod it was called for, and is listed (IN6).
type Users struct {
	Calls *foreign.Calls
	Clock clock.WithDelayedExecution
	// Hold keeps a new life of a pod from starting; podworkers.Workers.Hold is one.
	Hold cleanup.Hold
}

// Handlers wraps admission handlers, which are asked about one pod after the other. answered is
// called with a pod that got its verdict late from one of them, or whose turn is over.
func (u Users) Handlers(handlers []admission.Handler, answered func(uid types.UID)) []admission.Handler {
	return u.handlers("Admission.Handlers", handlers, answered, &verdictLine{clock: u.Clock, overdue: answered})
}

// SoftHandlers wraps the handlers that are asked before each sync of a pod. answered is called with
// a pod that got its verdict late from one of them.
func (u Users) SoftHandlers(handlers []admission.Handler, answered func(uid types.UID)) []admission.Handler {
	return u.handlers("Admission.Soft", handlers, answered, nil)
}

func (u Users) handlers(name string, handlers []admission.Handler, answered func(uid types.UID), line *verdictLine) []admission.Handler {
	var out []admission.Handler
	for i, h := range handlers {
		if h != nil { // see CheckHandlers
			out = append(out, userHandler{u, fmt.Sprintf("%s[%d]", name, i), h, answered, line})
		}
	}
	return out
}

// CheckHandlers returns an error for each handler that is nil, by its place in the configuration.
func CheckHandlers(handlers, soft []admission.Handler) error {
	var problems []error
	for i, h := range slices.Concat(handlers, soft) {
		switch {
		case h != nil:
		case i < len(handlers):
			problems = append(problems, fmt.Errorf("Admission.Handlers[%d] is nil", i))
		default:
			problems = append(problems, fmt.Errorf("Admission.Soft[%d] is nil", i-len(handlers)))
		}
	}
	return errors.Join(problems...)
}

type userHandler struct {
	users    Users
	name     string
	handler  admission.Handler
	answered func(uid types.UID)
	line     *verdictLine // nil: pods are asked about in any order
}

var _ admission.Asker = userHandler{}

// Ask returns the handler's verdict, or why there is none yet. A late verdict counts for the pod as
// it was when the handler was asked; the pods beside it may have changed since.
func (h userHandler) Ask(r admission.Request) (admission.Verdict, error) {
	uid := r.Pod.UID
	if h.line == nil {
		return h.ask(r, func() { h.answered(uid) })
	}
	if err := h.line.enter(uid); err != nil {
		return admission.Verdict{}, err
	}
	v, err := h.ask(r, func() { h.line.answered(uid); h.answered(uid) })
	h.line.note(uid, err)
	return v, err
}

func (h userHandler) ask(r admission.Request, late func()) (admission.Verdict, error) {
	return foreign.Quick(h.users.Calls, foreign.Call{
		Kind: problem.Function, Name: h.name, UID: r.Pod.UID, Pod: problem.Of(r.Pod.Namespace, r.Pod.Name, r.Pod.UID), About: r.Pod,
		Patience: problem.FunctionLimit,
	}, late, func() (admission.Verdict, error) {
		if a, ok := h.handler.(admission.Asker); ok {
			return a.Ask(r)
		}
		return h.handler.Admit(r), nil
	})
}

// Admit is for callers that cannot handle an open verdict: it turns one into a refusal.
func (h userHandler) Admit(r admission.Request) admission.Verdict {
	v, err := h.Ask(r)
	if err != nil {
		return admission.Refuse(admission.ReasonUnexpected, "%v", err)
	}
	return v
}

// Veto wraps [cleanup.Options.Veto], or returns nil for nil. Without an answer, the action is not
// done now; answered is called after a late answer.
func (u Users) Veto(veto func(cleanup.Action) error, answered func()) func(cleanup.Action) error {
	if veto == nil {
		return nil
	}
	return func(a cleanup.Action) error {
		// The veto's own error is an answer, which may also come late.
		refusal, err := foreign.Quick(u.Calls, foreign.Call{
			Kind: problem.Function, Name: "Cleanup.Veto", UID: a.PodUID, Pod: podOf(a), Object: a.Step.String() + " " + a.Object.String(),
			Patience: problem.FunctionLimit,
		}, answered, func() (refusal, error) { return refusal{veto(a)}, nil })
		if err != nil {
			return err
		}
		return refusal.err
	}
}

// refusal is the answer of a veto.
type refusal struct{ err error }

// podOf names the pod of an action, as far as it is known.
func podOf(a cleanup.Action) string {
	if a.PodUID == "" || a.Object.Namespace == "" {
		return string(a.PodUID)
	}
	return problem.Of(a.Object.Namespace, a.Object.Name, a.PodUID)
}

// Critical wraps the function that says which pods the node needs more than others. The pod's
// priority replaces a nil function, and one that has not answered.
func (u Users) Critical(critical func(*v1.Pod) bool) func(*v1.Pod) bool {
	if critical == nil {
		return podinfo.Critical
	}
	return func(pod *v1.Pod) bool {
		answer, err := u.critical(critical, pod)
		if err != nil {
			return podinfo.Critical(pod)
		}
		return answer
	}
}

// Spared is Critical for the parts that stop pods: if the answer is not known, a pod is spared.
func (u Users) Spared(critical func(*v1.Pod) bool) func(*v1.Pod) bool {
	if critical == nil {
		return podinfo.Critical
	}
	return func(pod *v1.Pod) bool {
		answer, err := u.critical(critical, pod)
		return answer || err != nil
	}
}

func (u Users) critical(critical func(*v1.Pod) bool, pod *v1.Pod) (bool, error) {
	return foreign.Quick(u.Calls, foreign.Call{
		Kind: problem.Function, Name: "Eviction.Critical", UID: pod.UID, Pod: problem.Of(pod.Namespace, pod.Name, pod.UID), About: pod,
		Patience: problem.FunctionLimit,
	}, nil, func() (bool, error) { return critical(pod), nil })
}

// Leave waits some seconds, at the end of a run, for functions that are still being called, and
// logs those that do not return.
func (u Users) Leave(logger logr.Logger) {
	u.Calls.Leave(logger)
}

// Stopping lists a component of the engine that does not end although it was told to.
func (u Users) Stopping(name string) (done func()) {
	return u.Calls.Watch(foreign.Call{Kind: problem.Stop, Name: name, Patience: problem.EndLimit})
}
