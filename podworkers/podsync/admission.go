package podsync

import (
	"context"
	"errors"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/internal/foreign"
	"github.com/podwright/podwright/internal/podinfo"
	"github.com/podwright/podwright/internal/problem"
	"github.com/podwright/podwright/podworkers"
	"github.com/podwright/podwright/runtime"
	"github.com/podwright/podwright/status"
	"github.com/podwright/podwright/syncloop/admission"
)

// blockedRetry is how long a pod that is blocked, or has no verdict, waits until its handlers are asked again.
const blockedRetry = 10 * time.Second

// reasonBlocked is the waiting reason of a blocked pod's containers.
const reasonBlocked = "Blocked"

// judge asks the handlers whether the pod may run now. A handler that panics, or does not
// answer in time, counts as refusing (IN6). While there is no verdict, judge returns an error.
func (s *Syncer) judge(pod *v1.Pod) (admission.Verdict, error) {
	if len(s.o.Admission.Handlers) == 0 {
		return admission.Verdict{}, nil
	}
	v, err := admission.Judge(s.o.Admission.Handlers, admission.Request{Pod: pod, Others: s.o.Admission.Others(pod.UID)})
	var open *foreign.UnansweredError
	switch {
	case err == nil:
		return v, nil
	case errors.As(err, new(*foreign.PanicError)), errors.As(err, &open) && open.Waited >= problem.FunctionLimit:
		return admission.Refuse(admission.ReasonUnexpected, "%v", err), nil
	case open != nil:
		return v, retryError{error: err, at: open.Since.Add(problem.FunctionLimit)}
	}
	return v, retryError{error: err, at: s.o.Clock.Now().Add(blockedRetry)}
}

// block stops the containers of a pod that may not run now, and publishes why (AD6). pod is the desired pod as it was
// allocated.
func (s *Syncer) block(ctx context.Context, desired, pod *v1.Pod, view *runtime.PodStatus, v admission.Verdict) (podworkers.SyncResult, error) {
	acted := false
	if view.Running() {
		acted = true
		podworkers.Seen(ctx, 0)
		if err := s.pods.KillPod(ctx, pod, view, nil); err != nil {
			return podworkers.SyncResult{}, fmt.Errorf("stop the blocked pod: %w", err)
		}
		fresh, err := s.reader.Get(pod.UID)
		if err != nil {
			return podworkers.SyncResult{}, fmt.Errorf("read the blocked pod: %w", err)
		}
		seen(ctx, fresh)
		view = fresh
	}
	in, _ := asObserved(s.blockedInput(pod, view, v), desired)
	published, _ := s.store(pod, in)
	if podinfo.Terminal(published.Phase) {
		return podworkers.SyncResult{Acted: acted, Terminal: true}, nil
	}
	return podworkers.SyncResult{}, retryError{
		error: fmt.Errorf("%w: %s: %s", errBlocked, v.Reason, v.Message), at: s.o.Clock.Now().Add(blockedRetry),
	}
}

// judgedInput returns what the status of a pod is generated from before anything is done. While the
// handlers have not answered, what they said last is shown.
func (s *Syncer) judgedInput(pod *v1.Pod, view *runtime.PodStatus, v admission.Verdict, undecided error) status.Input {
	in := s.input(pod, view, false, nil)
	if undecided != nil && in.Old != nil && in.Old.Phase == v1.PodPending {
		v = admission.Verdict{Reason: in.Old.Reason, Message: in.Old.Message}
	}
	if v.Admitted() || view.Running() {
		return in
	}
	return s.blockedInput(pod, view, v)
}

// blockedInput returns what the status of a blocked pod is generated from.
func (s *Syncer) blockedInput(pod *v1.Pod, view *runtime.PodStatus, v admission.Verdict) status.Input {
	in := s.input(pod, view, false, func(st *v1.PodStatus) {
		if !podinfo.Terminal(st.Phase) {
			st.Phase, st.Reason, st.Message = v1.PodPending, v.Reason, v.Message
		}
	})
	in.Waiting = map[string]status.WaitingReason{}
	for _, list := range [][]v1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			in.Waiting[list[i].Name] = status.WaitingReason{Reason: reasonBlocked, Message: v.Message}
		}
	}
	return in
}

// refuseLate fails a pod whose setup returned a refusal (AD8). It returns false if err is not a refusal.
func (s *Syncer) refuseLate(ctx context.Context, pod *v1.Pod, view *runtime.PodStatus, err error) (podworkers.SyncResult, bool, error) {
	var refusal *admission.Refusal
	if !errors.As(err, &refusal) || refusal.Admitted() {
		return podworkers.SyncResult{}, false, nil
	}
	amend := func(st *v1.PodStatus) {
		st.Phase, st.Reason, st.Message = v1.PodFailed, refusal.Reason, refusal.StatusMessage()
	}
	_, _ = s.publish(pod, view, false, amend)
	s.o.Admission.Refused(ctx, pod, refusal.Verdict)
	return podworkers.SyncResult{Terminal: true, Amend: amend}, true, nil
}
