package pleg

import (
	"context"
	"sync"
	"time"

	"go.opentelemetry.io/otel/metric"

	"github.com/podwright/podwright/internal/instrument"
	"github.com/podwright/podwright/runtime"
)

// metrics are the instruments of section 11. Durations are recorded as they happen; every state and
// running total is read when a Run's meter asks.
type metrics struct {
	set                                     *instrument.Set
	relistDuration, relistInterval, podRead metric.Float64Histogram
	streamLatency                           metric.Float64Histogram

	lastSeen                                  metric.Float64Observable
	runningPods, runningContainers            metric.Int64Observable
	known, unchanged, unconfirmed, malformed  metric.Int64Observable
	open, queued, reading, hung, lost         metric.Int64Observable
	requests, merged, conflicts               metric.Int64Observable
	streamUp, connected, disconnected, events metric.Int64Observable

	mu   sync.Mutex
	last time.Time
}

func newMetrics(meter metric.Meter) (*metrics, error) {
	set := instrument.New(meter)
	buckets := instrument.Buckets(.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30)
	m := &metrics{
		set:            set,
		relistDuration: set.Durations("kubelet_pleg_relist_duration_seconds", "Time to list all pods.", buckets),
		relistInterval: set.Durations("kubelet_pleg_relist_interval_seconds", "Time between the starts of two relists.", buckets),
		podRead:        set.Durations("kubelet_pleg_pod_relist_duration_seconds", "Time to read one pod, by what asked for it.", buckets, instrument.By("cause", "relist", "refresh")),
		streamLatency:  set.Durations("kubelet_evented_pleg_connection_latency_seconds", "Age of a container event when it is received.", buckets),

		lastSeen:          set.ReadSeconds("kubelet_pleg_last_seen_seconds", "When the last successful list began, in seconds since 1970."),
		runningPods:       set.ReadGauge("kubelet_running_pods", "Pods with a ready sandbox in the last list."),
		runningContainers: set.ReadGauge("kubelet_running_containers", "Containers in the last list, by state.", instrument.By("container_state", "unknown", "created", "running", "exited")),
		known:             set.ReadGauge("podwright_pleg_pods", "Pods the runtime shows."),
		unchanged:         set.ReadGauge("podwright_pleg_unchanged_pods", "Pods of the last list that needed no call."),
		unconfirmed:       set.ReadGauge("podwright_pleg_unconfirmed_pods", "Pods the last list lacked that are not believed gone yet."),
		malformed:         set.ReadGauge("podwright_pleg_malformed_objects", "Objects in the last list without ID, metadata or image."),
		open:              set.ReadGauge("podwright_pleg_outstanding_pods", "Pods whose reading is outstanding."),
		queued:            set.ReadGauge("podwright_pleg_queued_inspections", "Pods waiting to be read."),
		reading:           set.ReadGauge("podwright_pleg_inspections_in_progress", "Pods being read."),
		hung:              set.ReadGauge("podwright_pleg_hung_inspections", "Pods whose last reading ran out of time."),
		lost:              set.ReadGauge("podwright_pleg_lost_calls", "Runtime calls that ignore the end of their context, by kind.", instrument.By("kind", "inspection", "list")),
		requests:          set.ReadCounter("podwright_pleg_refresh_requests", "Requests to refresh one pod."),
		merged:            set.ReadCounter("podwright_pleg_refresh_requests_merged", "Requests that joined one waiting already."),
		conflicts:         set.ReadCounter("podwright_pleg_id_conflicts", "IDs found in a second pod."),
		streamUp:          set.ReadGauge("podwright_evented_pleg_connected", "1 while the event stream is up."),
		connected:         set.ReadCounter("kubelet_evented_pleg_connection_success_count", "Connections of the event stream that lasted a second or brought an event."),
		disconnected:      set.ReadCounter("kubelet_evented_pleg_connection_error_count", "Ends of the event stream and failed tries."),
		events:            set.ReadCounter("podwright_evented_pleg_events", "Events received, by whether they were of use.", instrument.By("used", "true", "false")),
	}
	return m, set.Err()
}

// relisted records one relist.
func (m *metrics) relisted(ctx context.Context, began time.Time, took time.Duration) {
	m.relistDuration.Record(ctx, took.Seconds())
	m.mu.Lock()
	last := m.last
	m.last = began
	m.mu.Unlock()
	if interval := began.Sub(last); !last.IsZero() && interval >= 0 {
		m.relistInterval.Record(ctx, interval.Seconds())
	}
}

// read records one reading of a pod.
func (m *metrics) read(ctx context.Context, took time.Duration, refresh bool) {
	cause := "relist"
	if refresh {
		cause = "refresh"
	}
	m.podRead.Record(ctx, took.Seconds(), instrument.Labels("cause", cause))
}

// streamed records the age of an event. The time comes from the runtime: it is used only here, and
// ignored if it cannot be right (EV5).
func (m *metrics) streamed(ctx context.Context, now time.Time, createdAt int64) {
	age := now.Sub(time.Unix(0, createdAt))
	if age < 0 || age > time.Hour {
		return
	}
	m.streamLatency.Record(ctx, age.Seconds())
}

// figures is one snapshot for the meter.
type figures struct {
	count                      listCount
	requests, merged           int64
	queued, reading, open      int64
	lostReads, lostLists, hung int64
	lastSeen                   time.Time
	streamUp                   bool
	connected, errors          int64
	used, ignored              int64
	pods, conflicts            int64
}

func (g *Generator) figures() figures {
	health := g.Health()
	f := figures{lastSeen: health.LastList, hung: int64(len(health.Hung)), lostReads: int64(g.lostReads.count() + g.lostHidden.count()), lostLists: int64(g.lostLists.count())}
	g.mu.Lock()
	f.count, f.requests, f.merged = g.scan.count, g.requests, g.merged
	f.queued, f.reading = int64(len(g.urgent)+len(g.queue)), int64(g.places+g.unanswered)
	f.pods, f.conflicts = int64(len(g.pods)), int64(g.conflicts)
	g.mu.Unlock()
	g.cache.mu.RLock()
	f.open = int64(len(g.cache.outstanding))
	g.cache.mu.RUnlock()
	f.streamUp, f.connected, f.errors, f.used, f.ignored = g.stream.figures(g.options.Clock.Now())
	return f
}

// export registers the metrics that are read on demand, until withdraw is called.
func (m *metrics) export(g *Generator) (withdraw func(), err error) {
	return m.set.Export(func(o metric.Observer) {
		f := g.figures()
		if !f.lastSeen.IsZero() {
			o.ObserveFloat64(m.lastSeen, float64(f.lastSeen.UnixNano())/1e9)
		}
		o.ObserveInt64(m.runningPods, int64(f.count.runningPods))
		for state, n := range f.count.containers { // zero is reported too, so no state keeps an old value
			o.ObserveInt64(m.runningContainers, int64(n), instrument.Labels("container_state", runtime.State(state).String()))
		}
		o.ObserveInt64(m.known, f.pods)
		o.ObserveInt64(m.unchanged, int64(f.count.unchanged))
		o.ObserveInt64(m.unconfirmed, int64(f.count.unconfirmed))
		o.ObserveInt64(m.malformed, int64(f.count.malformed))
		o.ObserveInt64(m.open, f.open)
		o.ObserveInt64(m.queued, f.queued)
		o.ObserveInt64(m.reading, f.reading)
		o.ObserveInt64(m.hung, f.hung)
		o.ObserveInt64(m.lost, f.lostReads, instrument.Labels("kind", "inspection"))
		o.ObserveInt64(m.lost, f.lostLists, instrument.Labels("kind", "list"))
		o.ObserveInt64(m.requests, f.requests)
		o.ObserveInt64(m.merged, f.merged)
		o.ObserveInt64(m.conflicts, f.conflicts)
		o.ObserveInt64(m.streamUp, int64(boolToInt(f.streamUp)))
		o.ObserveInt64(m.connected, f.connected)
		o.ObserveInt64(m.disconnected, f.errors)
		o.ObserveInt64(m.events, f.used, instrument.Labels("used", "true"))
		o.ObserveInt64(m.events, f.ignored, instrument.Labels("used", "false"))
	})
}

func boolToInt(b bool) int {
	if b {
		return 1
	}
	return 0
}
