package eviction

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"go.opentelemetry.io/otel/metric"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/podwright/podwright/internal/foreign"
	"github.com/podwright/podwright/internal/instrument"
	"github.com/podwright/podwright/internal/podinfo"
	"github.com/podwright/podwright/internal/problem"
	"github.com/podwright/podwright/internal/repeats"
	"github.com/podwright/podwright/internal/timing"
)

// Reason is the status reason of evicted pods and of pods refused under pressure.
const Reason = podinfo.ReasonEvicted

// Timing of a manager.
const (
	// cleanupWait is how long the next pass waits for an evicted pod and its resources, and
	// cleanupPoll how often it checks.
	cleanupWait = 30 * time.Second
	cleanupPoll = time.Second
	// completeWait is how long limits of the node wait for [Options.Complete], and completePoll how often a pass looks then.
	completeWait = 30 * time.Second
	completePoll = time.Second
)

// Killer stops pods for good. It is called by one goroutine at a time.
type Killer interface {
	// Kill evicts the pod and returns once none of its containers is running. A nil graceSeconds
	// means the pod's own grace. amend edits the status that is published; it may be called any number
	// of times, on other goroutines. The context ends after 30 s at most: Kill then returns an error,
	// and the pod must still go on being stopped. Kill may be called again with a shorter grace for a
	// pod that is being stopped. Any error before the end of the context means that the pod may not
	// have been told to stop; the next pass decides again.
	Kill(ctx context.Context, pod *v1.Pod, graceSeconds *int64, amend func(*v1.PodStatus)) error
	// Finished reports whether everything held for the pod is released. It must not block.
	Finished(uid types.UID) bool
}

// Options configures a [Manager]. Stats, Killer and Pods are required. None of the
// functions may call back into the manager, except for Pressure and Admit.
type Options struct {
	// Stats reads the node, Killer stops pods.
	Stats  Stats
	Killer Killer
	// Pods returns the pods that are running or about to run, each with its status. They are
	// treated as read-only.
	Pods func() []*v1.Pod
	// Leaving returns the pods that are being stopped and still hold something. What they use
	// counts as soon to be free. They are treated as read-only. Nil: none.
	Leaving func() []*v1.Pod
	// Complete reports whether Pods has every pod of the node; it must not block. For 30 s after the start no pod is evicted for
	// the node before that: an agent that starts while the node is low hears of some pods first, and they may be those
	// that use least. Nil: always.
	Complete func() bool
	// Critical pods are never evicted. Nil: system-critical priority decides.
	Critical func(pod *v1.Pod) bool
	// Volumes returns the pod's folders that have a limit. Volumes and Storage are called on their own
	// goroutines, for several pods at once. Nil: none.
	Volumes func(pod *v1.Pod) []Volume
	// Storage reads the usage of pods with a limit on ephemeral storage (FD2). What it returns
	// counts even together with an error. Its context ends after 10 s. Nil: these limits are not
	// enforced.
	Storage func(ctx context.Context, pod *v1.Pod) (Storage, error)
	// LocalOnly enforces only the limits of Volumes and Storage and does not look at the node:
	// Stats may then be nil.
	LocalOnly bool
	// Reclaim frees disk space without stopping a pod: dead containers, unused images. It is called
	// on its own goroutine, one call at a time. The limits of disks wait for it, a minute at most;
	// nothing else does. Nil: there is nothing to reclaim.
	Reclaim func(ctx context.Context) error
	// Changed is called, without a lock, after the node's conditions changed. Nil:
	// the change is not reported.
	Changed func()

	Policy Policy
	// NodeName is the name of the node that events are about.
	NodeName string
	// Recorder receives events. Nil drops them.
	Recorder podinfo.EventRecorder
	// Clock is the manager's time. Nil: the real clock.
	Clock clock.WithTicker
	// Logger is silent if zero.
	Logger logr.Logger
	// Meter counts evictions. Nil: they are not counted.
	Meter metric.Meter
}

// Manager watches a node and evicts pods. Create one with [New]. Run is for one goroutine, the
// other methods for any.
type Manager struct {
	options   Options
	evictions metric.Int64Counter

	// Used only by the goroutine of Run.
	state history
	has   map[Signal]bool // see [Policy.gaps]
	// nodeFirst: the last pass was about a pod's own limits, so the node's limits come first in the
	// next one: many such pods must not starve the node (section 16).
	nodeFirst bool
	lastError string
	leaving   map[types.UID]*leaver
	victims   map[types.UID]victim
	own       *observers
	locals    *locals
	reclaim   reclaim
	// killed is when the last pod was told to stop.
	killed time.Time
	// begun is when Run began; partly: a limit of the node waits for [Options.Complete].
	begun  time.Time
	partly bool
	// unanswered has what this pass could not read in time of what pods use; announced is the signal
	// that it has reported.
	unanswered map[subject]bool
	announced  Signal
	// low counts the passes in which the node was low on something, since it last led to an eviction.
	low *repeats.Table[Signal]
	// beside is what runs beside the passes.
	beside sync.WaitGroup

	mu         sync.Mutex
	conditions []v1.NodeCondition
	gaps       map[Signal]gap
}

// New returns a manager, or an error that names every problem of the options.
func New(o Options) (*Manager, error) {
	var problems []error
	if o.Stats == nil && !o.LocalOnly || o.Killer == nil || o.Pods == nil {
		problems = append(problems, errors.New("eviction: Stats, Killer and Pods are required"))
	}
	var err error
	if o.Policy, err = o.Policy.complete(); err != nil {
		problems = append(problems, fmt.Errorf("eviction: %w", err))
	}
	if o.Critical == nil {
		o.Critical = podinfo.Critical
	}
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	set := instrument.New(o.Meter)
	own := newObservers(o.Policy.Own, o.Clock, o.Logger)
	m := &Manager{
		options: o, has: map[Signal]bool{}, leaving: map[types.UID]*leaver{}, victims: map[types.UID]victim{},
		own: own, locals: newLocals(o, own.calls), low: repeats.New[Signal](o.Clock, repeats.Reminder),
	}
	m.evictions = set.Counter("kubelet_evictions", "Pods evicted, by the signal that was low, or the limit of their own that they were above.",
		instrument.From("eviction_signal", "memory.available", "nodefs.available", "nodefs.inodesFree", "imagefs.available", "imagefs.inodesFree",
			"pid.available", "emptydirfs.limit", "ephemeralpodfs.limit", "ephemeralcontainerfs.limit"))
	if err := set.Err(); err != nil {
		problems = append(problems, fmt.Errorf("eviction: metrics: %w", err))
	}
	return m, errors.Join(problems...)
}

// Run makes a pass every 10 s, or every minute if it only checks volumes and storage, until ctx
// ends. After an eviction, the next pass comes as soon as everything that the pod held is released,
// at the latest 30 s later. Run waits 5 s for the functions that it has called, logs each that goes on,
// and returns nil.
func (m *Manager) Run(ctx context.Context) error {
	defer m.own.leave()
	defer m.locals.under.Wait()
	defer m.beside.Wait()
	for _, s := range m.options.Policy.Own {
		m.evictions.Add(ctx, 0, instrument.Labels("eviction_signal", string(s.Name)))
	}
	m.begun = m.options.Clock.Now()
	for ctx.Err() == nil {
		evicted, err := m.pass(ctx)
		m.log(err)
		if evicted != nil {
			m.await(ctx, evicted.UID)
			continue
		}
		pause := period
		if m.options.LocalOnly && !m.locals.open() {
			pause = localPeriod
		}
		if m.partly && m.starts() {
			pause = completePoll
		}
		_ = timing.Sleep(ctx, m.options.Clock, pause) // the loop checks ctx
	}
	return nil
}

// log reports a failure when it is new, and when it is over.
func (m *Manager) log(err error) {
	text := ""
	if err != nil {
		text = err.Error()
	}
	if text == m.lastError {
		return
	}
	m.lastError = text
	if err != nil {
		m.options.Logger.Error(err, "The node's resources cannot be watched completely")
		return
	}
	m.options.Logger.Info("The node's resources can be watched again")
}

// await waits until an evicted pod has released everything, so that the next pass does not count
// what is about to be released.
func (m *Manager) await(ctx context.Context, uid types.UID) {
	for !m.options.Killer.Finished(uid) && m.options.Clock.Since(m.killed) < cleanupWait {
		if timing.Sleep(ctx, m.options.Clock, cleanupPoll) != nil {
			return
		}
	}
}

// starts reports whether a limit of the node may wait for [Options.Complete].
func (m *Manager) starts() bool { return m.options.Clock.Since(m.begun) < completeWait }

// pass looks once, and evicts at most one pod, which it returns. It turns a panic of a hook into an
// error.
func (m *Manager) pass(ctx context.Context) (evicted *v1.Pod, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("eviction: panic: %v\n%s", p, debug.Stack())
		}
	}()
	if m.options.LocalOnly {
		return m.passLocal(ctx)
	}
	m.unanswered, m.announced = map[subject]bool{}, ""
	m.noteLeaving()
	all, err := m.look(ctx)
	hard := func(v victim) bool { // a hard limit of the signal that evicts it is due now
		return slices.ContainsFunc(all, func(b breach) bool { return b.Hard() && string(b.Signal) == v.signal })
	}
	if pod := m.hasten(ctx, hard); pod != nil {
		return pod, err
	}
	begun := m.beginReclaim(ctx, all)
	due := m.uncovered(ctx, all)
	if !m.nodeFirst || len(due) == 0 {
		pod, localErr := m.passLocal(ctx)
		if m.nodeFirst = pod != nil || localErr != nil; m.nodeFirst {
			return pod, errors.Join(err, localErr)
		}
	}
	m.nodeFirst = false
	if !begun && !m.reclaim.running() {
		m.reclaim.fresh = false // this pass decides, and what becomes unused after it is for another call
	}
	if begun && len(due) > 0 && due[0].kind.disk {
		m.announce(due[0])
		if m.soon(ctx, m.reclaim.done) {
			all, err = m.look(ctx)
			due = m.uncovered(ctx, all)
			m.reclaim.fresh = false // this pass decides
		}
	}
	err = errors.Join(err, m.reclaimError(all))
	if due = m.withoutWaiting(due); len(due) == 0 {
		return nil, err
	}
	if m.options.Complete != nil && m.starts() && !m.options.Complete() {
		if !m.partly {
			m.options.Logger.Info("No pod is evicted yet, because not every pod is known", "signal", due[0].Signal)
		}
		m.partly = true
		return nil, err
	}
	m.partly = false
	m.announce(due[0])
	pod, evictErr := m.passNode(ctx, due[0])
	return pod, errors.Join(err, evictErr)
}

// announce says once per pass what the node is low on. It may be so for days, with nothing to evict, so not
// each pass emits an event.
func (m *Manager) announce(b breach) {
	if m.announced == b.Signal {
		return
	}
	m.announced = b.Signal
	m.options.Logger.Info("The node is low on a resource", "signal", b.Signal, "available", b.Observed.Available, "capacity", b.Observed.Capacity)
	if !m.low.Note(b.Signal).Due {
		return
	}
	if b.kind.own {
		m.event(v1.EventTypeWarning, "EvictionThresholdMet", "%s", b.explain())
		return
	}
	m.event(v1.EventTypeWarning, "EvictionThresholdMet", "Attempting to reclaim %s", b.kind.resource)
}

// look reads the node and judges the readings.
func (m *Manager) look(ctx context.Context) ([]breach, error) {
	m.own.begin(ctx)
	readings, err := m.readNode(ctx)
	own := m.own.collect(ctx)
	for signal, o := range readings {
		if _, builtIn := kinds()[signal]; builtIn {
			own[signal] = o
		}
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	now := m.options.Clock.Now()
	gaps := m.options.Policy.gaps(m.gaps, m.has, own, err, now) // only this goroutine sets gaps
	verdict := assess(m.options.Policy, m.state, own, now)
	m.state = verdict.history
	m.publish(verdict, gaps)
	return verdict.Due, err
}

func (m *Manager) readNode(ctx context.Context) (map[Signal]Observation, error) {
	call := foreign.Call{Kind: problem.Function, Name: "Eviction.Stats.Node"}
	return foreign.Ask(ctx, m.own.calls, call, foreign.Limits{Wait: problem.FunctionLimit, Late: usageLate}, m.options.Stats.Node)
}

// evictable returns the pods that may be evicted.
func (m *Manager) evictable() []*v1.Pod {
	return slices.DeleteFunc(slices.Clone(m.options.Pods()), func(pod *v1.Pod) bool {
		return m.options.Critical(pod) || podinfo.Terminal(pod.Status.Phase)
	})
}

// passNode evicts the first pod that may be evicted for a limit that is due.
func (m *Manager) passNode(ctx context.Context, b breach) (*v1.Pod, error) {
	if b.kind.disk {
		m.reclaim.fresh = false
	}
	if b.Hard() { // those that were chosen for another limit go first
		if pod := m.hasten(ctx, func(victim) bool { return true }); pod != nil {
			return pod, nil
		}
	}
	pods := m.evictable()
	if len(pods) == 0 {
		m.options.Logger.Info("No pod may be evicted", "signal", b.Signal)
		return nil, nil
	}
	candidates := make([]candidate, len(pods))
	for i, pod := range pods {
		candidates[i].Pod = pod
	}
	if !b.kind.own {
		questions := make([]question, len(pods))
		for i, pod := range pods {
			questions[i] = question{pod, b.Signal}
		}
		used, errs := m.usages(ctx, questions, usageWait)
		for i := range used {
			candidates[i].Usage = used[i]
		}
		if err := errors.Join(errs...); err != nil { // what is missing counts as nothing
			m.options.Logger.Error(err, "Not everything that pods use could be read", "signal", b.Signal)
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
	}
	rank(b.kind, candidates)
	first := candidates[0]
	v := victim{pod: first.Pod, signal: string(b.Signal), text: message(b, first), soft: !b.Hard()}
	pod, err := m.evict(ctx, v, m.grace(b.Threshold, first.Pod))
	if pod != nil {
		m.low.Forget(b.Signal) // what takes another pod is news
	}
	return pod, err
}

// grace returns how many seconds a limit gives a pod, nil for the pod's own grace.
func (m *Manager) grace(t Threshold, pod *v1.Pod) *int64 {
	seconds := int64(hardGrace)
	if !t.Hard() {
		bound := m.options.Policy.MaxPodGrace
		if bound == 0 {
			return nil
		}
		seconds = int64((bound + time.Second - 1) / time.Second)
		if own := pod.Spec.TerminationGracePeriodSeconds; own != nil && *own < seconds {
			return nil
		}
	}
	return &seconds
}

// passLocal evicts the first pod that was found to have a volume above its limit, or to use more
// ephemeral storage than it may.
func (m *Manager) passLocal(ctx context.Context) (*v1.Pod, error) {
	if !m.locals.due() {
		return nil, nil
	}
	pods := m.evictable()
	if m.locals.begin(ctx, pods) {
		m.soon(ctx, m.locals.round)
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	pod, f := m.locals.take(pods)
	if pod == nil {
		return nil, nil
	}
	grace := int64(hardGrace)
	return m.evict(ctx, victim{pod: pod, signal: f.signal, text: f.text}, &grace)
}

// victim is a pod that is being evicted.
type victim struct {
	pod *v1.Pod
	// signal and text say why.
	signal, text string
	soft         bool // it has the grace of a soft limit
}

// amend returns the edit of the pod's status. A pod above a limit of its own would do the same elsewhere: it
// is not the target of a disruption, which controllers would not count as its failure.
func (v victim) amend() func(*v1.PodStatus) {
	if !slices.Contains(localSignals(), v.signal) {
		return Amend(Reason, v.text)
	}
	return func(s *v1.PodStatus) { s.Phase, s.Reason, s.Message = v1.PodFailed, Reason, v.text }
}

// evict stops a pod for good, and returns it unless that failed at once.
func (m *Manager) evict(ctx context.Context, v victim, grace *int64) (*v1.Pod, error) {
	pod := v.pod
	m.options.Logger.Info("Evicting a pod", "namespace", pod.Namespace, "name", pod.Name, "uid", pod.UID, "signal", v.signal, "message", v.text)
	if m.options.Recorder != nil {
		m.options.Recorder.Eventf(pod, v1.EventTypeWarning, Reason, "%s", v.text)
	}
	m.evictions.Add(ctx, 1, instrument.Labels("eviction_signal", v.signal))
	m.killed = m.options.Clock.Now()
	if !m.options.LocalOnly {
		m.victims[pod.UID] = v
	}
	err := m.kill(ctx, v, grace, cleanupWait)
	if err == nil {
		return pod, nil
	}
	if err = fmt.Errorf("evict pod %s/%s: %w", pod.Namespace, pod.Name, err); m.options.Clock.Since(m.killed) < promptly {
		return nil, err
	}
	return pod, err
}

// kill stops a pod, and waits for that for a bounded time: a pod may take as long as its grace,
// which its manifest chooses.
func (m *Manager) kill(ctx context.Context, v victim, grace *int64, wait time.Duration) error {
	limited, cancel := timing.WithTimeout(ctx, m.options.Clock, wait)
	defer cancel()
	err := m.options.Killer.Kill(limited, v.pod, grace, v.amend())
	if err != nil && limited.Err() != nil && ctx.Err() == nil {
		m.options.Logger.Info("An evicted pod takes long to stop", "namespace", v.pod.Namespace, "name", v.pod.Name, "uid", v.pod.UID)
		return nil
	}
	return err
}

// Amend returns an edit of the status of a pod that the node stops for its own reasons: phase
// Failed, and the condition DisruptionTarget.
func Amend(reason, message string) func(*v1.PodStatus) {
	return func(s *v1.PodStatus) {
		s.Phase, s.Reason, s.Message = v1.PodFailed, reason, message
		s.Conditions = append(slices.DeleteFunc(s.Conditions, func(c v1.PodCondition) bool { return c.Type == v1.DisruptionTarget }),
			v1.PodCondition{Type: v1.DisruptionTarget, Status: v1.ConditionTrue, Reason: v1.PodReasonTerminationByKubelet, Message: message})
	}
}

// Problems returns the signals that limits need and that cannot be read.
func (m *Manager) Problems() []problem.Problem {
	return append(m.own.problems(), m.unreadProblems()...)
}

func (m *Manager) event(kind, reason, format string, args ...any) {
	if m.options.Recorder == nil {
		return
	}
	node := podinfo.NodeReference(m.options.NodeName)
	m.options.Recorder.Eventf(node, kind, reason, format, args...)
}
