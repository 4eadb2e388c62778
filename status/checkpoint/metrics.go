package checkpoint

import (
	"context"
	"errors"
	"time"

	"go.opentelemetry.io/otel/metric"

	"github.com/podwright/podwright/internal/instrument"
)

// metrics are the instruments of a keeper (CK8):
//
//	podwright_checkpoint_writes_total{result}    records written or deleted: ok, error
//	podwright_checkpoint_write_duration_seconds  time of a batch
//	podwright_checkpoint_records                 records in memory
//	podwright_checkpoint_pending                 records with changes that are not on the disk
//	podwright_checkpoint_bytes_total             bytes written, if the store counts them
//	podwright_checkpoint_outrun_total            steps that did not wait for a record because
//	                                             they free disk space (IN4)
type metrics struct {
	set              *instrument.Set
	writes, outrun   metric.Int64Counter
	duration         metric.Float64Histogram
	records, pending metric.Int64Observable
	bytes            metric.Int64Observable // nil: the store does not count them
}

// countingStore is a store that counts what it writes.
type countingStore interface{ Written() (files, bytes int64) }

func newMetrics(o *Options) *metrics {
	set := instrument.New(o.Meter)
	m := &metrics{
		set:      set,
		writes:   set.Counter("podwright_checkpoint_writes_total", "Pod records written or deleted, by result.", instrument.By("result", "ok", "error")),
		outrun:   set.Counter("podwright_checkpoint_outrun_total", "Steps that free disk space and did not wait for a record on a full disk."),
		duration: set.Durations("podwright_checkpoint_write_duration_seconds", "Time of one batch of pod records."),
		records:  set.ReadGauge("podwright_checkpoint_records", "Pod records in memory."),
		pending:  set.ReadGauge("podwright_checkpoint_pending", "Pod records with changes that are not on the disk."),
	}
	if _, counts := o.Store.(countingStore); counts {
		m.bytes = set.ReadCounter("podwright_checkpoint_bytes_total", "Bytes of pod records written.")
	}
	return m
}

// export registers the metrics that are read on demand, until withdraw is called.
func (k *Keeper) export() (withdraw func()) {
	m := k.metrics
	withdraw, err := m.set.Export(func(o metric.Observer) {
		stats := k.stats()
		o.ObserveInt64(m.records, int64(stats.Records))
		o.ObserveInt64(m.pending, int64(stats.Pending))
		if m.bytes != nil {
			_, bytes := k.options.Store.(countingStore).Written()
			o.ObserveInt64(m.bytes, bytes)
		}
	})
	if err != nil {
		withdraw = func() {}
	}
	if err := errors.Join(m.set.Err(), err); err != nil {
		k.options.Logger.Error(err, "some metrics are not available")
	}
	return withdraw
}

// wrote counts a batch.
func (m *metrics) wrote(ctx context.Context, good, bad int, took time.Duration) {
	m.writes.Add(ctx, int64(good), instrument.Labels("result", "ok"))
	if bad > 0 {
		m.writes.Add(ctx, int64(bad), instrument.Labels("result", "error"))
	}
	m.duration.Record(ctx, took.Seconds())
}
