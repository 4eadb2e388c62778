package syncloop

import (
	"context"
	"errors"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/podinfo"
)

// handle handles the next pods of a lane, at most limit, and returns how many.
func (l *Loop) handle(ctx context.Context, from lane, limit int) int {
	if from == laneSync {
		return l.handleSyncs(ctx, limit)
	}
	return l.handleOperations(ctx, from, limit)
}

// handleOperations handles the oldest operation of a lane: up to limit pods of it,
// or fewer if that takes long.
func (l *Loop) handleOperations(ctx context.Context, from lane, limit int) int {
	defer l.stamp(ctx, "operation")()
	l.fence.Lock()
	defer l.fence.Unlock()

	part, begin := l.pending.take(from, limit), l.options.Clock.Now()
	for i, pod := range part.pods {
		l.handlePod(ctx, part.op, pod)
		if l.options.Clock.Since(begin) > longIteration {
			part.pods = part.pods[:i+1]
			break
		}
	}
	l.metrics.operation(ctx, part)
	l.options.Logger.V(3).Info("Handled operation", "operation", part.op.String(), "source", part.source, "pods", len(part.pods))
	for _, m := range l.pending.handled(from, part.pods) {
		l.mux.handled(m.batch)
		// The mark is set after the handler, for every operation (R1).
		if l.mux.consumed(m.sources) {
			l.becomeReady(ctx)
		}
	}
	l.planRetry()
	return max(1, len(part.pods))
}

// handlePod handles one pod of an operation (section 10).
func (l *Loop) handlePod(ctx context.Context, o op, pod *v1.Pod) {
	switch {
	case o == opRemove:
		l.remove(ctx, pod)
		return
	case o > opReconcile:
		l.options.Logger.Error(errUnknownOperation, "Operation ignored", "operation", int(o), "uid", pod.UID) // L4
		return
	}
	if former := l.deferred[pod.UID]; former != nil && nameOf(former) != nameOf(pod) {
		// Its UID has passed to this pod. No source that is still unheard can want it, and its name must become free (M5, R3).
		delete(l.deferred, pod.UID)
		l.submit(ctx, WorkKill, former, nil)
	}
	before, known := l.store.Get(pod.UID)
	l.store.set(pod)
	if l.options.Observed != nil {
		l.options.Observed(pod)
	}
	if podinfo.Mirror(pod) {
		if static := l.store.staticOf(pod); static != nil && o != opReconcile {
			l.change(ctx, WorkUpdate, static, pod)
		}
		return
	}
	switch {
	case o == opAdd:
		l.enter(ctx, pod)
		return
	case known && podinfo.ShowsEnd(before) && !podinfo.ShowsEnd(pod):
		l.reenter(ctx, before, pod)
		return
	}
	switch o {
	case opUpdate, opDelete:
		l.change(ctx, WorkUpdate, pod, l.store.MirrorOf(pod))
	case opReconcile:
		if l.options.Evicted != nil && IsEvicted(&pod.Status) {
			l.options.Evicted(pod)
		}
		// Only pods with readiness gates depend on their status in the API, and one that others have ended, which is to stop.
		ended := known && !podinfo.Terminal(before.Status.Phase) && podinfo.Terminal(pod.Status.Phase)
		if ended || len(pod.Spec.ReadinessGates) > 0 {
			l.change(ctx, WorkSync, pod, l.store.MirrorOf(pod))
		}
	}
}

// IsEvicted reports whether a status is that of an evicted pod.
func IsEvicted(s *v1.PodStatus) bool {
	return s.Phase == v1.PodFailed && s.Reason == podinfo.ReasonEvicted
}

var errUnknownOperation = errors.New("no operation has this number")

// change dispatches work for a known pod, if it may run.
func (l *Loop) change(ctx context.Context, kind WorkKind, pod, mirror *v1.Pod) {
	if !l.verdicts.withholds(pod.UID) {
		l.submit(ctx, kind, pod, mirror)
	}
}

// remove handles a pod that no source wants.
func (l *Loop) remove(ctx context.Context, pod *v1.Pod) {
	l.store.remove(pod.UID)
	l.verdicts.forget(pod.UID)
	switch {
	case podinfo.Mirror(pod):
		// The static pod keeps running, without this mirror (MC5).
		if static := l.store.staticOf(pod); static != nil {
			l.change(ctx, WorkUpdate, static, nil)
		}
	case !l.Ready():
		l.deferred[pod.UID] = pod // R3, B7
	default:
		l.submit(ctx, WorkKill, pod, nil)
	}
}

// handleSyncs dispatches syncs for up to limit pods that the runtime or others named.
func (l *Loop) handleSyncs(ctx context.Context, limit int) int {
	defer l.stamp(ctx, "event")()
	l.fence.Lock()
	defer l.fence.Unlock()

	n := min(limit, len(l.syncs))
	for _, uid := range l.syncs[:n] {
		if pod, ok := l.store.Get(uid); ok { // PE1, PR4: others are not ours
			l.change(ctx, WorkSync, pod, l.store.MirrorOf(pod))
		}
	}
	if l.syncs = l.syncs[n:]; len(l.syncs) == 0 {
		l.syncs = nil
	}
	l.planRetry()
	return n
}

// submit dispatches work, or holds it.
func (l *Loop) submit(ctx context.Context, kind WorkKind, pod, mirror *v1.Pod) {
	l.held.submit(ctx, Work{Kind: kind, Pod: pod, MirrorPod: mirror, StartTime: l.options.Clock.Now()})
}

func sortedUIDs[V any](m map[types.UID]V) []types.UID {
	return slices.Sorted(maps.Keys(m))
}
