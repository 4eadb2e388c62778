package probe

import (
	"fmt"
	"reflect"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/foreign"
	"github.com/podwright/podwright/internal/outbound"
	"github.com/podwright/podwright/internal/restartpolicy"
	"github.com/podwright/podwright/probe/internal/decide"
	"github.com/podwright/podwright/runtime"
)

// Manager probes containers. Create one with [New], then call [Manager.Run]. All methods are safe
// for concurrent use, and all but Run return at once.
type Manager struct {
	options Options
	dialer  *outbound.Dialer
	metrics *metrics
	calls   *foreign.Calls // calls of Options.Timing
	epoch   time.Time
	results [decide.Kinds]*results
	wake    chan struct{} // one slot: the scheduler has something new

	// What the scheduler looks at and starts, kept so that it need not allocate.
	looked   decide.Container
	starting []*run

	mu       sync.Mutex
	pods     map[types.UID]*podEntry
	due      timeline
	lanes    [2]lane
	numbers  uint64
	inFlight int
	// armed is when the scheduler will wake up; 0 while it is awake and will look at everything
	// before it sleeps.
	armed time.Duration
	// idle is closed when nothing is in flight any more; nil while nothing waits for that.
	idle     chan struct{}
	begun    bool
	stopping bool
	lateness time.Duration // the longest one since it was last read
	panics   int64
}

// New returns a manager without pods, or an error that says what is wrong with the options.
func New(options Options) (*Manager, error) {
	if err := options.complete(); err != nil {
		return nil, err
	}
	m := &Manager{
		options: options, dialer: outbound.New(options.Outbound, nil), calls: foreign.New(options.Clock), epoch: options.Clock.Now(), wake: make(chan struct{}, 1),
		pods:  map[types.UID]*podEntry{},
		lanes: [2]lane{{slots: options.NetworkSlots}, {slots: options.ExecSlots}},
	}
	for k := range m.results {
		m.results[k] = newResults(Kind(k)) //nolint:gosec // three kinds
	}
	var err error
	if m.metrics, err = newMetrics(options.Meter); err != nil {
		return nil, fmt.Errorf("probe: metrics: %w", err)
	}
	return m, nil
}

// now is the time since the epoch, by the monotonic clock (9.7).
func (m *Manager) now() time.Duration { return m.options.Clock.Since(m.epoch) }

// AddPod creates the workers that a pod needs and lacks, and takes over at once what is known about
// containers that are already running (2.1, 8.3). It is called on every sync of a running pod,
// before its containers are started. A container that runs keeps the probe that it has in this process; one that
// replaces it has the probe that the pod has by then. Workers of probes that the pod no longer has end (1.4).
func (m *Manager) AddPod(pod *v1.Pod) {
	fresh, changed := m.compare(pod)
	m.change(pod, changed)
	if len(fresh) == 0 {
		return
	}
	view, known := m.options.Pods.View(pod.UID)
	now, wall := m.now(), m.options.Clock.Now()
	looks := make([]decide.Look, len(fresh))
	for i, w := range fresh {
		w.timing = m.timing(pod, w.name, w.kind, w.probe)
		looks[i] = m.look(w, view, known, wall, new(decide.Container))
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.stopping {
		return
	}
	entry := m.pods[pod.UID]
	if entry == nil {
		entry = &podEntry{uid: pod.UID, namespace: pod.Namespace, name: pod.Name}
	}
	for i, w := range fresh {
		if entry.find(w.name, w.kind) != nil {
			continue // another call was faster
		}
		w.pod = entry
		entry.workers = append(entry.workers, w)
		m.pods[pod.UID] = entry // each time: if the worker before has ended at once, the pod had none
		m.enter(w, looks[i], now)
	}
	m.poke()
}

// compare ends the workers whose probes the pod does not have any more. It returns new workers for those of
// its probes that have none, and the workers whose probes have changed.
func (m *Manager) compare(pod *v1.Pod) (fresh, changed []*worker) {
	m.mu.Lock()
	defer m.mu.Unlock()
	entry := m.pods[pod.UID]
	if entry != nil {
		var gone []*worker
		for _, w := range entry.workers {
			switch p := probeOf(pod, w.name, w.kind); {
			case p == nil:
				gone = append(gone, w)
			case p != w.latest() && !reflect.DeepEqual(p, w.latest()):
				changed = append(changed, w)
			}
		}
		for _, w := range gone {
			m.end(w)
		}
	}
	for _, c := range probed(pod) {
		for k, p := range probesOf(c) {
			if p == nil || entry != nil && entry.find(c.Name, Kind(k)) != nil { //nolint:gosec // three kinds
				continue
			}
			fresh = append(fresh, &worker{
				pod:  &podEntry{uid: pod.UID, namespace: pod.Namespace, name: pod.Name},
				name: c.Name, kind: Kind(k), probe: p, place: -1, //nolint:gosec // three kinds
			})
		}
	}
	return fresh, changed
}

// change records what the next containers of these workers are probed with. Options.Timing may take a while,
// so the pod's own goroutine asks it, not the scheduler.
func (m *Manager) change(pod *v1.Pod, changed []*worker) {
	for _, w := range changed {
		p := probeOf(pod, w.name, w.kind)
		next := &change{p, m.timing(pod, w.name, w.kind, p)}
		m.mu.Lock()
		w.next = next
		m.mu.Unlock()
	}
}

// enter puts a new worker into the heap. Its first look is now, because a look executes nothing;
// only the first run may have to wait (2.3, 8.9).
func (m *Manager) enter(w *worker, look decide.Look, now time.Duration) {
	m.numbers++
	w.number = m.numbers
	w.grid = now
	spread := w.timing.Period
	if s := m.options.StartSpread; s > 0 {
		spread = min(spread, s)
	}
	if w.kind == Readiness && look.Before != nil && look.Before.Result == Success {
		spread = min(spread, defaultPeriod)
	}
	if w.timing.Period > now {
		w.earliest = now + time.Duration(m.options.Rand()*float64(spread))
		w.grid = w.earliest
	}
	w.due = now
	m.decide(w, look, now)
}

// probed returns the containers that are probed: app containers and sidecars (1.1).
func probed(pod *v1.Pod) []*v1.Container {
	var out []*v1.Container
	for i := range pod.Spec.InitContainers {
		if c := &pod.Spec.InitContainers[i]; restartpolicy.IsSidecar(c) && hasProbe(c) {
			out = append(out, c)
		}
	}
	for i := range pod.Spec.Containers {
		if c := &pod.Spec.Containers[i]; hasProbe(c) {
			out = append(out, c)
		}
	}
	return out
}

func hasProbe(c *v1.Container) bool {
	return c.StartupProbe != nil || c.LivenessProbe != nil || c.ReadinessProbe != nil
}

// probesOf returns a container's probes by kind.
func probesOf(c *v1.Container) [decide.Kinds]*v1.Probe {
	return [decide.Kinds]*v1.Probe{Startup: c.StartupProbe, Liveness: c.LivenessProbe, Readiness: c.ReadinessProbe}
}

// probeOf returns a probe of a pod, or nil if the pod has none of that kind and container.
func probeOf(pod *v1.Pod, container string, kind Kind) *v1.Probe {
	if c := specOf(pod, container); c != nil {
		return probesOf(c)[kind]
	}
	return nil
}

// StopLivenessAndStartup ends the startup and liveness workers of a pod that is being stopped,
// sidecars included. Readiness continues, so that the pod can become unready while it drains (7.1,
// 7.2).
func (m *Manager) StopLivenessAndStartup(uid types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.endWorkers(uid, func(w *worker) bool { return w.kind != Readiness })
}

// RemovePod ends all workers of a pod.
func (m *Manager) RemovePod(uid types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.endWorkers(uid, func(*worker) bool { return true })
}

// CleanupPods ends all workers of pods that are not in keep (2.7).
func (m *Manager) CleanupPods(keep map[types.UID]struct{}) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for uid := range m.pods {
		if _, ok := keep[uid]; !ok {
			m.endWorkers(uid, func(*worker) bool { return true })
		}
	}
}

func (m *Manager) endWorkers(uid types.UID, which func(*worker) bool) {
	entry := m.pods[uid]
	if entry == nil {
		return
	}
	for _, w := range slices.Clone(entry.workers) {
		if which(w) {
			m.end(w)
		}
	}
}

// end ends a worker: its result, its series and its key are removed (2.7), and a run in progress is
// cancelled and its outcome ignored (7.6). The caller holds the lock.
func (m *Manager) end(w *worker) {
	switch w.stage {
	case waiting:
		m.due.drop(w)
	case queued:
		m.unqueue(w)
	case running:
		w.run.cancel(errEnded)
		w.due = m.now() + hungGrace // by then it is given up
		m.due.place(w)
		m.poke()
	case ended:
		return
	}
	w.stage = ended
	if !w.state.ID.IsZero() {
		m.results[w.kind].remove(w.state.ID)
	}
	p := w.pod
	p.workers = slices.DeleteFunc(p.workers, func(other *worker) bool { return other == w })
	if len(p.workers) == 0 && m.pods[p.uid] == p {
		delete(m.pods, p.uid)
	}
}

// Result returns a container's latest result, and false if it has none (6.5).
func (m *Manager) Result(kind Kind, id runtime.ContainerID) (Result, bool) {
	return m.results[kind].get(id)
}
