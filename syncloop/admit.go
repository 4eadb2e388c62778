package syncloop

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"runtime/debug"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Admission decides which pods may run (section 11).
//
// Admit is called by the loop, one call at a time, with the loop's fence held: it
// must not block, and must not call back into the Loop. A pod is asked about once,
// when its source adds it. others yields the desired pods that were asked about
// before, this one excluded (AD1); it is valid during the call.
//
// A pod that is refused stays desired and is never dispatched but to be killed
// (AD3, SI5). An error, or a panic, says that nobody knows yet: the pod waits and
// is asked about again after a back-off, before those that came later.
type Admission interface {
	Admit(ctx context.Context, pod *v1.Pod, others iter.Seq[*v1.Pod]) (admitted bool, err error)
}

// AdmissionFunc adapts a function to [Admission].
type AdmissionFunc func(ctx context.Context, pod *v1.Pod, others iter.Seq[*v1.Pod]) (bool, error)

// Admit calls f.
func (f AdmissionFunc) Admit(ctx context.Context, pod *v1.Pod, others iter.Seq[*v1.Pod]) (bool, error) {
	return f(ctx, pod, others)
}

// door is where new pods wait for their verdict, and refused ones stay. It belongs
// to the goroutine of the loop.
type door struct {
	// waiting pods have none yet, in the order they came.
	waiting []types.UID
	refused map[types.UID]bool
}

// closed reports whether the pod must not be dispatched.
func (d *door) closed(uid types.UID) bool {
	return d.refused[uid] || slices.Contains(d.waiting, uid)
}

// forget drops what is known of a pod that nobody wants any more.
func (d *door) forget(uid types.UID) {
	delete(d.refused, uid)
	if i := slices.Index(d.waiting, uid); i >= 0 {
		d.waiting = slices.Delete(d.waiting, i, i+1)
	}
}

// enter asks about a new pod, unless others wait already, and dispatches it if it
// is admitted.
func (l *Loop) enter(ctx context.Context, pod *v1.Pod) {
	if l.options.Admission == nil {
		l.create(ctx, pod)
		return
	}
	l.door.forget(pod.UID) // a new life, or another UID's second coming
	l.door.waiting = append(l.door.waiting, pod.UID)
	if len(l.door.waiting) == 1 {
		l.judge(ctx)
	}
}

// judge asks about the pods that wait, oldest first, up to the first whose verdict
// is not known.
func (l *Loop) judge(ctx context.Context) {
	for len(l.door.waiting) > 0 {
		uid := l.door.waiting[0]
		pod, desired := l.store.Get(uid)
		if !desired {
			l.door.forget(uid)
			continue
		}
		admitted, err := l.ask(ctx, pod)
		if err != nil {
			l.doubts.Note(l.options.Logger, l.options.Clock.Now(), err, "New pods wait for their admission", "Admission goes on")
			return
		}
		l.doubts.Note(l.options.Logger, l.options.Clock.Now(), nil, "New pods wait for their admission", "Admission goes on")
		l.door.waiting = l.door.waiting[1:]
		if !admitted {
			l.door.refused[uid] = true
			l.TriggerHousekeeping() // a refused pod may be one that is to be deleted
			continue
		}
		l.create(ctx, pod)
	}
}

// ask returns the verdict on a pod; a panic is an error (B9).
func (l *Loop) ask(ctx context.Context, pod *v1.Pod) (admitted bool, err error) {
	defer func() {
		if p := recover(); p != nil {
			l.metrics.panicked(ctx, "admission")
			err = fmt.Errorf("%w: %v\n%s", errAdmissionPanic, p, debug.Stack())
		}
	}()
	return l.options.Admission.Admit(ctx, pod, l.judged(pod.UID))
}

var errAdmissionPanic = errors.New("the admission panicked")

// judged yields the desired pods that were asked about, in no order, without one.
func (l *Loop) judged(except types.UID) iter.Seq[*v1.Pod] {
	return func(yield func(*v1.Pod) bool) {
		if len(l.door.waiting) <= 1 {
			l.store.each(func(pod *v1.Pod) bool { return pod.UID == except || yield(pod) })
			return
		}
		waits := make(map[types.UID]bool, len(l.door.waiting))
		for _, uid := range l.door.waiting {
			waits[uid] = true
		}
		l.store.each(func(pod *v1.Pod) bool { return pod.UID == except || waits[pod.UID] || yield(pod) })
	}
}

// create dispatches an admitted pod.
func (l *Loop) create(ctx context.Context, pod *v1.Pod) {
	l.submit(ctx, WorkCreate, pod, l.store.MirrorOf(pod))
}
