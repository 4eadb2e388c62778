package node

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/podwright/podwright/internal/podinfo"
	"github.com/podwright/podwright/internal/recovery"
	"github.com/podwright/podwright/internal/timing"
	"github.com/podwright/podwright/syncloop"
)

// Timing of the return of static pods.
const (
	// defaultReturnPeriod applies if there is no eviction policy that names a period.
	defaultReturnPeriod = 5 * time.Minute
	// returnGap is the minimum time between two looks, returnPoll the maximum while a pod waits:
	// signals are only hints.
	returnGap  = time.Second
	returnPoll = 10 * time.Second
)

var errLastLife = errors.New("its last life is not over")

// Judge decides which pods may run; [Preemption] does.
type Judge interface {
	syncloop.Admission
	syncloop.Rememberer
	// Fitting returns a function that reports whether a pod would get room beside these and those that
	// it said so of before, by making some if necessary.
	Fitting(beside []*v1.Pod) func(pod *v1.Pod) bool
}

// Pressure says whether the node is short of something; [Evictions] does.
type Pressure interface {
	// Relieved returns why no evicted pod may come back, nil if one may. Takes returns the same for
	// one pod that was not evicted.
	Relieved() error
	Takes(pod *v1.Pod) error
}

// ReturnOptions configures [NewReturns].
type ReturnOptions struct {
	Judge    Judge
	Pressure Pressure
	// Past returns what is remembered of a pod that was refused or had to stop.
	Past      func(uid types.UID) (recovery.Past, bool)
	Residents *Residents
	// Others yields the pods that have a place, without one. Open returns those that wait
	// for their verdict; they have a claim to their room until they are overdue.
	Others func(except types.UID) iter.Seq[*v1.Pod]
	Open   func() []syncloop.OpenVerdict
	// Gate returns why no pod may be set up now.
	Gate func() error
	// Readmit has a pod judged again, as a new pod. It must not block.
	Readmit func(uid types.UID)
	// Renew begins a new life of a pod: nothing known about the last one counts.
	Renew func(uid types.UID)
	// Forget drops the worker of a pod that has done its last step.
	Forget func(uid types.UID) bool
	// Period is the minimum time a pod stays out. Not positive: 5 min.
	Period time.Duration
	Clock  clock.WithTicker
	Events podinfo.EventRecorder
	Logger logr.Logger
}

// Returns lets static pods come back that were evicted, preempted or refused for lack of room
// (IN14), because nothing else recreates them: once the node has had no pressure and enough room
// for a period, a new life of the pod begins, by way of admission. A pod is tried at most once per
// period, so that neither pressure that comes and goes nor critical pods that do so make it run and
// stop all the time.
type Returns struct {
	options ReturnOptions
	signal  chan struct{}

	mu sync.Mutex
	// noted holds the pods to look at: static pods that came, ended or were refused.
	noted map[types.UID]bool
	// waiting holds the outcasts among them, and when each may be tried.
	waiting map[types.UID]wait
	// returning holds those about which admission is being asked.
	returning map[types.UID]outcast
}

// wait is a waiting outcast.
type wait struct {
	outcast
	due time.Time
	// why it was not tried at the last look, although it was due.
	why error
}

var (
	_ syncloop.Admission  = (*Returns)(nil)
	_ syncloop.Rememberer = (*Returns)(nil)
)

// NewReturns returns an admission that judges pods as the judge does. While Run runs, outcasts are
// tried again.
func NewReturns(options ReturnOptions) *Returns {
	if options.Period <= 0 {
		options.Period = defaultReturnPeriod
	}
	return &Returns{
		options: options, signal: make(chan struct{}, 1),
		noted: map[types.UID]bool{}, waiting: map[types.UID]wait{}, returning: map[types.UID]outcast{},
	}
}

// Note asks for a look at a static pod soon: it came, was refused, or its end was recorded. It
// never blocks.
func (r *Returns) Note(pod *v1.Pod) {
	if !podinfo.Static(pod) {
		return
	}
	r.mu.Lock()
	r.noted[pod.UID] = true
	r.mu.Unlock()
	r.Changed()
}

// Written is Note for an outcast whose record was written.
func (r *Returns) Written(uid types.UID) {
	r.mu.Lock()
	_, out := r.waiting[uid]
	r.mu.Unlock()
	if out {
		r.Changed()
	}
}

// Changed says that there may be room or less pressure, or that the gate is open. It never blocks.
func (r *Returns) Changed() {
	select {
	case r.signal <- struct{}{}:
	default:
	}
}

// Run lets pods come back until ctx ends.
func (r *Returns) Run(ctx context.Context) error {
	for next := time.Duration(0); ; {
		if !r.await(ctx, next) {
			return nil
		}
		next = r.look(r.options.Clock.Now())
		if timing.Sleep(ctx, r.options.Clock, returnGap) != nil { // signals that arrive meanwhile are merged
			return nil
		}
	}
}

// await waits for a signal, or until the time after a look has passed, if it is not 0. It returns false if ctx has ended.
func (r *Returns) await(ctx context.Context, next time.Duration) bool {
	var again <-chan time.Time
	switch {
	case next > returnGap:
		timer := r.options.Clock.NewTimer(next - returnGap)
		defer timer.Stop()
		again = timer.C()
	case next > 0:
		return ctx.Err() == nil
	}
	select {
	case <-ctx.Done():
		return false
	case <-r.signal:
	case <-again:
	}
	return true
}

// look tries what may be tried, and returns after what time to look again at the latest; 0 if
// nothing waits.
func (r *Returns) look(now time.Time) time.Duration {
	if r.options.Gate() != nil {
		return returnPoll
	}
	list, next := r.sort(now)
	if len(list) > 0 {
		chosen := choose(list, r.options.Judge.Fitting(r.beside()))
		r.mu.Lock()
		for _, o := range list {
			w := r.waiting[o.pod.UID]
			w.why = errors.New("there is no room for it")
			r.waiting[o.pod.UID] = w
		}
		for _, o := range chosen {
			delete(r.waiting, o.pod.UID)
			r.returning[o.pod.UID] = o
		}
		r.mu.Unlock()
		for _, o := range chosen {
			r.options.Readmit(o.pod.UID)
		}
	}
	return next
}

// sort updates waiting. It returns the outcasts that are due and that no pressure keeps out, and
// when to look again.
func (r *Returns) sort(now time.Time) (list []outcast, next time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for uid := range r.waiting {
		r.noted[uid] = true
	}
	maps.DeleteFunc(r.returning, func(uid types.UID, _ outcast) bool {
		_, desired := r.options.Residents.Desired.Get(uid)
		return !desired
	})
	for uid := range r.noted {
		last := r.waiting[uid]
		delete(r.waiting, uid)
		o, out := r.outcast(uid)
		if !out {
			continue
		}
		w := wait{outcast: o, due: last.due}
		if last.pod == nil || !last.since.Equal(o.since) {
			w.due = o.due(now, r.options.Period)
		}
		if w.why = r.hindrance(&w, now); w.why == nil {
			list = append(list, o)
		}
		r.waiting[uid] = w
		if next == 0 {
			next = returnPoll
		}
		if left := w.due.Sub(now); left > 0 {
			next = min(next, left)
		}
	}
	clear(r.noted)
	return list, next
}

// outcast returns a pod as an outcast, or false if it is not one or is already coming back.
func (r *Returns) outcast(uid types.UID) (outcast, bool) {
	pod, desired := r.options.Residents.Desired.Get(uid)
	_, returning := r.returning[uid]
	past, known := r.options.Past(uid)
	if !desired || returning || !known {
		return outcast{}, false
	}
	return outcastOf(pod, past)
}

// hindrance returns why an outcast may not be tried now, nil if it may.
func (r *Returns) hindrance(w *wait, now time.Time) error {
	switch {
	case w.leaving:
		return errLastLife
	case now.Before(w.due):
		return fmt.Errorf("it is tried again after %s", w.due.Format(time.RFC3339))
	case !r.options.Residents.Heard():
		return errors.New("not every source has named its pods")
	case w.evicted:
		return r.options.Pressure.Relieved()
	}
	return r.options.Pressure.Takes(w.pod)
}

// beside returns the pods that have a place or a claim to one.
func (r *Returns) beside() []*v1.Pod {
	all := slices.Collect(r.options.Others(""))
	for _, v := range r.options.Open() {
		if pod, desired := r.options.Residents.Desired.Get(v.UID); desired && !v.Overdue {
			all = append(all, pod)
		}
	}
	return all
}

// Waits says why a pod is not running and what it waits for; empty if it is not an outcast.
func (r *Returns) Waits(uid types.UID) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	w, out := r.waiting[uid]
	switch {
	case !out:
		return ""
	case w.why == nil:
		return w.cause + "; starting it again"
	}
	return w.cause + "; it waits: " + w.why.Error()
}

// Remembered asks the judge.
func (r *Returns) Remembered(uid types.UID) bool { return r.options.Judge.Remembered(uid) }

// Admit asks the judge. An outcast begins its new life here: the worker of its last life is forgotten.
// Like every admission, it runs inside the loop's fence, so that nothing comes in between.
func (r *Returns) Admit(ctx context.Context, pod *v1.Pod, others iter.Seq[*v1.Pod]) (bool, error) {
	r.mu.Lock()
	o, returning := r.returning[pod.UID]
	r.mu.Unlock()
	if !returning {
		return r.options.Judge.Admit(ctx, pod, others)
	}
	r.mu.Lock()
	delete(r.returning, pod.UID)
	r.mu.Unlock()
	if r.options.Forget(pod.UID) || !r.options.Residents.Known(pod.UID) { // otherwise its source has begun another life meanwhile
		r.options.Renew(pod.UID)
		r.options.Logger.Info("A static pod is started again", "namespace", pod.Namespace, "name", pod.Name, "uid", pod.UID, "was", o.cause)
		r.options.Events.Eventf(pod, v1.EventTypeNormal, reasonReturning, "The pod was %s; starting it again", o.cause)
	}
	return r.options.Judge.Admit(ctx, pod, others)
}

// reasonReturning is the reason of the event that announces a new life.
const reasonReturning = "TriedAgain"
