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

	"github.com/podwright/podwright/internal/instrument"
	"github.com/podwright/podwright/internal/podinfo"
	"github.com/podwright/podwright/internal/problem"
	"github.com/podwright/podwright/internal/timing"
)

// Reason is the status reason of evicted pods and of pods refused under pressure.
const Reason = "Evicted"

// Timing of a manager.
const (
	// cleanupWait is how long the next pass waits for the resources of an evicted pod, and
	// cleanupPoll how often it checks.
	cleanupWait = 30 * time.Second
	cleanupPoll = time.Second
	// localPeriod is the time between two checks of volume sizes.
	localPeriod = time.Minute
)

// Killer stops pods for good. It is called by one goroutine at a time.
type Killer interface {
	// Kill evicts the pod and returns once none of its containers is running. A nil graceSeconds
	// means the pod's own grace. amend edits the status that is published; it may be called any
	// number of times, on other goroutines. After an error, the next pass decides again.
	Kill(ctx context.Context, pod *v1.Pod, graceSeconds *int64, amend func(*v1.PodStatus)) error
	// Finished reports whether everything held for the pod is released. It must not block.
	Finished(uid types.UID) bool
}

// EventRecorder receives events about evicted pods and about the node.
type EventRecorder = podinfo.EventRecorder

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
	// Critical pods are never evicted. Nil: system-critical priority decides.
	Critical func(pod *v1.Pod) bool
	// Volumes returns the pod's folders that have a limit. Nil: none.
	Volumes func(pod *v1.Pod) []Volume
	// Storage reads the usage of pods with a limit on ephemeral storage (FD2). What it returns
	// counts even together with an error. Nil: these limits are not enforced.
	Storage func(ctx context.Context, pod *v1.Pod) (Storage, error)
	// LocalOnly enforces only the limits of Volumes and Storage and does not look at the node:
	// Stats may then be nil.
	LocalOnly bool
	// Reclaim frees disk space without stopping a pod: dead containers, unused images.
	// Nil: there is nothing to reclaim.
	Reclaim func(ctx context.Context) error
	// Changed is called, without a lock, after the node's conditions changed. Nil:
	// the change is not reported.
	Changed func()

	Policy Policy
	// NodeName is the name of the node that events are about.
	NodeName string
	// Recorder receives events. Nil drops them.
	Recorder EventRecorder
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
	state     history
	nextLocal time.Time
	// local: the last pass evicted a pod for its own limits, so the node's limits come first in the
	// next pass: many such pods must not starve the node (section 16).
	local     bool
	lastError string
	leaving   map[types.UID]*leaver
	own       *observers

	mu         sync.Mutex
	conditions []v1.NodeCondition
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
	m := &Manager{options: o, leaving: map[types.UID]*leaver{}, own: newObservers(o.Policy.Own, o.Clock, o.Logger)}
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
// at the latest 30 s later. It returns nil.
func (m *Manager) Run(ctx context.Context) error {
	defer m.own.leave()
	for _, s := range m.options.Policy.Own {
		m.evictions.Add(ctx, 0, instrument.Labels("eviction_signal", string(s.Name)))
	}
	for ctx.Err() == nil {
		evicted, err := m.pass(ctx)
		m.log(err)
		if evicted != nil && err == nil {
			m.await(ctx, evicted.UID)
			continue
		}
		pause := period
		if m.options.LocalOnly {
			pause = localPeriod
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
	begin := m.options.Clock.Now()
	for !m.options.Killer.Finished(uid) && m.options.Clock.Since(begin) < cleanupWait {
		if timing.Sleep(ctx, m.options.Clock, cleanupPoll) != nil {
			return
		}
	}
}

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
	m.noteLeaving()
	due, err := m.look(ctx)
	due = m.uncovered(ctx, due)
	if nodeFirst := m.local && len(due) > 0; !nodeFirst {
		pod, localErr := m.passLocal(ctx)
		if m.local = pod != nil; pod != nil || localErr != nil {
			return pod, errors.Join(err, localErr)
		}
	}
	m.local = false
	if len(due) == 0 {
		return nil, err
	}
	first := due[0]
	m.options.Logger.Info("The node is low on a resource", "signal", first.Signal, "available", first.Observed.Available, "capacity", first.Observed.Capacity)
	if first.kind.own {
		m.event(v1.EventTypeWarning, "EvictionThresholdMet", "%s", first.explain())
	} else {
		m.event(v1.EventTypeWarning, "EvictionThresholdMet", "Attempting to reclaim %s", first.kind.resource)
	}
	if first.kind.disk && m.options.Reclaim != nil {
		reclaimErr := m.options.Reclaim(ctx)
		if reclaimErr != nil {
			reclaimErr = fmt.Errorf("reclaim: %w", reclaimErr)
		}
		due, err = m.look(ctx)
		due = m.uncovered(ctx, due)
		if err = errors.Join(err, reclaimErr); len(due) == 0 {
			return nil, err
		}
		first = due[0]
	}
	pod, evictErr := m.passNode(ctx, first)
	return pod, errors.Join(err, evictErr)
}

// look reads the node and judges the readings.
func (m *Manager) look(ctx context.Context) ([]breach, error) {
	m.own.begin(ctx)
	readings, err := m.options.Stats.Node(ctx)
	own := m.own.collect(ctx)
	for signal, o := range readings {
		if _, builtIn := kinds()[signal]; builtIn {
			own[signal] = o
		}
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	verdict := assess(m.options.Policy, m.state, own, m.options.Clock.Now())
	m.state = verdict.history
	m.publish(verdict)
	return verdict.Due, err
}

// passNode evicts the first pod that may be evicted for a limit that is due.
func (m *Manager) passNode(ctx context.Context, b breach) (*v1.Pod, error) {
	var candidates []candidate
	var problems []error
	for _, pod := range m.options.Pods() {
		if m.options.Critical(pod) || podinfo.Terminal(pod.Status.Phase) {
			continue
		}
		c := candidate{Pod: pod}
		if !b.kind.own {
			var err error
			if c.Usage, err = m.options.Stats.Pod(ctx, pod, b.Signal); err != nil {
				problems = append(problems, fmt.Errorf("usage of pod %s/%s: %w", pod.Namespace, pod.Name, err))
			}
		}
		candidates = append(candidates, c)
	}
	for _, err := range problems { // the pod counts as using nothing
		m.options.Logger.Error(err, "Not everything a pod uses could be read")
	}
	if len(candidates) == 0 {
		m.options.Logger.Info("No pod may be evicted", "signal", b.Signal)
		return nil, nil
	}
	rank(b.kind, candidates)
	victim := candidates[0]
	return victim.Pod, m.evict(ctx, victim.Pod, string(b.Signal), message(b, victim), m.grace(b.Threshold, victim.Pod))
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

// passLocal evicts the first pod that has a volume above its limit, or uses more ephemeral
// storage than it may.
func (m *Manager) passLocal(ctx context.Context) (*v1.Pod, error) {
	now := m.options.Clock.Now()
	if now.Before(m.nextLocal) {
		return nil, nil
	}
	for _, pod := range m.options.Pods() {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if m.options.Critical(pod) || podinfo.Terminal(pod.Status.Phase) {
			continue
		}
		signal, text := m.fullVolume(ctx, pod)
		if text == "" {
			signal, text = m.fullStorage(ctx, pod)
		}
		if text != "" {
			grace := int64(hardGrace)
			return pod, m.evict(ctx, pod, signal, text, &grace)
		}
	}
	m.nextLocal = now.Add(localPeriod) // the next pass looks at once if this one evicted
	return nil, nil
}

// fullVolume tells users which volume of a pod is above its limit.
func (m *Manager) fullVolume(ctx context.Context, pod *v1.Pod) (signal, text string) {
	if m.options.Volumes == nil {
		return "", ""
	}
	for _, v := range m.options.Volumes(pod) {
		used, _, err := size(ctx, v.Path, v.Limit)
		if err != nil { // one pod's failure does not affect the others
			m.options.Logger.Error(err, "A volume cannot be measured", "namespace", pod.Namespace, "name", pod.Name, "volume", v.Name)
			continue
		}
		if text := exceeded(v, used); text != "" {
			return "emptydirfs.limit", text
		}
	}
	return "", ""
}

// fullStorage tells users which limit of ephemeral storage a pod is above.
func (m *Manager) fullStorage(ctx context.Context, pod *v1.Pod) (signal, text string) {
	limit := podinfo.DeclaredLimit(pod, v1.ResourceEphemeralStorage)
	if m.options.Storage == nil || limit.Sign() <= 0 {
		return "", ""
	}
	used, err := m.options.Storage(ctx, pod)
	var folders uint64
	for _, dir := range used.Folders {
		bytes, _, sizeErr := size(ctx, dir, uint64(limit.Value()))
		err = errors.Join(err, sizeErr)
		folders += bytes
	}
	if err != nil {
		m.options.Logger.Error(err, "Not all of a pod's storage can be measured", "namespace", pod.Namespace, "name", pod.Name)
	}
	return overLimit(pod, used.Containers, folders)
}

// evict stops a pod for good.
func (m *Manager) evict(ctx context.Context, pod *v1.Pod, signal, text string, grace *int64) error {
	m.options.Logger.Info("Evicting a pod", "namespace", pod.Namespace, "name", pod.Name, "uid", pod.UID, "signal", signal, "message", text)
	if m.options.Recorder != nil {
		m.options.Recorder.Eventf(pod, v1.EventTypeWarning, Reason, "%s", text)
	}
	m.evictions.Add(ctx, 1, instrument.Labels("eviction_signal", signal))
	err := m.options.Killer.Kill(ctx, pod, grace, Amend(Reason, text))
	if err != nil {
		return fmt.Errorf("evict pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	return nil
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

// Problems returns the signals of the embedding program that cannot be read.
func (m *Manager) Problems() []problem.Problem { return m.own.problems() }

func (m *Manager) event(kind, reason, format string, args ...any) {
	if m.options.Recorder == nil {
		return
	}
	node := podinfo.NodeReference(m.options.NodeName)
	m.options.Recorder.Eventf(node, kind, reason, format, args...)
}
