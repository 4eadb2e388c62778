package node

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/podwright/podwright/internal/timing"
	"github.com/podwright/podwright/podworkers"
	"github.com/podwright/podwright/runtime"
	"github.com/podwright/podwright/syncloop/shutdown"
)

// listPatience is how long a shutdown waits for the runtime's list before it stops the pods that it
// knows without one, or a quarter of its time if that is less; lastLook is the least time for another
// try after that.
const (
	listPatience = 2 * time.Second
	lastLook     = time.Second
)

// leftoverGrace is how many seconds a pod that only the runtime knows gets to stop: the least that a
// container gets (spec/runtime.md 16.2).
const leftoverGrace = 2

var (
	errRunningUnknown = errors.New("it is not known which pods run")
	errPlanOver       = errors.New("the time of the shutdown is over, some of which it took to find out which pods run")
)

// Start is the start of this process; [recovery.Recovery] is.
type Start interface {
	Opening
	// Remembered returns a pod as it was last desired, or nil. KillRunning returns the update that
	// stops a pod without a worker, as it is desired unless that is nil.
	Remembered(uid types.UID) *v1.Pod
	KillRunning(pod *runtime.Pod, desired *v1.Pod, kill podworkers.KillOptions) podworkers.UpdateOptions
}

// stopping is one shutdown under way.
type stopping struct {
	*Shutdown
	plan shutdown.Plan
	// until is when the time of the plan is over.
	until time.Time
	// end ends the shutdown with an error.
	end context.CancelCauseFunc
	// told holds the pods that were told to stop, orphans those that Unfinished does not have.
	told    map[types.UID]bool
	orphans map[types.UID]*runtime.Pod
}

func (s *Shutdown) newStopping(plan shutdown.Plan, end context.CancelCauseFunc) *stopping {
	var all time.Duration
	for _, g := range plan.Groups {
		all += min(g.Time, math.MaxInt64-all) // math.MaxInt64 may stand for no limit
	}
	if len(plan.Groups) == 0 {
		all = shutdown.DefaultTime
	}
	return &stopping{
		Shutdown: s, plan: plan, end: end, until: s.Clock.Now().Add(all),
		told: map[types.UID]bool{}, orphans: map[types.UID]*runtime.Pod{},
	}
}

// left is what is left of the time of the plan.
func (s *stopping) left() time.Duration { return s.until.Sub(s.Clock.Now()) }

// run stops the pods group by group, those included that only the runtime knows: after a start
// these are all pods. It is an error if it could not be found out which pods run.
func (s *stopping) run(ctx context.Context) ([]shutdown.PodReport, error) {
	if err := s.awaitStart(ctx); err != nil {
		return nil, err
	}
	err := s.look(ctx, min(listPatience, s.left()/4)) // the pods need the rest
	reports := s.stopBatches(ctx)
	if err != nil && ctx.Err() == nil {
		if err = s.look(ctx, max(lastLook, s.left())); err == nil {
			reports = append(reports, s.stopBatches(ctx)...)
		}
	}
	return reports, err
}

// awaitStart waits until the start is over, but no longer than the plan allows.
func (s *stopping) awaitStart(ctx context.Context) error {
	limited, cancel := timing.WithTimeout(ctx, s.Clock, s.left())
	defer cancel()
	select {
	case <-s.Start.OpenedC():
		return nil
	case <-limited.Done():
		return fmt.Errorf("%w: %w", errRunningUnknown, errors.Join(s.Start.Gate(), context.Cause(ctx)))
	}
}

// look finds the pods that run and that Unfinished does not have: no worker has them, or one that
// knows no more than the runtime. It asks the runtime until it answers, or until patience is over,
// whether the runtime hears that or not: the pods must be told to stop.
func (s *stopping) look(ctx context.Context, patience time.Duration) error {
	limited, cancel := timing.WithTimeout(ctx, s.Clock, patience)
	defer cancel()
	known := map[types.UID]bool{} // before the list: a pod that finishes meanwhile is in it, too
	for _, p := range s.Residents.Unfinished() {
		known[p.UID] = true
	}
	listed, err := list(limited, s.Runtime, s.Clock)
	if err != nil {
		return fmt.Errorf("%w: %w", errRunningUnknown, err)
	}
	for _, p := range listed {
		if p.Running() && !known[p.UID] {
			s.orphans[p.UID] = p
		}
	}
	return nil
}

// pods returns the pods that have not been told to stop yet.
func (s *stopping) pods() []*v1.Pod {
	all := s.Residents.Unfinished()
	for uid, p := range s.orphans {
		if !slices.ContainsFunc(all, func(known *v1.Pod) bool { return known.UID == uid }) {
			all = append(all, s.podOf(p))
		}
	}
	slices.SortFunc(all, byName)
	return slices.DeleteFunc(all, func(p *v1.Pod) bool { return s.told[p.UID] })
}

// podOf returns a pod that Unfinished does not have as it is desired or remembered, otherwise what the
// runtime says about it.
func (s *stopping) podOf(p *runtime.Pod) *v1.Pod {
	if desired, ok := s.Residents.Desired.Get(p.UID); ok {
		return desired
	}
	if remembered := s.Start.Remembered(p.UID); remembered != nil {
		return remembered
	}
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{UID: p.UID, Namespace: p.Namespace, Name: p.Name},
		Spec:       v1.PodSpec{TerminationGracePeriodSeconds: ptr.To[int64](leftoverGrace)},
	}
}

// stopBatches stops what has not been told to stop yet.
func (s *stopping) stopBatches(ctx context.Context) (reports []shutdown.PodReport) {
	for _, batch := range s.plan.Batches(s.pods()) {
		if ctx.Err() != nil {
			break // the pods of this group were not told to stop, and go on
		}
		reports = append(reports, s.stopBatch(ctx, batch)...)
	}
	return reports
}

// stopBatch stops the pods of one group together and waits for them no longer than the group's
// time, or what is left of the plan's.
func (s *stopping) stopBatch(ctx context.Context, batch shutdown.Batch) []shutdown.PodReport {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	over := fmt.Errorf("the time of its group, %v, is over", batch.Time)
	if s.left() < batch.Time {
		over = errPlanOver
	}
	limit := s.Clock.AfterFunc(min(batch.Time, s.left()), func() { cancel(over) })
	defer limit.Stop()
	results := make([]shutdown.PodReport, len(batch.Pods))
	var wg sync.WaitGroup
	for i, pod := range batch.Pods {
		s.told[pod.UID] = true
		wg.Go(func() { results[i] = s.stopPod(ctx, batch.Group, pod) })
	}
	wg.Wait()
	return results
}

// stopPod stops a pod and waits until what it held is released. If the workers end first, nothing
// stops the pod any more, and the shutdown is over.
func (s *stopping) stopPod(ctx context.Context, group shutdown.Group, pod *v1.Pod) shutdown.PodReport {
	grace := group.Grace(pod)
	r := shutdown.PodReport{UID: pod.UID, Namespace: pod.Namespace, Name: pod.Name, Group: group.Priority, Grace: grace}
	err := s.kill(ctx, pod, podworkers.KillOptions{GracePeriodSeconds: &grace, StatusFunc: shutdown.Amend})
	if r.Stopped = err == nil; r.Stopped {
		if err = s.Stopper.WaitFinished(ctx, pod.UID); err != nil {
			err = fmt.Errorf("not everything it held is released: %w", err)
		}
	}
	if errors.Is(err, podworkers.ErrStopped) {
		r.Stopped = r.Stopped && s.orphans[pod.UID] == nil // their kills do not say why they are over
		s.end(s.ErrStopped)
	}
	if r.Released = err == nil; !r.Released {
		r.Problem = err.Error()
	}
	return r
}

// kill stops a pod and waits until no container of it runs. Only a pod that is desired may have got a
// worker that can be told without what the runtime says.
func (s *stopping) kill(ctx context.Context, pod *v1.Pod, kill podworkers.KillOptions) error {
	orphan := s.orphans[pod.UID]
	desired, wanted := s.Residents.Desired.Get(pod.UID)
	if orphan == nil || wanted && s.Residents.Known(pod.UID) {
		err := s.Stopper.KillPod(ctx, pod, kill)
		return err
	}
	done := make(chan struct{})
	kill.Completed = done
	told := s.Stopper.UpdatePod(s.Start.KillRunning(orphan, desired, kill)).Accepted()
	if !told && !s.Stopper.IsPodKnownTerminated(pod.UID) {
		return podworkers.ErrStopped // the workers are stopping; done is closed all the same
	}
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
