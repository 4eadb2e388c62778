package syncloop

import (
	"cmp"
	"context"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// handleOperations handles up to a chunk of pods of the oldest operation.
func (l *Loop) handleOperations(ctx context.Context) {
	defer l.stamp(ctx, "operation")()
	l.fence.Lock()
	defer l.fence.Unlock()

	b := &l.pending[0]
	o := &b.operations[0]
	n := min(chunk, len(o.pods))
	part := operation{op: o.op, source: o.source, pods: o.pods[:n]}
	o.pods = o.pods[n:]
	l.metrics.operation(ctx, part)
	l.options.Logger.V(3).Info("Handling operation", "operation", part.op.String(), "source", part.source, "pods", n)
	for _, pod := range part.pods {
		l.handle(ctx, part.op, pod)
	}
	if len(o.pods) > 0 {
		return
	}
	if b.operations = b.operations[1:]; len(b.operations) == 0 {
		l.mux.handled(*b)
		l.pending = l.pending[1:]
	}
	// The mark is set after the handler, for every operation (R1).
	if l.mux.consumed(part.source) {
		l.becomeReady(ctx)
	}
	l.planRetry()
}

// compareAge orders pods as ADD handles them: oldest first, without a creation
// time before all, then by UID (section 10).
func compareAge(a, b *v1.Pod) int {
	return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.UID, b.UID))
}

// handle handles one pod of an operation (section 10).
func (l *Loop) handle(ctx context.Context, o op, pod *v1.Pod) {
	if o == opRemove {
		l.remove(ctx, pod)
		return
	}
	l.store.Set(pod)
	mirror := IsMirror(pod)
	switch {
	case mirror && o == opReconcile:
	case mirror:
		if static := l.store.StaticOf(pod); static != nil {
			l.submit(ctx, WorkUpdate, static, pod)
		}
	case o == opAdd:
		l.submit(ctx, WorkCreate, pod, l.store.MirrorOf(pod))
	case o == opReconcile:
		// Only pods with readiness gates depend on their status in the API.
		if len(pod.Spec.ReadinessGates) > 0 {
			l.submit(ctx, WorkSync, pod, l.store.MirrorOf(pod))
		}
	default:
		l.submit(ctx, WorkUpdate, pod, l.store.MirrorOf(pod))
	}
}

// remove handles a pod that no source wants any more.
func (l *Loop) remove(ctx context.Context, pod *v1.Pod) {
	l.store.Remove(pod.UID)
	switch {
	case IsMirror(pod):
		// The static pod runs on, without this mirror (MC5).
		if static := l.store.StaticOf(pod); static != nil {
			l.submit(ctx, WorkUpdate, static, nil)
		}
	case !l.Ready():
		l.putOff[pod.UID] = pod // R3, B7
	default:
		l.submit(ctx, WorkKill, pod, nil)
	}
}

// handleSyncs has the workers look at up to a chunk of pods the runtime or others
// named.
func (l *Loop) handleSyncs(ctx context.Context) {
	defer l.stamp(ctx, "event")()
	l.fence.Lock()
	defer l.fence.Unlock()

	n := min(chunk, len(l.syncs))
	for _, uid := range l.syncs[:n] {
		if pod, ok := l.store.Get(uid); ok { // PE1, PR4: others are nobody's
			l.submit(ctx, WorkSync, pod, l.store.MirrorOf(pod))
		}
	}
	if l.syncs = l.syncs[n:]; len(l.syncs) == 0 {
		l.syncs = nil
	}
	l.planRetry()
}

// submit dispatches work, or holds it.
func (l *Loop) submit(ctx context.Context, kind WorkKind, pod, mirror *v1.Pod) {
	l.held.submit(ctx, Work{Kind: kind, Pod: pod, MirrorPod: mirror, StartTime: l.options.Clock.Now()})
}

func sortedUIDs[V any](m map[types.UID]V) []types.UID {
	return slices.Sorted(maps.Keys(m))
}
