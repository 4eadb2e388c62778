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
	// maxRest is the longest time without a pass (HK6).
	maxRest = 30 * time.Second
	// retryMin and retryMax bound the pause after a failed removal (OD10).
	retryMin = 5 * time.Second
	retryMax = 5 * time.Minute
	// removalBudget is how long a pass spends on removals of one kind; the rest is left to the next
	// pass (OD10). Rates bounds how many it makes.
	removalBudget = 200 * time.Millisecond
	// removalTimeout bounds one removal: if a runtime hangs on a pod, the removal is retried later
	// (OD10).
	removalTimeout = 10 * time.Second
	// maxRemovals bounds the hanging removals, because each may hold a thread.
	maxRemovals = 1000
)

// Options configures a [Housekeeper]. The zero value forgets, restarts and finishes pods and kills
// orphans, but removes nothing.
type Options struct {
	// SourcesReady is the guard of SG1, asked again before every action. Nil
	// means always ready.
	SourcesReady func() bool
	// Undecided returns why the sources may want pods that they have not named, nil if they have
	// named all. While it returns an error, nothing is done to a pod that was neither desired nor
	// known to the workers since the housekeeper was created: it may be one of them. It is asked
	// again before every action and must not block. Nil means that all are always named.
	Undecided func() error
	// Dropped reports a pod whose source has answered in this process without naming it: the pod is
	// not one of those that another source may want. It must not block. Nil means never.
	Dropped func(uid types.UID) bool
	// Gate returns why no pod should be set up now. It is asked again before every restart (IN13)
	// and must not block. Nil means always open.
	Gate func() error
	// Withheld reports a desired pod that has no worker because the component that hands pods to
	// the workers keeps it back, for now or for good: it is not restarted. It is asked again before
	// every restart and must not block. Nil means never.
	Withheld func(uid types.UID) bool
	// Statuses, Content and Collector are optional; without one, the steps that need it are left
	// out.
	Statuses  Statuses
	Content   Content
	Collector Collector
	// Cgroups, UserRanges and Mirrors are for steps 1, 8, 10 and 16; without one, the steps that
	// need it are left out.
	Cgroups    Cgroups
	UserRanges UserRanges
	Mirrors    Mirrors
	// CleanupProbes ends the probe workers of every pod that is not in keep (step 6). It must not
	// block. Nil: there are none.
	CleanupProbes func(keep map[types.UID]struct{})
	// PruneBackOffs drops back-offs that no longer delay anything (step 17). It must not block.
	// Nil: there are none.
	PruneBackOffs func()
	// Veto is asked before every action; an error keeps the action from being done now (DR5). It
	// must not block. Nil: no veto.
	Veto func(a Action) error
	// Hold keeps a new life of a pod from starting while something of the pod is removed (IN3). It
	// must not block. Nil: a pod that comes back during a removal is not protected.
	Hold Hold
	// Rule returns the rule behind an error of Content, or "". Nil: never.
	Rule func(err error) Rule
	// Rates bounds removals (DR6).
	Rates Rates
	// Again asks for another pass soon, because one has left work behind. It must not block. Nil:
	// the next scheduled pass does the work.
	Again func()
	// CollectPeriod is the time between two runs of the collector, and between two looks at the log
	// folders. 0 means 1 min.
	CollectPeriod time.Duration

	// Clock is the housekeeper's time. Nil means the real clock.
	Clock clock.Clock
	// Logger is silent by default.
	Logger logr.Logger
	// Meter receives the metrics of sections 3 and 9. Nil drops them.
	Meter metric.Meter
}

// Housekeeper makes housekeeping passes. Create one with [New]; all methods are safe for concurrent
// use. The owner of the schedule calls Housekeep and, at the end, Wait: each removal has a
// goroutine, and one that hangs does not keep its pass from ending.
type Housekeeper struct {
	pods    Pods
	workers Workers
	running RunningLister
	options Options
	metrics *metrics

	// turn is held by a pass, and guards the fields below.
	turn        chan struct{}
	lastWorkers map[types.UID]Worker
	content     sets.Set[types.UID] // these may have left content in the runtime
	failures    map[candidate]*failure
	underWay    map[candidate]*removal
	silent      map[types.UID]*failure // pods whose volumes do not answer
	reduced     map[types.UID]bool     // cgroups whose CPU is at the minimum
	collectAt   time.Time
	// tried holds the objects that could not be removed in this run of the collector, which may
	// take several passes.
	tried        map[object]bool
	collectBegan time.Time
	collection   *collection // in progress; nil: none
	undecided    complaint.Complaint
	outcomes     []outcome // of this pass, or of the last one

	removals sync.WaitGroup // the goroutines of removals

	mu sync.Mutex
	// seen is changed only by the holder of turn, which therefore reads it without mu.
	seen     seen
	buckets  map[Step]*bucket   // the map itself never changes
	finished map[types.UID]bool // ended since the last pass began; true: the workers knew the pod
	lastPlan Plan
	stuck    []stuck // as of the last pass
	held     map[types.UID]heldPod
}

// object is what the collector acts on.
type object struct {
	step Step
	id   Object
}

// failure is a removal that failed.
type failure struct {
	object string
	since  time.Time
	err    error
	delay  time.Duration
	retry  time.Time
	// slow: the last attempt took longer than a pass waits.
	slow bool
}

// New returns a housekeeper, or an error that says what is wrong with the options.
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

// Finished says that a pod known to the workers has ended, so that the next pass looks for content
// it left. It is only a hint: a lost one costs up to CollectPeriod. It never blocks.
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

// LastPlan returns the plan of the last pass: what the pass did, and the rule behind what it did
// not do (DR3). The plan is shared: treat it as read-only.
func (h *Housekeeper) LastPlan() Plan {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.lastPlan
}

// Housekeep makes one pass. fence runs its argument while no source changes a desired pod or a
// worker; a nil fence calls it directly. Passes do not overlap: a second call waits for the first,
// or until its context ends (HK2). A removal that takes long continues after the pass, until ctx
// ends; see [Housekeeper.Wait].
//
// rest is how long further passes can be left out while no pod changes: at most 30 s, and 0 while
// anything is left to do or to wait for (HK6).
//
// The error joins all failures. Whatever did not depend on them was done nevertheless (HK1, HK4,
// HI12), and later passes retry what failed.
func (h *Housekeeper) Housekeep(ctx context.Context, fence func(critical func())) (rest time.Duration, err error) {
	select {
	case h.turn <- struct{}{}:
		defer func() { <-h.turn }()
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	}
	if !h.sourcesReady() {
		h.options.Logger.V(2).Info("No housekeeping: not all sources have been seen") // SG1
		return 0, nil
	}
	if fence == nil {
		fence = func(critical func()) { critical() }
	}
	now := h.options.Clock.Now()
	h.outcomes = nil
	ended := h.takeResults(now)
	in := input{SourcesReady: true}
	if err := h.listCgroups(&in); err != nil {
		return 0, errors.Join(append(ended, err)...) // HK1: step 1 aborts
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
	if err := errors.Join(problems...); err != nil {
		return 0, err
	}
	return h.rest(&in, plan), nil
}

// rest returns how long the next pass can wait (HK6). The caller holds the turn.
func (h *Housekeeper) rest(in *input, plan Plan) time.Duration {
	for _, left := range []int{len(plan.Actions), len(h.content), len(h.failures), len(h.underWay), len(h.silent), len(h.reduced), len(h.tried)} {
		if left > 0 {
			return 0
		}
	}
	if in.Undecided != nil || in.SetupHeld != nil || h.collection != nil {
		return 0
	}
	for _, w := range in.Workers {
		if w.Orphan || w.State == WorkerTerminating {
			return 0
		}
	}
	if h.options.Collector == nil {
		return maxRest
	}
	return max(0, min(maxRest, h.collectAt.Sub(h.options.Clock.Now())))
}

// Plan says what a pass would do now, and the rule behind everything that would stay, without
// touching anything (DR1, DR3). If something that the decision needs is missing, such as a failed
// list, the plan shows it as the forbidding rule, and it is in the error.
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

// look reads what the plan needs besides what is desired and known: step 5, and what may be left of
// pods. It looks at log folders if now is zero or it is time.
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

// known reads what is desired and what the workers know: steps 2 and 3. It also finds out which
// pods the workers forget because they are gone.
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

// desired reads which pods are desired: step 2.
func (h *Housekeeper) desired(in *input) {
	in.Desired = h.pods.Pods()
	in.Undecided = h.undecidedSources() // asked about these pods
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

// cleanProbes is step 6. It runs inside the first fence, when no worker can have been added since
// the workers were read.
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

// leftovers finds what gone pods may have left. Log folders are looked at as rarely as the
// collector runs, because removing a pod's content removes its logs too.
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
