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
// A pod that is refused stays desired and is never dispatched except to be killed
// (AD3, SI5). After an error, or a panic, the verdict is not known yet: the pod waits and
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

// verdicts holds the new pods that wait for their verdict, and those that were refused.
// The loop changes it; others read it.
type verdicts struct {
	mu sync.Mutex
	// waiting pods have none yet, in the order they came.
	waiting []types.UID
	refused map[types.UID]bool
}

// withholds reports whether the pod must not be dispatched.
func (v *verdicts) withholds(uid types.UID) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.refused[uid] || slices.Contains(v.waiting, uid)
}

// waits reports whether a pod waits for its verdict.
func (v *verdicts) waits(uid types.UID) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return slices.Contains(v.waiting, uid)
}

// first returns the pod that has waited longest.
func (v *verdicts) first() (types.UID, bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if len(v.waiting) == 0 {
		return "", false
	}
	return v.waiting[0], true
}

// add puts a pod at the end of those that wait. It reports whether no other waits.
func (v *verdicts) add(uid types.UID) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.waiting = append(v.waiting, uid)
	return len(v.waiting) == 1
}

// decide ends the wait of the first pod.
func (v *verdicts) decide(uid types.UID, admitted bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.waiting = v.waiting[1:]
	if !admitted {
		v.refused[uid] = true
	}
}

// forget drops what is known of a pod that is no longer wanted.
func (v *verdicts) forget(uid types.UID) {
	v.mu.Lock()
	defer v.mu.Unlock()
	delete(v.refused, uid)
	if i := slices.Index(v.waiting, uid); i >= 0 {
		v.waiting = slices.Delete(v.waiting, i, i+1)
	}
}

// queue returns the pods that wait.
func (v *verdicts) queue() []types.UID {
	v.mu.Lock()
	defer v.mu.Unlock()
	return slices.Clone(v.waiting)
}

func (v *verdicts) empty() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return len(v.waiting) == 0
}

// Withheld reports whether a desired pod must not be handed to a worker, because it
// was refused or its verdict is not known yet (AD3). It may be called from anywhere, with
// the fence held too.
func (l *Loop) Withheld(uid types.UID) bool { return l.verdicts.withholds(uid) }

// enter asks about a new pod, unless others wait already, and dispatches it if it
// is admitted.
func (l *Loop) enter(ctx context.Context, pod *v1.Pod) {
	if l.options.Admission == nil {
		l.create(ctx, pod)
		return
	}
	l.verdicts.forget(pod.UID) // a new life of the UID
	if alone := l.verdicts.add(pod.UID); alone {
		l.judge(ctx)
	}
}

// judge asks about the pods that wait, oldest first, up to the first whose verdict
// is not known.
func (l *Loop) judge(ctx context.Context) {
	for {
		uid, any := l.verdicts.first()
		if !any {
			return
		}
		pod, desired := l.store.Get(uid)
		if !desired {
			l.verdicts.forget(uid)
			continue
		}
		admitted, err := l.ask(ctx, pod)
		if err != nil {
			l.admissionErrors.Note(l.options.Logger, l.options.Clock.Now(), err, "New pods wait for their admission", "Admission goes on")
			return
		}
		l.admissionErrors.Note(l.options.Logger, l.options.Clock.Now(), nil, "New pods wait for their admission", "Admission goes on")
		l.verdicts.decide(uid, admitted)
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
		for _, uid := range l.verdicts.queue() {
			waits[uid] = true
		}
		l.store.each(func(pod *v1.Pod) bool { return waits[pod.UID] || yield(pod) })
	}
}

// create dispatches an admitted pod.
func (l *Loop) create(ctx context.Context, pod *v1.Pod) {
	l.submit(ctx, WorkCreate, pod, l.store.MirrorOf(pod))
}
