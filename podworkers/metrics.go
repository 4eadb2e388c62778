package podworkers

import (
	"context"
	"errors"
	"time"

	"go.opentelemetry.io/otel/metric"

	"github.com/podwright/podwright/internal/instrument"
	"github.com/podwright/podwright/podworkers/internal/machine"
)

// instruments are the metrics of spec/podworkers.md 14. Those that the kubelet also has
// carry its names.
type instruments struct {
	set        *instrument.Set
	enabled    bool
	duration   metric.Float64Histogram
	start      metric.Float64Histogram
	containers metric.Int64Histogram
	backOff    metric.Float64Histogram
	state      metric.Float64Histogram
	view       metric.Float64Histogram
	cancels    metric.Int64Counter
	panics     metric.Int64Counter

	inFlight, waiting, stuck metric.Int64Observable
}

// newInstruments creates the instruments. An instrument that the meter refuses stays silent.
func newInstruments(meter metric.Meter) *instruments {
	set, byPhase := instrument.New(meter), instrument.By("phase", "setup", "terminating", "terminating-runtime", "terminated")
	return &instruments{
		set:     set,
		enabled: meter != nil,
		duration: set.Durations("kubelet_pod_worker_duration_seconds", "Time from an update to the end of the round that took it.",
			instrument.By("operation_type", "sync", "update", "create", "kill", "restart", "terminated")),
		start: set.Durations("kubelet_pod_worker_start_duration_seconds", "Time from the first update of a pod to its first setup call."),
		containers: set.Sizes("kubelet_containers_per_pod_count", "Containers per pod, counted when it is first started.",
			instrument.Buckets(1, 2, 4, 8, 16)),
		backOff: set.Durations("podwright_pod_worker_backoff_seconds", "Pause after a failed call, by phase.", byPhase),
		state: set.Durations("podwright_pod_worker_state_seconds", "Time pods spent in a state, counted when they leave it.",
			instrument.By("state", "unknown", "queued", "termination queued", "setup", "termination requested",
				"terminating", "terminating (runtime only)", "terminated", "finished")),
		view: set.Durations("podwright_pod_worker_view_wait_seconds", "Time a call waited for a fresh view, if it had to wait."),
		cancels: set.Counter("podwright_pod_worker_cancels_total", "Calls cancelled, by cause.",
			instrument.By("cause", "terminating", "grace_shrunk", "orphaned", "stopping", "deadline")),
		panics:   set.Counter("podwright_pod_worker_panics_total", "Panics of syncer calls, by phase.", byPhase),
		inFlight: set.ReadGauge("podwright_pod_worker_calls_in_flight", "Syncer calls in progress, by phase.", byPhase),
		waiting:  set.ReadGauge("podwright_pod_worker_waiting_static_pods", "Static pods waiting for their full name."),
		stuck:    set.ReadGauge("podwright_pod_worker_stuck_calls", "Calls that go on long after they were cancelled."),
	}
}

// export registers the gauges, until withdraw is called. An instrument that the meter
// refuses is logged.
func (w *Workers) export() (withdraw func()) {
	in := w.metrics
	withdraw, err := in.set.Export(func(o metric.Observer) { in.read(o, w) })
	if err != nil {
		withdraw = func() {}
	}
	if err := errors.Join(in.set.Err(), err); err != nil {
		w.options.Logger.Error(err, "some metrics are not available")
	}
	return withdraw
}

// read observes the gauges.
func (in *instruments) read(o metric.Observer, w *Workers) {
	w.mu.Lock()
	stats := w.machine.Stats()
	w.mu.Unlock()
	for phase, n := range stats.InPhase {
		o.ObserveInt64(in.inFlight, int64(n), phaseLabel(uint8(phase))) //nolint:gosec // four phases
	}
	o.ObserveInt64(in.waiting, int64(stats.WaitingStatic))
	o.ObserveInt64(in.stuck, int64(stats.Stuck))
}

// record carries out one EffectMetric.
func (in *instruments) record(ctx context.Context, e *machine.Effect) {
	switch e.Metric {
	case machine.MetricDuration:
		in.duration.Record(ctx, e.Value, instrument.Labels("operation_type", operation(e.Label)))
	case machine.MetricStartDuration:
		in.start.Record(ctx, e.Value)
	case machine.MetricContainers:
		in.containers.Record(ctx, int64(e.Value))
	case machine.MetricBackOff:
		in.backOff.Record(ctx, e.Value, phaseLabel(e.Label))
	case machine.MetricState:
		in.state.Record(ctx, e.Value, instrument.Labels("state", machine.State(e.Label).String()))
	case machine.MetricCancel:
		in.cancels.Add(ctx, 1, instrument.Labels("cause", machine.Cause(e.Label).Label()))
	case machine.MetricPanic:
		in.panics.Add(ctx, 1, phaseLabel(e.Label))
	}
}

func (in *instruments) viewWait(ctx context.Context, d time.Duration) {
	if in.enabled {
		in.view.Record(ctx, d.Seconds())
	}
}

// operation returns the kubelet's operation_type.
func operation(label uint8) string {
	if label == machine.OperationTerminated {
		return "terminated"
	}
	return UpdateType(label).String()
}

func phaseLabel(phase uint8) metric.MeasurementOption {
	return instrument.Labels("phase", machine.Phase(phase).String())
}
