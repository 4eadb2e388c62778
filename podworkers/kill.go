package podworkers

import (
	"context"
	"errors"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/podinfo"
	"github.com/podwright/podwright/internal/timing"
	"github.com/podwright/podwright/podworkers/internal/machine"
)

// UpdatePod accepts an update of a pod and returns at once with the outcome. Any
// goroutine may call it, even from within a syncer call. Rules: spec/podworkers.md
// 4.1. If a newer update arrives before the syncer has seen this one, the syncer
// only sees the newer one; what the older one requested (termination, eviction, a
// shorter grace) is never lost.
func (w *Workers) UpdatePod(update UpdateOptions) Outcome {
	b := w.event(machine.EventUpdate)
	u := &b.event.Update
	u.Type, u.Pod, u.Mirror, u.Running = update.Type, update.Pod, update.MirrorPod, update.RunningPod
	if !update.StartTime.IsZero() {
		u.Start, u.HasStart = update.StartTime.Sub(w.origin), true
	}
	u.Kill = killOf(update.Kill)
	if pod := update.Pod; pod != nil && w.peeker != nil && podinfo.Terminal(pod.Status.Phase) {
		status, err := w.peekAt(pod.UID)
		u.ViewStopped = err == nil && !status.Running()
	}
	_, answer := w.apply(b, nil)
	return answer.Outcome
}

// Wake makes the workers sync a pod again soon, with its last update, because something that its syncer
// waits for has happened (U14). It reports whether the workers know the pod and have something left to do for
// it. A call that is under way is not disturbed: another one follows it. Wakes during a call are merged. Any
// goroutine may call it, even from within a syncer call.
func (w *Workers) Wake(uid types.UID) bool {
	b := w.event(machine.EventWake)
	b.event.UID = uid
	_, answer := w.apply(b, nil)
	return answer.Outcome == machine.OutcomeQueued || answer.Outcome == machine.OutcomeMerged
}

// killOf returns the part of the kill options that the machine needs; nil if there are none.
func killOf(k *KillOptions) *machine.Kill {
	if k == nil {
		return nil
	}
	return &machine.Kill{
		Evict: k.Evict, StatusFunc: k.StatusFunc, Grace: k.GracePeriodSeconds,
		Completion: machine.Completion{Ch: k.Completed, Outcome: k.outcome},
	}
}

// KillPod terminates a pod and waits until none of its containers runs. It is
// for evictions, preemptions and node shutdown (spec/podworkers.md 6), and must
// not be called from a syncer call of the same pod.
//
// It waits one and a half times the grace period (the override, or the spec's),
// at least 10 s, and no longer than ctx. Then it returns an error that wraps
// [ErrKillTimeout] or the cause of ctx; the termination continues. The error wraps
// [ErrStopped] if the workers stop first. Each of these also wraps the last error of a call
// for the pod, if there was one. A nil pod and one without a UID are errors. kill.Completed is ignored.
func (w *Workers) KillPod(ctx context.Context, pod *v1.Pod, kill KillOptions) error {
	_, err := w.killPod(ctx, pod, kill)
	return err
}

// killPod is KillPod, and returns how the termination ended, too.
func (w *Workers) killPod(ctx context.Context, pod *v1.Pod, kill KillOptions) (machine.KillOutcome, error) {
	completed := make(chan struct{})
	var outcome machine.KillOutcome
	kill.Completed, kill.outcome = completed, &outcome
	if w.UpdatePod(UpdateOptions{Type: Kill, Pod: pod, Kill: &kill}) == machine.OutcomeIgnoredInvalid {
		return outcome, errors.New("kill pod: no pod or no UID given")
	}
	limit := w.options.Clock.NewTimer(killLimit(pod, kill.GracePeriodSeconds))
	defer limit.Stop()
	var why error
	select {
	case <-completed:
		if outcome != machine.KillStopped {
			return outcome, nil
		}
		return outcome, w.killError(pod, ErrStopped)
	case <-limit.C():
		w.tell(pod, "ExceededGracePeriod", "Container runtime did not kill the pod within specified grace period.")
		why = ErrKillTimeout
	case <-ctx.Done():
		why = context.Cause(ctx)
	}
	return machine.KillTimeout, w.killError(pod, why)
}

// killError says why the pod may still be running, with the last error of a call for it.
func (w *Workers) killError(pod *v1.Pod, why error) error {
	w.mu.Lock()
	e, _ := w.machine.Explain(pod.UID)
	w.mu.Unlock()
	if e.LastErr != nil {
		return fmt.Errorf("kill pod %s/%s: %w: the last call failed: %w", pod.Namespace, pod.Name, why, e.LastErr)
	}
	return fmt.Errorf("kill pod %s/%s: %w", pod.Namespace, pod.Name, why)
}

// killLimit returns how long KillPod waits.
func killLimit(pod *v1.Pod, override *int64) time.Duration {
	var grace int64
	switch {
	case override != nil:
		grace = *override
	case pod.Spec.TerminationGracePeriodSeconds != nil:
		grace = *pod.Spec.TerminationGracePeriodSeconds
	}
	return max(10*time.Second, podinfo.StopWait(timing.Seconds(grace)))
}
