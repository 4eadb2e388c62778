package status

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/metric"

	"github.com/podwright/podwright/internal/instrument"
)

// metrics are the instruments of the manager:
//
//	podwright_status_updates_total{result}         offered statuses: accepted, unchanged, illegal
//	podwright_status_sends_total{sink,result}      sends: a StoreResult, skipped (no difference) or error
//	kubelet_pod_status_sync_duration_seconds{sink} from the change to its acknowledgement
//	kubelet_pod_start_duration_seconds             from a pod's first status to its first as Running
type metrics struct {
	set     *instrument.Set
	sends   metric.Int64Counter
	latency metric.Float64Histogram
	starts  metric.Float64Histogram
	// started passes the start times of pods to Run, which records them.
	started chan time.Duration
	updates metric.Int64Observable
	// Offered statuses are counted here and read on demand: SetPodStatus has no context to count
	// with, and must stay cheap.
	accepted, unchanged, illegal atomic.Int64
}

func newMetrics(meter metric.Meter) *metrics {
	set := instrument.New(meter)
	return &metrics{
		set:     set,
		started: make(chan time.Duration, 256),
		sends: set.Counter("podwright_status_sends_total", "Statuses handed to a sink, by sink and result.",
			instrument.By("sink"), instrument.By("result", "stored", "unchanged", "conflict", "gone", "recreated", "skipped", "error")),
		latency: set.Durations("kubelet_pod_status_sync_duration_seconds", "Time from a status change to its acknowledgement by a sink.", instrument.By("sink")),
		starts: set.Durations("kubelet_pod_start_duration_seconds", "Time from a pod's first status to its first status as Running.",
			instrument.Buckets(.5, 1, 2, 3, 4, 5, 6, 8, 10, 20, 30, 45, 60, 120, 180, 240, 300, 360, 480, 600, 900, 1200, 1800, 2700, 3600)),
		updates: set.ReadCounter("podwright_status_updates_total", "Statuses offered to the status manager, by what became of them.", instrument.By("result", "accepted", "unchanged", "illegal")),
	}
}

// export registers the metrics that are read on demand, until withdraw is called.
func (m *Manager) export() (withdraw func()) {
	x := m.metrics
	accepted, unchanged, illegal := instrument.Labels("result", "accepted"), instrument.Labels("result", "unchanged"), instrument.Labels("result", "illegal")
	withdraw, err := x.set.Export(func(o metric.Observer) {
		o.ObserveInt64(x.updates, x.accepted.Load(), accepted)
		o.ObserveInt64(x.updates, x.unchanged.Load(), unchanged)
		o.ObserveInt64(x.updates, x.illegal.Load(), illegal)
	})
	if err != nil {
		withdraw = func() {}
	}
	if err := errors.Join(x.set.Err(), err); err != nil {
		m.options.Logger.Error(err, "some metrics are not available")
	}
	return withdraw
}

// recordStarts records how long pods took to start, until ctx ends.
func (m *metrics) recordStarts(ctx context.Context) {
	for {
		select {
		case took := <-m.started:
			m.starts.Record(ctx, took.Seconds())
		case <-ctx.Done():
			return
		}
	}
}

// sent counts one send.
func (m *metrics) sent(ctx context.Context, sink, result string) {
	m.sends.Add(ctx, 1, instrument.Labels("sink", sink, "result", result))
}

// acknowledged measures one acknowledged change.
func (m *metrics) acknowledged(ctx context.Context, sink string, took time.Duration) {
	m.latency.Record(ctx, took.Seconds(), instrument.Labels("sink", sink))
}
