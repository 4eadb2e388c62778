package syncloop

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"go.opentelemetry.io/otel/metric"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/podwright/podwright/internal/complaint"
	"github.com/podwright/podwright/internal/foreign"
	"github.com/podwright/podwright/internal/podinfo"
)

// Times of section 2 and 17.
const (
	defaultHousekeepingPeriod = 2 * time.Second
	defaultStuckAfter         = 5 * time.Minute
	// housekeepingGap is the least time between the starts of two passes (B6).
	housekeepingGap = 200 * time.Millisecond
	// housekeepingDelay passes between a trigger and its pass, so that a caller that
	// triggers when it is almost done has time to finish.
	housekeepingDelay = 10 * time.Millisecond
	// restAfter is how long nothing must have happened before passes are left out (B12).
	restAfter = 10 * time.Second
	// slowPass is the duration of a pass above which it is logged.
	slowPass = time.Second
	// retryMin and retryMax bound the time after which held work is tried again.
	retryMin = 100 * time.Millisecond
	retryMax = 5 * time.Second
)

// Options configures a [Loop]. The zero value is a loop without sources.
type Options struct {
	// Sources the loop runs and merges. Names must be unique.
	Sources []Source
	// Changes are pods whose runtime state changed. Nil means none.
	Changes Changes
	// Housekeeper is called every HousekeepingPeriod, and when triggered. Nil
	// means no housekeeping.
	Housekeeper Housekeeper
	// Gate returns why no pod should be set up now, nil when all is well. It
	// is called often, from the loop's goroutine, and must not block. Nil means
	// always open (B2). [Loop.GateChanged] makes the loop ask at once.
	Gate func() error
	// Admission decides which new pods may run. Nil: all may.
	Admission Admission
	// Review says why a known pod may not change as its source wants; the pod then stays as it is,
	// with an event (PS5). It must not block. Nil: every change is accepted.
	Review func(known, pod *v1.Pod) error
	// Owner returns the pod with a UID that was delivered to an earlier process but not to this
	// one, as it was last desired, and the name of its source; nil and "" if there is none. As
	// long as there is one, no other source gets the UID (PS6); while a pod waits for one, the loop
	// asks again after each pass of the Housekeeper. It must not block. Nil: there are none.
	Owner func(uid types.UID) (pod *v1.Pod, source string)
	// Lower returns a pod from before the start as it may be now, and why it differs from what its
	// source says; the pod itself and "" if it does not. It must not block. Nil: pods never differ
	// (PS7).
	Lower func(pod *v1.Pod) (lowered *v1.Pod, why string)
	// Admitted reports whether a pod that Review refuses as a new one was admitted before, and its
	// life goes on: it keeps its name (PS4), also among sources of one precedence (M4). It must not
	// block. Nil: no pod was, and all of Owner's live on.
	Admitted func(pod *v1.Pod) bool
	// Observed is called with each pod and mirror pod that a source delivers or changes, but
	// not on its removal; with the fence held, so it must not block. Optional.
	Observed func(pod *v1.Pod)
	// Evicted is called with a pod that was evicted according to its API, each time its status
	// in the API changes (section 10); with the fence held, so it must not block. Optional.
	Evicted func(pod *v1.Pod)
	// SourceDeadline is how long after its start a source may stay silent before the loop
	// treats it as if it had delivered no pods: running pods that it may want are then
	// stopped. 0 means no limit (safe: nothing is removed; R5).
	SourceDeadline time.Duration

	// HousekeepingPeriod is the time between passes that nothing triggered; while nothing happens
	// it is as long as the housekeeper says (B12). Default 2 s.
	HousekeepingPeriod time.Duration
	// StuckAfter is how long one iteration or one housekeeping pass may take
	// before [Loop.Problems] calls it unhealthy. Default 5 min (L6).
	StuckAfter time.Duration

	// Recorder receives events about pods. Nil drops them.
	Recorder podinfo.EventRecorder
	// Clock is the loop's time. Nil means the real clock.
	Clock clock.Clock
	// Logger is silent by default.
	Logger logr.Logger
	// Meter receives metrics. Nil drops them.
	Meter metric.Meter
}

// Loop merges sources, keeps the desired pods and dispatches work. Make one with
// [New]; all methods are safe for concurrent use.
type Loop struct {
	options  Options
	dispatch func(Work)
	metrics  *metrics
	mux      *mux
	store    *Store
	sources  *sources
	calls    *foreign.Calls // of the sources
	reports  *reports

	started atomic.Bool
	first   sync.Once // closes readyC
	readyC  chan struct{}
	trigger chan struct{}
	// gateChanged has one slot: the gate may have opened.
	gateChanged chan struct{}
	// answers has one slot: an answer of the admission has come.
	answers chan struct{}

	// fence is held while an operation or event is handled, and while a
	// housekeeping pass needs pods and workers to stand still (B5).
	fence fence
	held  *held

	busySince atomic.Pointer[time.Time]
	passSince atomic.Pointer[time.Time]
	// passes tracks what was logged about failed passes; the pass under way owns it.
	passes complaint.Complaint

	// What follows belongs to the goroutine of Run.
	pending  pending
	syncs    []types.UID // pods to sync, not handled yet
	turns    turns
	verdicts verdicts
	round    round
	// admissionErrors tracks what was logged about an admission that does not answer.
	admissionErrors complaint.Complaint
	// deferred are removals that wait until all sources are ready.
	deferred map[types.UID]*v1.Pod
	schedule schedule
}

// fence is a lock whose waiters testing/synctest recognizes as blocked, unlike those
// of a sync.Mutex.
type fence chan struct{}

func (f fence) Lock()   { f <- struct{}{} }
func (f fence) Unlock() { <-f }

// New returns a loop that hands work to the pods' workers through dispatch, or every
// problem of the options at once.
//
// dispatch is called by the loop, one call at a time, with the loop's fence held: it
// must not block, and must not call back into the Loop. Work for one UID arrives in
// order. A panic is recovered, and the same work is dispatched again after a back-off (B9).
func New(dispatch func(Work), options Options) (*Loop, error) {
	problems := []error{}
	if dispatch == nil {
		problems = append(problems, errors.New("dispatch is nil"))
	}
	var sources []member
	for i, s := range options.Sources {
		one, err := newMember(s, func(name string) bool {
			return slices.ContainsFunc(sources, func(other member) bool { return other.name == name })
		})
		if err != nil {
			problems = append(problems, fmt.Errorf("source %d: %w", i, err))
		}
		sources = append(sources, one)
	}
	if options.HousekeepingPeriod < 0 || options.StuckAfter < 0 || options.SourceDeadline < 0 {
		problems = append(problems, errors.New("HousekeepingPeriod, StuckAfter and SourceDeadline must not be negative"))
	}
	if options.Clock == nil {
		options.Clock = clock.RealClock{}
	}
	if options.HousekeepingPeriod == 0 {
		options.HousekeepingPeriod = defaultHousekeepingPeriod
	}
	if options.StuckAfter == 0 {
		options.StuckAfter = defaultStuckAfter
	}
	m, err := newMetrics(options.Meter)
	if err != nil {
		problems = append(problems, fmt.Errorf("metrics: %w", err))
	}
	if len(problems) > 0 {
		return nil, fmt.Errorf("syncloop: %w", errors.Join(problems...))
	}
	l := &Loop{
		options: options, dispatch: dispatch, metrics: m, calls: foreign.New(options.Clock),
		sources: newSources(sources),
		mux:     newMux(sources, options.Clock, options.Recorder, m),
		store:   newStore(),
		readyC:  make(chan struct{}),
		trigger: make(chan struct{}, 1), gateChanged: make(chan struct{}, 1), answers: make(chan struct{}, 1),
		fence:    make(fence, 1),
		deferred: map[types.UID]*v1.Pod{},
		verdicts: verdicts{open: map[types.UID]*openVerdict{}, refused: map[types.UID]bool{}},
	}
	l.mux.desired.review, l.mux.desired.owner, l.mux.desired.lower = options.Review, options.Owner, options.Lower
	l.mux.desired.admitted = options.Admitted
	if r, ok := options.Admission.(Rememberer); ok {
		l.pending.remembered = r.Remembered
	}
	l.held, l.reports = newHeld(l), &reports{calls: l.calls, last: map[string]any{}}
	if len(options.Sources) == 0 {
		l.first.Do(func() { close(l.readyC) }) // R2
	}
	return l, nil
}

// Store returns the desired pods.
func (l *Loop) Store() *Store { return l.store }

// Ready reports whether every source has delivered and the loop has consumed it (R1,
// R2). When a source is added, it is false again until that source is ready (R4).
func (l *Loop) Ready() bool { return l.mux.ready("") }

// ReadyExcept is Ready without the source of this name: what must not wait for an API server asks without
// [SourceAPI] (spec/podworkers.md N6).
func (l *Loop) ReadyExcept(source string) bool { return l.mux.ready(source) }

// ReadyC is closed when the loop is first ready.
func (l *Loop) ReadyC() <-chan struct{} { return l.readyC }

// Sources returns the state of each source, in the order of the options, then as
// they were added.
func (l *Loop) Sources() []SourceStatus {
	all := l.sources.list()
	statuses := l.mux.status(all)
	for i, s := range all {
		if r, ok := s.source.(HealthReporter); ok {
			statuses[i].Health = l.healthOf(s.name, r)
		}
	}
	return statuses
}

// Undecided returns why sources may want pods that they have not named, joined; nil
// if all have named theirs and the loop has handled them. Meanwhile a running pod that
// was never desired in this process may be one of these pods and must not be killed.
func (l *Loop) Undecided() error {
	var problems []error
	for _, s := range l.mux.status(l.sources.list()) {
		if s.Undecided != nil {
			problems = append(problems, fmt.Errorf("source %s: %w", s.Name, s.Undecided))
		}
	}
	return errors.Join(problems...)
}

// heldPods returns the pods whose work waits for the gate, for their admission, or because
// the dispatcher panicked, sorted by UID.
func (l *Loop) heldPods() []types.UID {
	all := append(l.held.uids(), l.verdicts.queue()...)
	slices.Sort(all)
	return slices.Compact(all)
}

// Holds reports whether a pod's work waits for the gate, for its admission, or because
// the dispatcher panicked.
func (l *Loop) Holds(uid types.UID) bool { return l.held.has(uid) || l.verdicts.waits(uid) }

// TriggerHousekeeping asks for a housekeeping pass soon, at most one per 200 ms.
// It never blocks (B6).
func (l *Loop) TriggerHousekeeping() {
	select {
	case l.trigger <- struct{}{}:
	default:
	}
}

// GateChanged makes the loop ask its gate and its admission again at once if any work
// waits for them. Without it the loop asks every few seconds. It never blocks.
func (l *Loop) GateChanged() {
	select {
	case l.gateChanged <- struct{}{}:
	default:
	}
}

// stamp records that an iteration has begun; the returned function ends it.
func (l *Loop) stamp(ctx context.Context, input string) func() {
	start := l.options.Clock.Now()
	l.busySince.Store(&start)
	l.stir(start)
	return func() {
		l.busySince.Store(nil)
		l.metrics.iteration(ctx, input, l.options.Clock.Since(start))
	}
}
