package status

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"go.opentelemetry.io/otel/metric"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/podwright/podwright/internal/foreign"
	"github.com/podwright/podwright/internal/timing"
)

// errRunning is returned by [Manager.Run] if the manager is running or has run before.
var errRunning = errors.New("status manager: Run was called before")

// Mirrors knows which mirror pod stands in for a static pod at an API
// (spec/status.md 7.1, 8.2). The manager calls it from its callers' goroutines
// and its own, without holding a lock; it must not block and must not call the
// manager back.
type Mirrors interface {
	// TranslateUID returns the UID of the static pod that a mirror pod stands in for, and any other
	// UID unchanged.
	TranslateUID(uid types.UID) types.UID
	// MirrorOf returns the mirror pod of a static pod, or nil.
	MirrorOf(static *v1.Pod) *v1.Pod
}

// Options configures a [Manager]. The zero value is a manager without sinks.
type Options struct {
	// Sinks get every change, independently of each other. Logs, metrics and the [Journal] name a
	// sink by its method Name() string, or without one by its position and type, as in
	// "0:status.SinkFunc". Further sinks of one name get "#2", "#3" and so on after it, in the order given
	// here; sinks that keep what they have across a restart need names of their own: this order may change.
	Sinks []StatusSink
	// Clock stamps transitions and times back-off. Nil means the real clock.
	Clock clock.WithDelayedExecution
	// Logger logs dropped updates and failing sinks. The zero value is silent.
	Logger logr.Logger
	// Meter makes the instruments named in metrics.go. Nil means none.
	Meter metric.Meter
	// Jitter returns a number in [0,1) that spreads back-off. Nil means a private random source. It
	// is called with a lock held and must not block.
	Jitter func() float64
	// CouldHaveRunningContainers says whether a container of the pod may still run, in the workers'
	// view; as long as one may, no terminal phase is sent (8.4). It must not block and must not
	// call the manager back. Nil means that only the container statuses decide. A status that shows
	// a running container is held back in any case (8.5).
	CouldHaveRunningContainers func(uid types.UID) bool
	// Mirrors translates between static and mirror pods. Nil means that there are no mirror pods;
	// then sinks with [PodReader] get no static pods.
	Mirrors Mirrors
	// Journal remembers statuses across a restart. Nil means that none are remembered; then
	// [Manager.Restore] is not needed either.
	Journal Journal
	// HoldTerminal is how long the sinks wait for a terminal status while the journal cannot write
	// it. 0 means 60 s (9.11).
	HoldTerminal time.Duration
	// MaxInFlight bounds the sends in flight per sink. Sends not answered within 0.5 s no longer
	// count, so that they delay no other pod. 0 means 4.
	MaxInFlight int
	// SendTimeout ends the context of one send. 0 means 30 s.
	SendTimeout time.Duration
	// History is how many changes are kept for watchers that lag behind.
	// 0 means 512.
	History int
}

// Manager holds the newest status of each pod and sends changes to its sinks. All methods are safe
// for concurrent use; only Run and Flush block.
type Manager struct {
	options Options
	metrics *metrics
	calls   *foreign.Calls // the calls of the sinks

	mu      sync.Mutex
	running bool
	pods    map[types.UID]*entry
	senders []*sender
	history history
	// ended is closed when Run returns.
	ended chan struct{}
	// progress, if not nil, is closed when a send has ended; a Flush waits for it.
	progress chan struct{}
}

// entry is the manager's record of one pod. It is guarded by Manager.mu; what it points to is never
// modified.
type entry struct {
	uid types.UID
	// pod is the pod as last seen, for the sinks: identity, deletion, mirror.
	pod      *v1.Pod
	status   *v1.PodStatus
	version  uint64
	finished bool
	// calm is until when an API need not have this version, which saves a write for pods that start quickly (5.4).
	calm time.Time
	// changed is when version was accepted, ended when the phase became terminal.
	changed, ended time.Time
	// starting is when the pod had its first status. It is zero once the pod has run, and for a pod
	// that an earlier agent knew.
	starting time.Time
	// restored: the status is from before a restart, and no source has named the
	// pod since.
	restored bool
	// endedBefore: its phase was terminal before a restart, so sinks may already have that phase.
	endedBefore bool
	// forgotten is when the manager dropped the pod, zero until then. Sinks without [PodReader] get
	// this entry once more.
	forgotten time.Time
	// stale: the status is from before a restart and may be older than what a sink was last sent;
	// it is not sent. Its version is above all that an earlier process can have sent.
	stale bool
	// refused: it is still stale because a status of this process was refused. A sink that has
	// nothing from before the restart gets it.
	refused bool
	// gap is what the next change adds to the version, so that it is above all that an earlier
	// process can have sent.
	gap uint64
}

// advance gives an entry its next version.
func (e *entry) advance() {
	e.version += 1 + e.gap
	e.gap = 0
}

// NewManager returns a manager. It is usable at once; nothing is sent before
// [Manager.Run].
func NewManager(options Options) *Manager {
	if options.Clock == nil {
		options.Clock = clock.RealClock{}
	}
	if options.Jitter == nil {
		options.Jitter = timing.Jitter()
	}
	if options.HoldTerminal <= 0 {
		options.HoldTerminal = time.Minute
	}
	if options.MaxInFlight <= 0 {
		options.MaxInFlight = 4
	}
	if options.SendTimeout <= 0 {
		options.SendTimeout = 30 * time.Second
	}
	if options.History <= 0 {
		options.History = 512
	}
	m := &Manager{
		options: options, calls: foreign.New(options.Clock),
		metrics: newMetrics(options.Meter),
		pods:    map[types.UID]*entry{},
		ended:   make(chan struct{}),
		history: history{limit: options.History},
	}
	names := sinkNames(options.Sinks)
	for i, sink := range options.Sinks {
		m.senders = append(m.senders, newSender(m, sink, names[i]))
	}
	return m
}

// sinkNames names the sinks so that no two have one name: calls and acknowledgements are kept by
// name. The first keeps the name it has, because records of earlier processes use it.
func sinkNames(sinks []StatusSink) []string {
	names := make([]string, len(sinks))
	taken := map[string]bool{}
	for i, sink := range sinks {
		names[i] = sinkName(sink, i)
		taken[names[i]] = true
	}
	first := map[string]bool{}
	for i, name := range names {
		if !first[name] {
			first[name] = true
			continue
		}
		for n := 2; taken[names[i]]; n++ {
			names[i] = fmt.Sprintf("%s#%d", name, n)
		}
		taken[names[i]] = true
	}
	return names
}

// sinkName returns what a sink is called.
func sinkName(sink StatusSink, index int) string {
	if named, ok := sink.(interface{ Name() string }); ok {
		return named.Name()
	}
	return fmt.Sprintf("%d:%T", index, sink)
}

// Sinks returns the names of the sinks, as used in [Journal].
func (m *Manager) Sinks() []string {
	names := make([]string, len(m.senders))
	for i, s := range m.senders {
		names[i] = s.name
	}
	return names
}

// Run sends until ctx ends and returns once every goroutine that it started has ended, except calls of a
// sink that ignores its context for 5 s, which are logged. Unsent
// changes stay in the cache; to wait for them, call [Manager.Flush] first. A second Run is an
// error.
func (m *Manager) Run(ctx context.Context) error {
	m.mu.Lock()
	if m.running {
		m.mu.Unlock()
		return errRunning
	}
	m.running = true
	m.mu.Unlock()
	defer close(m.ended)
	defer m.export()()

	var wg sync.WaitGroup
	for _, s := range m.senders {
		wg.Go(func() { s.run(ctx) })
	}
	m.metrics.recordStarts(ctx)
	wg.Wait()
	m.calls.Leave(m.options.Logger)
	return nil
}

// Get returns the status of a pod, or of the static pod that a mirror UID stands for, and false if
// nothing is known. What the status points to is shared: treat it as read-only.
func (m *Manager) Get(uid types.UID) (v1.PodStatus, bool) {
	uid = m.translate(uid)
	m.mu.Lock()
	var known *v1.PodStatus
	if e := m.pods[uid]; e != nil {
		known = e.status // replaced under the lock, never changed
	}
	m.mu.Unlock()
	if known != nil {
		return *known, true
	}
	return v1.PodStatus{}, false
}

// Flush waits, while Run runs, until every sink has every change that it can take. It does not wait
// for changes of pods that a sink does not know, nor for a sandbox of which an API is told later (5.4). The error wraps that of ctx and has the number of
// changes still unsent.
func (m *Manager) Flush(ctx context.Context) error {
	for {
		m.mu.Lock()
		pending := 0
		for _, s := range m.senders {
			pending += s.pending()
		}
		if pending > 0 && m.progress == nil {
			m.progress = make(chan struct{})
		}
		progress := m.progress
		m.mu.Unlock()
		if pending == 0 {
			return nil
		}
		select {
		case <-progress:
		case <-ctx.Done():
			return fmt.Errorf("%d status changes not sent: %w", pending, ctx.Err())
		}
	}
}

// progressed wakes the calls of Flush. The lock is held.
func (m *Manager) progressed() {
	if m.progress != nil {
		close(m.progress)
		m.progress = nil
	}
}

// SinkError says that a sink does not take everything it is given.
type SinkError struct {
	// Sink is the name of the sink.
	Sink string
	// Pods is how many pods' statuses are waiting after a failed send.
	Pods int
	// Since is when the first of these failures happened; since then, at least one pod has been
	// failing at any time.
	Since time.Time
	// Err is the latest failure.
	Err error
}

// Error names the sink and what is wrong.
func (e *SinkError) Error() string {
	return fmt.Sprintf("status sink %s fails for %d pods since %s: %v", e.Sink, e.Pods, e.Since.UTC().Format(time.RFC3339), e.Err)
}

// Unwrap returns Err.
func (e *SinkError) Unwrap() error { return e.Err }
