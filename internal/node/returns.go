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
	"github.com/podwright/podwright/syncloop"
)

// Timing of the return of static pods.
const (
	// defaultReturnPeriod is the period without an eviction policy that names one.
	defaultReturnPeriod = 5 * time.Minute
	// returnGap is the least time between two looks, returnPoll the longest while a pod
	// waits: signals are hints.
	returnGap  = time.Second
	returnPoll = 10 * time.Second
)

var errLastLife = errors.New("its last life is not over")

// Judge decides which pods may run; [Preemption] does.
type Judge interface {
	syncloop.Admission
	syncloop.Rememberer
	// Fits reports whether a pod would get room beside others, by making some if need be.
	Fits(pod *v1.Pod, beside []*v1.Pod) bool
}

// Pressure says whether the node is short of something; [Evictions] does.
type Pressure interface {
	// Relieved returns why no evicted pod may come back, nil if one may; Takes says the
	// same of one pod that was not evicted.
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
	// Readmit has a pod judged again, as a new one. It must not block.
	Readmit func(uid types.UID)
	// Renew begins a new life of a pod: nothing that is known of the last one counts.
	Renew func(uid types.UID)
	// Forget drops the worker of a pod that has done its last step.
	Forget func(uid types.UID) bool
	// Period is how long a pod stays out at least. Not positive: 5 min.
	Period time.Duration
	Clock  clock.WithTicker
	Events podinfo.EventRecorder
	Logger logr.Logger
}

// Returns lets static pods come back that were evicted, preempted or refused for lack of
// room (IN14), because nothing makes them again: when the node has had no pressure and
// enough room for a period, a new life of the pod begins, by way of the admission. A pod
// is tried at most once per period, so that neither pressure that comes and goes nor
// critical pods that do make it run and stop all the time.
type Returns struct {
	options ReturnOptions
	signal  chan struct{}

	mu sync.Mutex
	// noted are pods to look at: static pods that came, ended or were refused.
	noted map[types.UID]bool
	// waiting are the outcasts among them, and when each may be tried.
	waiting map[types.UID]wait
	// returning are those that the admission is asked about.
	returning map[types.UID]outcast
}

// wait is an outcast that waits.
type wait struct {
	outcast
	due time.Time
	// why it was not tried at the last look, though it was time.
	why error
}

var (
	_ syncloop.Admission  = (*Returns)(nil)
	_ syncloop.Rememberer = (*Returns)(nil)
)

// NewReturns returns an admission that judges pods as the judge does. Outcasts are tried
// again while Run runs.
func NewReturns(options ReturnOptions) *Returns {
	if options.Period <= 0 {
		options.Period = defaultReturnPeriod
	}
	return &Returns{
		options: options, signal: make(chan struct{}, 1),
		noted: map[types.UID]bool{}, waiting: map[types.UID]wait{}, returning: map[types.UID]outcast{},
	}
}

// Note has a static pod looked at soon: it came, was refused, or its end was written down.
// It never blocks.
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

// Changed says that there may be room, or less pressure, or that the gate is open. It
// never blocks.
func (r *Returns) Changed() {
	select {
	case r.signal <- struct{}{}:
	default:
	}
}

// Run lets pods come back until ctx ends.
func (r *Returns) Run(ctx context.Context) error {
	var again <-chan time.Time // nothing waits: signals alone
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-r.signal:
		case <-again:
		}
		next := r.look(r.options.Clock.Now())
		gap := r.options.Clock.NewTimer(returnGap)
		select { // signals that come meanwhile are one
		case <-ctx.Done():
			gap.Stop()
			return nil
		case <-gap.C():
		}
		if again = nil; next > 0 {
			gap.Reset(max(next-returnGap, 0))
			again = gap.C()
		}
	}
}

// look tries what may be tried, and returns after which time to look again at the latest;
// 0 if nothing waits.
func (r *Returns) look(now time.Time) time.Duration {
	if r.options.Gate() != nil {
		return returnPoll
	}
	list, next := r.sort(now)
	if len(list) > 0 {
		chosen := choose(list, r.beside(), r.options.Judge.Fits)
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

// sort brings waiting up to date. It returns the outcasts for which it is time and that no
// pressure keeps out, and when to look again.
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

// outcast returns a pod as an outcast, false if it is none, or comes back already.
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

// Waits says why a pod does not run, and what it waits for; empty if it is no outcast.
func (r *Returns) Waits(uid types.UID) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	w, out := r.waiting[uid]
	switch {
	case !out:
		return ""
	case w.why == nil:
		return w.cause + "; it is tried again"
	}
	return w.cause + "; it waits: " + w.why.Error()
}

// Remembered is the judge's.
func (r *Returns) Remembered(uid types.UID) bool { return r.options.Judge.Remembered(uid) }

// Admit is the judge's. An outcast begins its new life here: the worker of its last life is
// forgotten. Like every admission it has the loop's fence, so that nothing comes in between.
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
		r.options.Logger.Info("A static pod is tried again", "namespace", pod.Namespace, "name", pod.Name, "uid", pod.UID, "was", o.cause)
		r.options.Events.Eventf(pod, v1.EventTypeNormal, reasonReturning, "The pod was %s; it is tried again", o.cause)
	}
	return r.options.Judge.Admit(ctx, pod, others)
}

// reasonReturning is the reason of the event that tells of a new life.
const reasonReturning = "TriedAgain"
