package syncloop

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"runtime/debug"
	"slices"
	"sync"

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

// Rememberer is an optional ability of an [Admission] that outlives restarts.
type Rememberer interface {
	// Remembered reports a pod that was admitted before. Of the pods a source adds at
	// once those are asked about first. It must not block.
	Remembered(uid types.UID) bool
}

// AdmissionFunc adapts a function to [Admission].
type AdmissionFunc func(ctx context.Context, pod *v1.Pod, others iter.Seq[*v1.Pod]) (bool, error)

// Admit calls f.
func (f AdmissionFunc) Admit(ctx context.Context, pod *v1.Pod, others iter.Seq[*v1.Pod]) (bool, error) {
	return f(ctx, pod, others)
}

// door is where new pods wait for their verdict, and refused ones stay. The loop
// changes it, others look.
type door struct {
	mu sync.Mutex
	// waiting pods have none yet, in the order they came.
	waiting []types.UID
	refused map[types.UID]bool
}

// closed reports whether the pod must not be dispatched.
func (d *door) closed(uid types.UID) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.refused[uid] || slices.Contains(d.waiting, uid)
}

// waits reports whether a pod waits for its verdict.
func (d *door) waits(uid types.UID) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Contains(d.waiting, uid)
}

// first returns the pod that has waited longest.
func (d *door) first() (types.UID, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.waiting) == 0 {
		return "", false
	}
	return d.waiting[0], true
}

// wait puts a pod at the end of those that wait. It reports whether it is alone.
func (d *door) wait(uid types.UID) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.waiting = append(d.waiting, uid)
	return len(d.waiting) == 1
}

// settle ends the wait of the first pod.
func (d *door) settle(uid types.UID, admitted bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.waiting = d.waiting[1:]
	if !admitted {
		d.refused[uid] = true
	}
}

// forget drops what is known of a pod that nobody wants any more.
func (d *door) forget(uid types.UID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.refused, uid)
	if i := slices.Index(d.waiting, uid); i >= 0 {
		d.waiting = slices.Delete(d.waiting, i, i+1)
	}
}

// queue returns the pods that wait.
func (d *door) queue() []types.UID {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.waiting)
}

func (d *door) empty() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.waiting) == 0
}

// Withheld reports whether a desired pod must not be handed to a worker, because it
// was refused or its verdict is not known yet (AD3). It may be called by anybody, with
// the fence held too.
func (l *Loop) Withheld(uid types.UID) bool { return l.door.closed(uid) }

// enter asks about a new pod, unless others wait already, and dispatches it if it
// is admitted.
func (l *Loop) enter(ctx context.Context, pod *v1.Pod) {
	if l.options.Admission == nil {
		l.create(ctx, pod)
		return
	}
	l.door.forget(pod.UID) // a new life, or another UID's second coming
	if alone := l.door.wait(pod.UID); alone {
		l.judge(ctx)
	}
}

// judge asks about the pods that wait, oldest first, up to the first whose verdict
// is not known.
func (l *Loop) judge(ctx context.Context) {
	for {
		uid, any := l.door.first()
		if !any {
			return
		}
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
		l.door.settle(uid, admitted)
		if !admitted {
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
		waits := map[types.UID]bool{except: true}
		for _, uid := range l.door.queue() {
			waits[uid] = true
		}
		l.store.each(func(pod *v1.Pod) bool { return waits[pod.UID] || yield(pod) })
	}
}

// create dispatches an admitted pod.
func (l *Loop) create(ctx context.Context, pod *v1.Pod) {
	l.submit(ctx, WorkCreate, pod, l.store.MirrorOf(pod))
}
