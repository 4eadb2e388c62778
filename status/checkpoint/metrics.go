package checkpoint

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"

	"github.com/podwright/podwright/internal/buckets"
)

// metrics are the instruments of a keeper (CK8):
//
//	podwright_checkpoint_writes_total{result}    records written or deleted: ok, error
//	podwright_checkpoint_write_duration_seconds  time of a batch
//	podwright_checkpoint_records                 records in memory
//	podwright_checkpoint_pending                 of them with changes not on the disk
//	podwright_checkpoint_bytes_total             bytes written, if the store counts them
type metrics struct {
	writes   metric.Int64Counter
	duration metric.Float64Histogram
}

// newMetrics makes the instruments. One that cannot be made is replaced by one
// that does nothing.
func newMetrics(k *Keeper) *metrics {
	m := &metrics{writes: noop.Int64Counter{}, duration: noop.Float64Histogram{}}
	meter := k.options.Meter
	if meter == nil {
		return m
	}
	if c, err := meter.Int64Counter("podwright_checkpoint_writes_total",
		metric.WithDescription("Pod records written or deleted, by result.")); err == nil {
		m.writes = c
	}
	if h, err := meter.Float64Histogram("podwright_checkpoint_write_duration_seconds", metric.WithUnit("s"),
		metric.WithExplicitBucketBoundaries(buckets.Seconds()...),
		metric.WithDescription("Time of one batch of pod records.")); err == nil {
		m.duration = h
	}
	gauge := func(name, description string, value func(Stats) int) {
		_, _ = meter.Int64ObservableGauge(name, metric.WithDescription(description),
			metric.WithInt64Callback(func(_ context.Context, o metric.Int64Observer) error {
				o.Observe(int64(value(k.Stats())))
				return nil
			}))
	}
	gauge("podwright_checkpoint_records", "Pod records in memory.", func(s Stats) int { return s.Records })
	gauge("podwright_checkpoint_pending", "Pod records with changes that are not on the disk.", func(s Stats) int { return s.Pending })
	if counting, ok := k.options.Store.(interface{ Written() (files, bytes int64) }); ok {
		_, _ = meter.Int64ObservableCounter("podwright_checkpoint_bytes_total", metric.WithUnit("By"),
			metric.WithDescription("Bytes of pod records written."),
			metric.WithInt64Callback(func(_ context.Context, o metric.Int64Observer) error {
				_, bytes := counting.Written()
				o.Observe(bytes)
				return nil
			}))
	}
	return m
}

// wrote counts a batch.
func (m *metrics) wrote(ctx context.Context, good, bad int, took time.Duration) {
	m.writes.Add(ctx, int64(good), metric.WithAttributes(attribute.String("result", "ok")))
	if bad > 0 {
		m.writes.Add(ctx, int64(bad), metric.WithAttributes(attribute.String("result", "error")))
	}
	m.duration.Record(ctx, took.Seconds())
}
