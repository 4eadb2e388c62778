package syncloop

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"

	"github.com/podwright/podwright/internal/buckets"
)

// metrics are the instruments of B10. Metrics have no caller whose context could
// matter, so they carry the loop's.
type metrics struct {
	meter metric.Meter

	operations  metric.Int64Counter
	refusals    metric.Int64Counter
	iterations  metric.Float64Histogram
	queueAge    metric.Float64Histogram
	gateClosed  metric.Float64Counter
	panics      metric.Int64Counter
	passes      metric.Float64Histogram
	sourceFails metric.Int64Counter
}

func newMetrics(meter metric.Meter) (*metrics, error) {
	if meter == nil {
		meter = noop.NewMeterProvider().Meter("")
	}
	m := &metrics{meter: meter}
	var err error
	counter := func(name, description string) metric.Int64Counter {
		c, e := meter.Int64Counter(name, metric.WithDescription(description))
		if err == nil {
			err = e
		}
		return c
	}
	histogram := func(name, description string) metric.Float64Histogram {
		h, e := meter.Float64Histogram(name, metric.WithDescription(description), metric.WithUnit("s"),
			metric.WithExplicitBucketBoundaries(buckets.Seconds()...))
		if err == nil {
			err = e
		}
		return h
	}
	m.operations = counter("podwright_syncloop_operations_total", "Pods in operations handled, by operation and source.")
	m.refusals = counter("podwright_syncloop_refused_pods_total", "Pods left out because another one has their name or UID, by source.")
	m.panics = counter("podwright_syncloop_handler_panics_total", "Panics recovered in the dispatcher, the gate and the housekeeper.")
	m.sourceFails = counter("podwright_syncloop_source_failures_total", "Times a source's Run ended with an error, by source.")
	m.iterations = histogram("podwright_syncloop_iteration_duration_seconds", "Time to handle one input, by input.")
	m.queueAge = histogram("podwright_syncloop_queue_age_seconds", "Time from accepting a source's set to handling it.")
	m.passes = histogram("podwright_syncloop_housekeeping_duration_seconds", "Duration of housekeeping passes.")
	if err != nil {
		return nil, err
	}
	if m.gateClosed, err = meter.Float64Counter("podwright_syncloop_gate_closed_seconds_total",
		metric.WithDescription("Time during which setup was held back."), metric.WithUnit("s")); err != nil {
		return nil, err
	}
	return m, nil
}

// observe registers the gauges that are read from the loop; the returned function
// ends that.
func (m *metrics) observe(l *Loop) (stop func(), err error) {
	age, err := m.meter.Float64ObservableGauge("podwright_syncloop_source_age_seconds",
		metric.WithDescription("Time since the source last delivered a set."), metric.WithUnit("s"))
	if err != nil {
		return nil, err
	}
	held, err := m.meter.Int64ObservableGauge("podwright_syncloop_held_pods",
		metric.WithDescription("Pods whose work waits for the gate or after a panic."))
	if err != nil {
		return nil, err
	}
	registration, err := m.meter.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		for _, s := range l.Sources() {
			if !s.LastDelivery.IsZero() {
				o.ObserveFloat64(age, l.options.Clock.Since(s.LastDelivery).Seconds(), sourceAttribute(s.Name))
			}
		}
		o.ObserveInt64(held, int64(len(l.Held())))
		return nil
	}, age, held)
	if err != nil {
		return nil, err
	}
	return func() { _ = registration.Unregister() }, nil
}

func sourceAttribute(name string) metric.MeasurementOption {
	return metric.WithAttributes(attribute.String("source", name))
}

func (m *metrics) operation(ctx context.Context, o operation) {
	m.operations.Add(ctx, int64(max(1, len(o.pods))), metric.WithAttributes(
		attribute.String("operation", o.op.String()), attribute.String("source", o.source)))
}

func (m *metrics) refused(ctx context.Context, source string) {
	m.refusals.Add(ctx, 1, sourceAttribute(source))
}

func (m *metrics) iteration(ctx context.Context, input string, d time.Duration) {
	m.iterations.Record(ctx, d.Seconds(), metric.WithAttributes(attribute.String("input", input)))
}

func (m *metrics) panicked(ctx context.Context, where string) {
	m.panics.Add(ctx, 1, metric.WithAttributes(attribute.String("where", where)))
}
