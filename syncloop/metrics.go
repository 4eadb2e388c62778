package syncloop

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/metric"

	"github.com/podwright/podwright/internal/instrument"
)

// metrics are the instruments of B10. Metrics have no caller whose context could
// matter, so they carry the loop's.
type metrics struct {
	set *instrument.Set

	operations  metric.Int64Counter
	refusals    metric.Int64Counter
	iterations  metric.Float64Histogram
	queueAge    metric.Float64Histogram
	gateClosed  metric.Float64Counter
	panics      metric.Int64Counter
	passes      metric.Float64Histogram
	sourceFails metric.Int64Counter

	age  metric.Float64Observable
	held metric.Int64Observable
}

func newMetrics(meter metric.Meter) (*metrics, error) {
	set, bySource := instrument.New(meter), instrument.By("source")
	m := &metrics{
		set: set,
		operations: set.Counter("podwright_syncloop_operations_total", "Pods in operations handled, by operation and source.",
			instrument.By("operation", "ADD", "UPDATE", "DELETE", "REMOVE", "RECONCILE"), bySource),
		refusals: set.Counter("podwright_syncloop_refused_pods_total", "Pods left out because another one has their name or UID, or because their UID cannot be used, by source.", bySource),
		panics: set.Counter("podwright_syncloop_handler_panics_total", "Panics recovered in the sync loop, by where.",
			instrument.By("where", "admission", "housekeeping", "gate", "dispatcher", "source")),
		sourceFails: set.Counter("podwright_syncloop_source_failures_total", "Times a source's Run ended with an error, by source.", bySource),
		iterations:  set.Durations("podwright_syncloop_iteration_duration_seconds", "Time to handle one input, by input.", instrument.By("input", "operation", "event", "held")),
		queueAge:    set.Durations("podwright_syncloop_queue_age_seconds", "Time from accepting a source's set to handling it."),
		passes:      set.Durations("podwright_syncloop_housekeeping_duration_seconds", "Duration of housekeeping passes."),
		gateClosed:  set.SecondsCounter("podwright_syncloop_gate_closed_seconds_total", "Time during which setup was held back."),
		age:         set.ReadSeconds("podwright_syncloop_source_age_seconds", "Time since a source last delivered a set.", bySource),
		held:        set.ReadGauge("podwright_syncloop_held_pods", "Pods whose work waits for the gate or after a panic."),
	}
	return m, set.Err()
}

// observe registers the gauges that are read from the loop; the returned function
// ends that.
func (m *metrics) observe(l *Loop) (stop func(), err error) {
	return m.set.Export(func(o metric.Observer) {
		for _, s := range l.Sources() {
			if !s.LastDelivery.IsZero() {
				o.ObserveFloat64(m.age, l.options.Clock.Since(s.LastDelivery).Seconds(), instrument.Labels("source", s.Name))
			}
		}
		o.ObserveInt64(m.held, int64(len(l.heldPods())))
	})
}

func (m *metrics) operation(ctx context.Context, o operation) {
	m.operations.Add(ctx, int64(max(1, len(o.pods))), instrument.Labels("operation", o.op.String(), "source", o.source))
}

func (m *metrics) refused(ctx context.Context, source string) {
	m.refusals.Add(ctx, 1, instrument.Labels("source", source))
}

func (m *metrics) iteration(ctx context.Context, input string, d time.Duration) {
	m.iterations.Record(ctx, d.Seconds(), instrument.Labels("input", input))
}

func (m *metrics) panicked(ctx context.Context, where string) {
	m.panics.Add(ctx, 1, instrument.Labels("where", where))
}
