package node

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/podwright/podwright/cleanup"
	"github.com/podwright/podwright/internal/foreign"
	"github.com/podwright/podwright/internal/podinfo"
	"github.com/podwright/podwright/internal/problem"
	"github.com/podwright/podwright/syncloop/admission"
)

// Users calls the functions of the program that embeds the engine: one that panics or does
// not return harms the pod it was called for, and is listed (IN6).
type Users struct {
	Calls *foreign.Calls
	Clock clock.Clock
	// Hold keeps a new life of a pod from starting; podworkers.Workers.Hold is one.
	Hold cleanup.Hold
}

// Handlers puts admission handlers under a time limit. answered is called with a pod on which one
// of them gave its verdict late.
func (u Users) Handlers(handlers []admission.Handler, answered func(uid types.UID)) []admission.Handler {
	out := slices.Clone(handlers)
	for i, h := range out {
		if h != nil {
			out[i] = admission.Limit(h, u.Clock, answered)
		}
	}
	return out
}

// Veto contains [cleanup.Options.Veto], nil if there is none. Without an answer the action is
// not done now; answered is called after a late answer.
func (u Users) Veto(veto func(cleanup.Action) error, answered func()) func(cleanup.Action) error {
	if veto == nil {
		return nil
	}
	return func(a cleanup.Action) error {
		// The veto's own error is an answer, which may come late as well.
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

// Critical contains the function that says which pods the node needs more than others. A nil
// one, and one that has not answered, is replaced by the pod's priority.
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

// Spared is Critical for the parts that stop pods: a pod is spared if the answer is not known.
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
		Kind: problem.Function, Name: "Eviction.Critical", UID: pod.UID, Pod: problem.Of(pod.Namespace, pod.Name, pod.UID),
		Patience: problem.FunctionLimit,
	}, nil, func() (bool, error) { return critical(pod), nil })
}

// Stopping lists a component of the engine that does not end although it was told to.
func (u Users) Stopping(name string) (done func()) {
	return u.Calls.Watch(foreign.Call{Kind: problem.Stop, Name: name, Patience: problem.EndLimit})
}
