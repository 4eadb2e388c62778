package status

import (
	"context"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"

	"github.com/podwright/podwright/internal/buckets"
)

// metrics are the instruments of the manager:
//
//	podwright_status_updates_total{result}         offered statuses: accepted, unchanged, illegal
//	podwright_status_sends_total{sink,result}      sends: a StoreResult, skipped (no difference) or error
//	kubelet_pod_status_sync_duration_seconds{sink} from the change to its acknowledgement
type metrics struct {
	sends   metric.Int64Counter
	latency metric.Float64Histogram
	// Offered statuses are counted here and read when somebody collects:
	// SetPodStatus has no context to count with, and must cost nothing.
	accepted, unchanged, illegal *atomic.Int64
}

// newMetrics makes the instruments. One that cannot be made is replaced by one
// that does nothing: a status must not depend on its metrics.
func newMetrics(meter metric.Meter) metrics {
	m := metrics{
		sends: noop.Int64Counter{}, latency: noop.Float64Histogram{},
		accepted: &atomic.Int64{}, unchanged: &atomic.Int64{}, illegal: &atomic.Int64{},
	}
	if meter == nil {
		return m
	}
	if c, err := meter.Int64Counter("podwright_status_sends_total",
		metric.WithDescription("Statuses handed to a sink, by sink and result.")); err == nil {
		m.sends = c
	}
	if h, err := meter.Float64Histogram("kubelet_pod_status_sync_duration_seconds", metric.WithUnit("s"),
		metric.WithExplicitBucketBoundaries(buckets.Seconds()...),
		metric.WithDescription("Time from a status change to its acknowledgement by a sink.")); err == nil {
		m.latency = h
	}
	result := func(name string) metric.ObserveOption {
		return metric.WithAttributeSet(attribute.NewSet(attribute.String("result", name)))
	}
	accepted, unchanged, illegal := result("accepted"), result("unchanged"), result("illegal")
	_, _ = meter.Int64ObservableCounter("podwright_status_updates_total",
		metric.WithDescription("Statuses offered to the status manager, by what became of them."),
		metric.WithInt64Callback(func(_ context.Context, o metric.Int64Observer) error {
			o.Observe(m.accepted.Load(), accepted)
			o.Observe(m.unchanged.Load(), unchanged)
			o.Observe(m.illegal.Load(), illegal)
			return nil
		}))
	return m
}

// sent counts one send.
func (m *metrics) sent(ctx context.Context, sink, result string) {
	m.sends.Add(ctx, 1, metric.WithAttributes(attribute.String("sink", sink), attribute.String("result", result)))
}

// acknowledged measures one acknowledged change.
func (m *metrics) acknowledged(ctx context.Context, sink string, took time.Duration) {
	m.latency.Record(ctx, took.Seconds(), metric.WithAttributes(attribute.String("sink", sink)))
}
