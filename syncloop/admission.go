package syncloop

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/podinfo"
)

// Admission decides which pods may run (section 11).
//
// Admit is called by the loop, one call at a time, with the loop's fence held: it
// must not block, and must not call back into the Loop. It is called once per pod,
// when the pod's source adds it. others yields the desired pods that were judged
// before, without this one (AD1); it is valid during the call.
//
// A refused pod stays desired and is never dispatched except to be killed (AD3, SI5). After an
// error or a panic the verdict is not known yet: only this pod waits, and is judged again after a
// back-off, before later pods (IN6). Others overtake it; an Admission that keeps room for it leaves
// them without a verdict too. Methods of the error refine that. Behind() bool, if true: no pod is
// judged for a moment, because the verdict of an earlier pod is about to come; call [Loop.Answered] then. Patience()
// time.Duration: how long the wait may take before it is a problem, if that is more than 10 s.
// Line() string: later pods that got an error with the same line are judged only once this pod
// has its verdict, or has waited too long for it.
type Admission interface {
	Admit(ctx context.Context, pod *v1.Pod, others iter.Seq[*v1.Pod]) (admitted bool, err error)
}

// Rememberer is an optional ability of an [Admission] that outlives restarts.
type Rememberer interface {
	// Remembered reports a pod that was admitted before. Of the pods that a source adds at
	// once, these are judged first. It must not block.
	Remembered(uid types.UID) bool
}

// openVerdict is the wait of a pod for its verdict.
type openVerdict struct {
	uid   types.UID
	order int // of arrival
	since time.Time
	// kind is what is dispatched if the pod is admitted.
	kind WorkKind
	// err is why there was no verdict the last time, due when the wait becomes too long, line
	// the line in which the pod waits.
	err  error
	line string
	due  time.Time
	// told is the text of the pod's event.
	told string
}

// verdicts holds the new pods that wait for their verdict, and those that were refused.
// The loop changes it; others read it.
type verdicts struct {
	mu      sync.Mutex
	open    map[types.UID]*openVerdict
	arrived int
	refused map[types.UID]bool
	// answered holds the pods about which an answer has come, in this order.
	answered []types.UID
}

// withholds reports whether the pod must not be dispatched.
func (v *verdicts) withholds(uid types.UID) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.refused[uid] || v.open[uid] != nil
}

// waits reports whether a pod waits for its verdict.
func (v *verdicts) waits(uid types.UID) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.open[uid] != nil
}

// add puts a pod behind those that already wait.
func (v *verdicts) add(uid types.UID, kind WorkKind, now time.Time) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.arrived++
	v.open[uid] = &openVerdict{uid: uid, order: v.arrived, since: now, kind: kind, due: now.Add(verdictDue)}
}

// decide ends the wait of a pod, and returns the work to dispatch if it is admitted.
func (v *verdicts) decide(uid types.UID, admitted bool) WorkKind {
	v.mu.Lock()
	defer v.mu.Unlock()
	kind := v.open[uid].kind
	delete(v.open, uid)
	delete(v.refused, uid)
	if !admitted {
		v.refused[uid] = true
	}
	return kind
}

// putOff records why a pod keeps waiting. It reports whether an event is due, because the verdict
// is overdue and no event has said so yet.
func (v *verdicts) putOff(uid types.UID, err error, now time.Time) (tell bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	o := v.open[uid]
	o.err, o.line, o.due = err, lineOf(err), o.since.Add(verdictDue)
	var wait *WaitError
	var fault interface{ Fault() bool }
	var patient interface{ Patience() time.Duration }
	switch {
	case errors.As(err, &wait):
		o.due = wait.Until
	case errors.As(err, &patient):
		o.due = o.since.Add(max(verdictDue, patient.Patience()))
	case errors.Is(err, errAdmissionPanic) || errors.As(err, &fault) && fault.Fault():
		o.due = o.since
	}
	if now.Before(o.due) || o.told != "" {
		return false
	}
	o.told = err.Error()
	return true
}

// lineOf returns the line in which a pod waits, "" if it waits alone.
func lineOf(err error) string {
	var l interface{ Line() string }
	if errors.As(err, &l) {
		return l.Line()
	}
	return ""
}

// line returns the line of an open verdict.
func (v *verdicts) line(uid types.UID) string {
	v.mu.Lock()
	defer v.mu.Unlock()
	if o := v.open[uid]; o != nil {
		return o.line
	}
	return ""
}

// forget drops everything about a pod that is no longer wanted.
func (v *verdicts) forget(uid types.UID) {
	v.mu.Lock()
	defer v.mu.Unlock()
	delete(v.refused, uid)
	delete(v.open, uid)
}

// queue returns the waiting pods, in the order of their arrival.
func (v *verdicts) queue() []types.UID {
	v.mu.Lock()
	defer v.mu.Unlock()
	all := slices.SortedFunc(maps.Values(v.open), func(a, b *openVerdict) int { return cmp.Compare(a.order, b.order) })
	uids := make([]types.UID, len(all))
	for i, o := range all {
		uids[i] = o.uid
	}
	return uids
}

func (v *verdicts) empty() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return len(v.open) == 0
}

// verdictDue is the time after which a verdict is overdue, unless a [WaitError] says
// otherwise.
const verdictDue = 10 * time.Second

// WaitError is an error of [Admission.Admit] that says how long its cause may last before
// it is a problem.
type WaitError struct {
	Err   error
	Until time.Time
}

// Error returns the text of the cause.
func (e *WaitError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *WaitError) Unwrap() error { return e.Err }

// OpenVerdict is a pod that waits for its verdict (IN6).
type OpenVerdict struct {
	UID             types.UID
	Namespace, Name string
	// Since is when it was first judged.
	Since time.Time
	// Err is why there is no verdict; nil if it was not judged yet.
	Err error
	// Overdue says that it has waited too long, or that the Admission failed.
	Overdue bool
}

// OpenVerdicts returns the pods that wait for their verdict, in the order of their arrival.
// It may be called from anywhere.
func (l *Loop) OpenVerdicts() []OpenVerdict {
	var out []OpenVerdict
	for _, uid := range l.verdicts.queue() {
		if o, open := l.OpenVerdict(uid); open {
			out = append(out, o)
		}
	}
	return out
}

// OpenVerdict returns what a pod's verdict waits for, false if it does not wait.
func (l *Loop) OpenVerdict(uid types.UID) (OpenVerdict, bool) {
	out := OpenVerdict{UID: uid}
	if pod, desired := l.store.Get(uid); desired {
		out.Namespace, out.Name = pod.Namespace, pod.Name
	}
	now := l.options.Clock.Now() // before the lock: a fake clock may call Answered under its own
	l.verdicts.mu.Lock()
	defer l.verdicts.mu.Unlock()
	o := l.verdicts.open[uid]
	if o == nil {
		return OpenVerdict{}, false
	}
	out.Since, out.Err = o.since, o.err
	out.Overdue = o.err != nil && !now.Before(o.due)
	return out, true
}

// tellOverdue emits one event per pod whose verdict is overdue.
func (l *Loop) tellOverdue(pod *v1.Pod, err error) {
	var panicked interface{ Trace() string }
	stack := ""
	if errors.As(err, &panicked) {
		stack = panicked.Trace()
	}
	l.options.Logger.Error(err, "A pod has no verdict of its admission", "namespace", pod.Namespace, "name", pod.Name, "uid", pod.UID, "stack", stack)
	if l.options.Recorder != nil {
		l.options.Recorder.Eventf(pod, v1.EventTypeWarning, "UnexpectedAdmissionError", "the pod waits for its admission: %v", err)
	}
}

// Withheld reports whether a desired pod must not be handed to a worker, because it
// was refused or its verdict is not known yet (AD3). It may be called from anywhere, even
// with the fence held.
func (l *Loop) Withheld(uid types.UID) bool { return l.verdicts.withholds(uid) }

// enter judges a new pod, and dispatches it if it is admitted. Pods that already wait for
// their verdict do not delay it (IN6).
func (l *Loop) enter(ctx context.Context, pod *v1.Pod) {
	if l.options.Admission == nil {
		l.submit(ctx, WorkCreate, pod, l.store.MirrorOf(pod))
		return
	}
	l.verdicts.forget(pod.UID) // a new life of the UID
	l.verdicts.add(pod.UID, WorkCreate, l.options.Clock.Now())
	_ = l.judgePod(ctx, pod.UID)
}

// reenter judges a pod whose deletion its source takes back. A pod that arrived as deleted was
// not judged, because there was nothing to run (PS9).
func (l *Loop) reenter(ctx context.Context, before, pod *v1.Pod) {
	kind := WorkUpdate
	if podinfo.Static(pod) && !podinfo.Terminal(before.Status.Phase) {
		kind = WorkCreate // it has ended or will, and nothing but a Create asks for its next life (U5)
	}
	if l.options.Admission == nil {
		l.change(ctx, kind, pod, l.store.MirrorOf(pod))
		return
	}
	l.verdicts.forget(pod.UID)
	l.verdicts.add(pod.UID, kind, l.options.Clock.Now())
	_ = l.judgePod(ctx, pod.UID)
}

// Readmit has a desired pod judged again, like a new one, for a new life: its last life was
// refused or is over. No worker gets the pod before the verdict. It never blocks; a pod
// that no source wants is ignored.
func (l *Loop) Readmit(uid types.UID) {
	if l.options.Admission == nil || l.verdicts.waits(uid) {
		return
	}
	l.verdicts.add(uid, WorkCreate, l.options.Clock.Now())
	l.GateChanged()
}

// round is one round of questions about the pods that wait for their verdict, in the order of their
// arrival. It is taken in parts, so that what waits for the loop or its fence does not wait long (B5).
type round struct {
	left  []types.UID
	lines map[string]bool // those whose first pod waits on
	first error
	// again: something has changed during the round.
	again bool
	// behind are pods whose turn comes after the answer about another.
	behind []types.UID
}

// judge judges the waiting pods, or some of them if that takes long.
func (l *Loop) judge(ctx context.Context) {
	r, begin := &l.round, l.options.Clock.Now()
	if len(r.left) == 0 {
		*r = round{left: l.verdicts.queue(), lines: map[string]bool{}}
	}
	for len(r.left) > 0 && l.options.Clock.Since(begin) <= longIteration {
		uid := r.left[0]
		r.left = r.left[1:]
		if !l.verdicts.waits(uid) || r.lines[l.verdicts.line(uid)] {
			continue // each question goes through the other pods
		}
		err := l.judgePod(ctx, uid)
		if line := lineOf(err); line != "" && !l.overdue(uid) {
			if r.lines == nil { // no round has begun yet: pods behind another one came as they were added
				r.lines = map[string]bool{}
			}
			r.lines[line] = true
		}
		if r.first == nil {
			r.first = err
		}
		if isBehind(err) { // nor is any other judged that came later
			r.behind, r.left = append(r.behind, r.left...), nil
		}
	}
	if len(r.left) == 0 {
		l.admissionErrors.Note(l.options.Logger, l.options.Clock.Now(), r.first, "New pods wait for their admission", "Admission goes on")
	}
}

// overdue reports whether a pod waits too long for its verdict: it does not keep the others of its line waiting.
func (l *Loop) overdue(uid types.UID) bool {
	open, waits := l.OpenVerdict(uid)
	return waits && open.Overdue
}

func isBehind(err error) bool {
	var behind interface{ Behind() bool }
	return errors.As(err, &behind) && behind.Behind()
}

// judgePod judges one waiting pod. After an error only that pod keeps waiting.
func (l *Loop) judgePod(ctx context.Context, uid types.UID) error {
	pod, desired := l.store.Get(uid)
	if !desired {
		l.verdicts.forget(uid)
		return nil
	}
	admitted, err := l.ask(ctx, pod)
	if isBehind(err) {
		l.round.behind = append(l.round.behind, uid)
	}
	if err != nil {
		if l.verdicts.putOff(uid, err, l.options.Clock.Now()) {
			l.tellOverdue(pod, err)
		}
		return err
	}
	kind := l.verdicts.decide(uid, admitted)
	if admitted {
		l.submit(ctx, kind, pod, l.store.MirrorOf(pod))
	} else {
		l.TriggerHousekeeping() // a refused pod may have to be deleted
	}
	return nil
}

// ask returns the verdict on a pod; a panic is an error (B9).
func (l *Loop) ask(ctx context.Context, pod *v1.Pod) (admitted bool, err error) {
	defer func() {
		if p := recover(); p != nil {
			l.metrics.panicked(ctx, "admission")
			l.options.Logger.Error(fmt.Errorf("panic: %v", p), "The admission panicked", "uid", pod.UID, "stack", string(debug.Stack()))
			err = fmt.Errorf("%w: %v", errAdmissionPanic, p)
		}
	}()
	return l.options.Admission.Admit(ctx, pod, l.judged(pod.UID))
}

var errAdmissionPanic = errors.New("the admission panicked")

// judged yields the judged desired pods except one, in no order.
func (l *Loop) judged(except types.UID) iter.Seq[*v1.Pod] {
	return func(yield func(*v1.Pod) bool) {
		waits := map[types.UID]bool{except: true}
		for _, uid := range l.verdicts.queue() {
			waits[uid] = true
		}
		l.store.each(func(pod *v1.Pod) bool { return waits[pod.UID] || yield(pod) })
	}
}
