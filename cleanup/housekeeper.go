package cleanup

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"go.opentelemetry.io/otel/metric"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/utils/clock"

	"github.com/podwright/podwright/internal/complaint"
)

const (
	// defaultCollectPeriod is the time between runs of the collector (section 1).
	defaultCollectPeriod = time.Minute
	// retryMin and retryMax bound the pause after a failed removal (OD10).
	retryMin = 5 * time.Second
	retryMax = 5 * time.Minute
	// removalBudget is how long a pass removes things of one kind; the rest is left to
	// the next pass (OD10). Rates bounds how many it removes.
	removalBudget = 200 * time.Millisecond
	// removalTimeout bounds one removal: a runtime that hangs on a pod is asked again
	// later (OD10).
	removalTimeout = 10 * time.Second
	// maxRemovals bounds those that hang: each may keep a thread.
	maxRemovals = 1000
)

// Options configures a [Housekeeper]. The zero value forgets, restarts and
// finishes pods and kills orphans, but removes nothing.
type Options struct {
	// SourcesReady is the guard of SG1, asked again before every action. Nil
	// means always ready.
	SourcesReady func() bool
	// Undecided returns why the sources may want pods they have not named, nil if
	// they have named all. While it returns an error, nothing is done to a pod
	// that was neither desired nor known to the workers since the housekeeper was
	// made: it may be one of them. Asked again before every action; must not
	// block. Nil means never.
	Undecided func() error
	// Dropped reports a pod whose source has spoken in this process without naming it:
	// the pod is not one of those that another source may want. Must not block. Nil
	// means never.
	Dropped func(uid types.UID) bool
	// Gate returns why no pod should be set up now. Asked again before every restart (IN13);
	// must not block. Nil means always open.
	Gate func() error
	// Withheld reports a desired pod that has no worker because the component that
	// hands pods to the workers keeps it, for now or for good: it is not restarted.
	// Asked again before every restart; must not block. Nil means never.
	Withheld func(uid types.UID) bool
	// Statuses, Content and Collector are optional; nil leaves out what
	// needs them.
	Statuses  Statuses
	Content   Content
	Collector Collector
	// Cgroups, UserRanges and Mirrors are what steps 1, 8, 10 and 16 are about; nil
	// leaves out what needs them.
	Cgroups    Cgroups
	UserRanges UserRanges
	Mirrors    Mirrors
	// CleanupProbes ends the workers that probe containers of any pod that is not in
	// keep (step 6). It must not block. Nil: there are none.
	CleanupProbes func(keep map[types.UID]struct{})
	// PruneBackOffs drops delays that no longer delay anything (step 17). It must not
	// block. Nil: there are none.
	PruneBackOffs func()
	// Veto is asked before every action; an error keeps it from being done now
	// (DR5). It must not block. Nil: no veto.
	Veto func(a Action) error
	// Hold keeps a new life of a pod from starting while something of it is removed (IN3).
	// It must not block. Nil: a pod that comes back while it is removed is not protected.
	Hold Hold
	// Rule returns the rule behind an error of Content, empty if there is none. Nil:
	// never.
	Rule func(err error) Rule
	// Rates bounds removals (DR6).
	Rates Rates
	// Again asks for another pass soon, because one has left work behind. It must not
	// block. Nil: the next scheduled pass does it.
	Again func()
	// CollectPeriod is the time between runs of the collector and looks at the
	// log folders. Default 1 min.
	CollectPeriod time.Duration

	// Clock is the housekeeper's time. Nil means the real clock.
	Clock clock.Clock
	// Logger is silent by default.
	Logger logr.Logger
	// Meter receives the metrics of sections 3 and 9. Nil drops them.
	Meter metric.Meter
}

// Housekeeper makes housekeeping passes. Make one with [New]; all methods are
// safe for concurrent use. The owner of the schedule calls Housekeep, and Wait in the
// end: each removal has a goroutine, and one that hangs does not keep its pass.
type Housekeeper struct {
	pods    Pods
	workers Workers
	running RunningLister
	options Options
	metrics *metrics

	// turn is held by a pass, and with it what follows.
	turn        chan struct{}
	lastWorkers map[types.UID]Worker
	content     sets.Set[types.UID] // may have left content in the runtime
	failures    map[candidate]*failure
	underWay    map[candidate]*removal
	silent      map[types.UID]*failure // pods whose volumes do not answer
	reduced     map[types.UID]bool     // cgroups whose CPU is at the minimum
	collectAt   time.Time
	// tried are the objects that could not be removed in this run of the collector,
	// which may take several passes.
	tried        map[object]bool
	collectBegan time.Time
	collection   *collection // under way; nil: none
	undecided    complaint.Complaint
	outcomes     []outcome // of this pass, or of the last one

	removals sync.WaitGroup // their goroutines

	mu sync.Mutex
	// seen is changed only by the holder of turn, which therefore reads it without mu.
	seen     seen
	buckets  map[Step]*bucket   // the map never changes
	finished map[types.UID]bool // noted since the last pass began; true: the workers knew it
	lastPlan Plan
	stuck    []stuck // as of the last pass
}

// object is what the collector acts on.
type object struct {
	step Step
	id   Object
}

// failure is a removal that did not work.
type failure struct {
	object string
	since  time.Time
	err    error
	delay  time.Duration
	retry  time.Time
	// slow: the last try took longer than a pass waits.
	slow bool
}

// New returns a housekeeper, or what is wrong with the options.
func New(pods Pods, workers Workers, running RunningLister, options Options) (*Housekeeper, error) {
	var problems []error
	if pods == nil || workers == nil || running == nil {
		problems = append(problems, errors.New("pods, workers and the lister of running pods are required"))
	}
	if options.CollectPeriod < 0 {
		problems = append(problems, errors.New("CollectPeriod must not be negative"))
	}
	problems = append(problems, options.Rates.complete())
	m, err := newMetrics(options.Meter)
	if err != nil {
		problems = append(problems, fmt.Errorf("metrics: %w", err))
	}
	if err := errors.Join(problems...); err != nil {
		return nil, fmt.Errorf("cleanup: %w", err)
	}
	if options.CollectPeriod == 0 {
		options.CollectPeriod = defaultCollectPeriod
	}
	if options.Clock == nil {
		options.Clock = clock.RealClock{}
	}
	return &Housekeeper{
		pods: pods, workers: workers, running: running, options: options, metrics: m,
		turn:     make(chan struct{}, 1),
		content:  sets.New[types.UID](),
		failures: map[candidate]*failure{},
		underWay: map[candidate]*removal{},
		tried:    map[object]bool{},
		finished: map[types.UID]bool{},
		seen:     seen{},
		buckets:  options.Rates.buckets(),
	}, nil
}

// Finished notes that a pod the workers knew has ended, so that the next pass looks
// for content it left. It is a hint only: a lost one costs up to CollectPeriod. It
// never blocks.
func (h *Housekeeper) Finished(uid types.UID) { h.hint(uid, true) }

// Found is like Finished, for a pod that the workers do not know.
func (h *Housekeeper) Found(uid types.UID) { h.hint(uid, false) }

func (h *Housekeeper) hint(uid types.UID, known bool) {
	if h.options.Content == nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.finished[uid] = h.finished[uid] || known
}

// LastPlan returns the plan of the last pass: what it did, and the rule behind
// what it did not do (DR3). The plan is shared: treat it as read-only.
func (h *Housekeeper) LastPlan() Plan {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.lastPlan
}

// Housekeep makes one pass. fence runs its argument while no desired pod and no
// worker changes because of a source; nil calls it directly. Passes do not
// overlap: a second call waits for the first, or for its context (HK2). A removal that
// takes long goes on after the pass, until ctx ends; see [Housekeeper.Wait].
//
// The error joins all failures. Whatever did not depend on them was done all the same
// (HK1, HK4, HI12), and later passes try again what failed.
func (h *Housekeeper) Housekeep(ctx context.Context, fence func(critical func())) error {
	select {
	case h.turn <- struct{}{}:
		defer func() { <-h.turn }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if !h.sourcesReady() {
		h.options.Logger.V(2).Info("No housekeeping: not all sources have been seen") // SG1
		return nil
	}
	if fence == nil {
		fence = func(critical func()) { critical() }
	}
	now := h.options.Clock.Now()
	h.outcomes = nil
	ended := h.takeResults(now)
	in := input{SourcesReady: true}
	if err := h.listCgroups(&in); err != nil {
		return errors.Join(append(ended, err)...) // HK1: step 1 aborts
	}
	fence(func() { h.known(&in) })
	problems := h.look(ctx, &in, now)
	if len(problems) == 0 && !now.Before(h.collectAt) { // then the look was complete
		h.mu.Lock()
		h.seen.prune(&in)
		h.mu.Unlock()
	}
	plan := makePlan(in)
	h.complain(plan, in.Undecided, now)

	fence(func() { h.executeFenced(ctx, plan, &in) })
	h.metrics.pass(ctx, &in, plan, h.pods.Mirrors())
	h.deleteMirrors(plan)
	problems = append(problems, ended...)
	problems = append(problems, h.remove(ctx, plan, now)...)
	problems = append(problems, h.reduceCPU(plan)...)
	problems = append(problems, h.collect(ctx, in.RunningErr, now)...)
	if h.options.PruneBackOffs != nil {
		h.options.PruneBackOffs()
	}
	h.noteStuck()
	h.mu.Lock()
	h.lastPlan = plan
	h.mu.Unlock()
	return errors.Join(problems...)
}

// Plan says what a pass would do now, and the rule behind everything that would
// stay, without touching anything (DR1, DR3). What the decision lacks, such as a
// list that failed, is in the plan as the rule that forbids, and in the error.
func (h *Housekeeper) Plan(ctx context.Context) (Plan, error) {
	select {
	case h.turn <- struct{}{}:
		defer func() { <-h.turn }()
	case <-ctx.Done():
		return Plan{}, context.Cause(ctx)
	}
	now := h.options.Clock.Now()
	in := input{SourcesReady: h.sourcesReady(), Explain: true}
	problems := []error{h.listCgroups(&in)}
	h.desired(&in)
	in.Workers = h.workers.Known()
	problems = append(problems, h.look(ctx, &in, time.Time{})...)
	plan := makePlan(in)
	h.describe(&plan, now)
	if h.options.Collector != nil {
		actions, err := h.options.Collector.Plan(ctx, h.contentGoes)
		if err != nil {
			problems = append(problems, fmt.Errorf("dead containers: %w", err))
		}
		for i := range actions {
			if actions[i].Allowed() {
				actions[i].Forbidden = h.MaybeWanted(actions[i].PodUID)
			}
		}
		plan.Add(actions...)
	}
	return plan, errors.Join(problems...)
}

// look reads what the plan needs besides what is desired and known: step 5, and
// what may be left of pods. Log folders are looked at if now is zero or it is time.
func (h *Housekeeper) look(ctx context.Context, in *input, now time.Time) (problems []error) {
	if in.Running, in.RunningErr = h.running.ListRunning(ctx); in.RunningErr != nil {
		problems = append(problems, fmt.Errorf("list running pods: %w", in.RunningErr))
	}
	problems = append(problems, h.leftovers(in, now)...)
	if h.options.Cgroups != nil {
		h.volumesOf(ctx, in)
	}
	if h.options.UserRanges != nil {
		in.UserRanges = h.options.UserRanges.UserRanges()
	}
	if h.options.Mirrors != nil {
		in.Mirrors = h.options.Mirrors.OrphanedMirrors()
		in.Terminating = map[types.NamespacedName]bool{}
		for _, name := range in.Mirrors {
			in.Terminating[name] = h.options.Mirrors.StaticTerminating(name)
		}
	}
	h.noteDropped(in)
	in.Seen = h.seen
	in.SetupHeld = h.gate()
	in.Withheld = map[types.UID]bool{}
	for _, pod := range in.Desired {
		if _, known := in.Workers[pod.UID]; !known && h.withheld(pod.UID) {
			in.Withheld[pod.UID] = true
		}
	}
	return problems
}

func (h *Housekeeper) sourcesReady() bool {
	return h.options.SourcesReady == nil || h.options.SourcesReady()
}

// known reads what is desired and what the workers know: steps 2 and 3. It also
// finds out which pods the workers forget because they are gone.
func (h *Housekeeper) known(in *input) {
	h.desired(in)
	desired := make(sets.Set[types.UID], len(in.Desired))
	for _, pod := range in.Desired {
		desired.Insert(pod.UID)
	}
	in.Workers = h.workers.SyncKnownPods(in.Desired)
	h.cleanProbes(in.Workers)
	for uid := range h.lastWorkers {
		if _, still := in.Workers[uid]; !still && !desired.Has(uid) {
			h.content.Insert(uid)
		}
	}
	h.mu.Lock()
	h.seen.add(in.Desired, h.lastWorkers, in.Workers)
	h.mu.Unlock()
	h.lastWorkers = in.Workers
}

// desired reads what is desired: step 2.
func (h *Housekeeper) desired(in *input) {
	in.Desired = h.pods.Pods()
	in.Undecided = h.undecidedSources() // about these pods
	in.Phases = make(map[types.UID]v1.PodPhase, len(in.Desired))
	if h.options.Statuses == nil {
		return
	}
	for _, pod := range in.Desired {
		if phase, ok := h.options.Statuses.Phase(pod.UID); ok {
			in.Phases[pod.UID] = phase
		}
	}
}

// cleanProbes is step 6. It runs inside the first fence, when no worker can have been
// added since the workers were read.
func (h *Housekeeper) cleanProbes(workers map[types.UID]Worker) {
	if h.options.CleanupProbes == nil {
		return
	}
	keep := make(map[types.UID]struct{}, len(workers))
	for uid, w := range workers {
		if w.State != WorkerTerminated {
			keep[uid] = struct{}{}
		}
	}
	h.options.CleanupProbes(keep)
}

// leftovers finds what gone pods may have left. Log folders are looked at as
// rarely as the collector runs: removing a pod's content removes its logs too.
func (h *Housekeeper) leftovers(in *input, now time.Time) (problems []error) {
	in.Waiting = h.putOff()
	if h.options.Content == nil {
		clear(h.content)
		return nil
	}
	h.mu.Lock()
	for uid, known := range h.finished {
		h.content.Insert(uid)
		if known {
			h.seen[uid] = true
		}
	}
	clear(h.finished)
	h.mu.Unlock()
	in.Content = h.content.UnsortedList()
	var err error
	if in.PodDirs, err = h.options.Content.PodDirs(); err != nil {
		problems = append(problems, fmt.Errorf("list pod folders: %w", err))
	}
	if now.IsZero() || !now.Before(h.collectAt) {
		if in.LogDirs, err = h.options.Content.LogDirs(); err != nil {
			problems = append(problems, fmt.Errorf("list log folders: %w", err))
		}
	}
	in.ContentGoes = map[types.UID]bool{}
	for _, uid := range slices.Concat(in.Content, in.LogDirs) {
		in.ContentGoes[uid] = h.workers.ContentShouldBeRemoved(uid)
	}
	return problems
}
