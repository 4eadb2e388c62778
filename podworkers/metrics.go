package podworkers

import (
	"context"
	"errors"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"

	"github.com/podwright/podwright/internal/buckets"
	"github.com/podwright/podwright/podworkers/internal/machine"
)

// instruments are the metrics of spec/podworkers.md 14. Those that the kubelet has
// bear its names.
type instruments struct {
	enabled      bool
	duration     metric.Float64Histogram
	start        metric.Float64Histogram
	containers   metric.Int64Histogram
	backOff      metric.Float64Histogram
	state        metric.Float64Histogram
	view         metric.Float64Histogram
	cancels      metric.Int64Counter
	panics       metric.Int64Counter
	registration metric.Registration
}

// newInstruments creates the instruments. One that the meter refuses is logged
// and stays silent.
func newInstruments(w *Workers) *instruments {
	in := &instruments{enabled: w.options.Meter != nil}
	meter := w.options.Meter
	if meter == nil {
		meter = noop.NewMeterProvider().Meter("")
	}
	var errs [8]error
	seconds, bounds := metric.WithUnit("s"), metric.WithExplicitBucketBoundaries(buckets.Seconds()...)
	in.duration, errs[0] = meter.Float64Histogram("kubelet_pod_worker_duration_seconds", seconds, bounds,
		metric.WithDescription("Time from an update to the end of the round that took it."))
	in.start, errs[1] = meter.Float64Histogram("kubelet_pod_worker_start_duration_seconds", seconds, bounds,
		metric.WithDescription("Time from the first sight of a pod to its first setup call."))
	in.containers, errs[2] = meter.Int64Histogram("kubelet_containers_per_pod_count",
		metric.WithExplicitBucketBoundaries(1, 2, 4, 8, 16),
		metric.WithDescription("Containers per pod, counted when it is first started."))
	in.backOff, errs[3] = meter.Float64Histogram("podwright_pod_worker_backoff_seconds", seconds, bounds,
		metric.WithDescription("Pause after a failed call."))
	in.state, errs[4] = meter.Float64Histogram("podwright_pod_worker_state_seconds", seconds, bounds,
		metric.WithDescription("Time pods spent in a state, counted when they leave it."))
	in.view, errs[5] = meter.Float64Histogram("podwright_pod_worker_view_wait_seconds", seconds, bounds,
		metric.WithDescription("Time a call waited for a fresh view, if it had to wait."))
	in.cancels, errs[6] = meter.Int64Counter("podwright_pod_worker_cancels_total",
		metric.WithDescription("Calls cancelled, by cause."))
	in.panics, errs[7] = meter.Int64Counter("podwright_pod_worker_panics_total",
		metric.WithDescription("Panics of syncer calls."))
	err := errors.Join(errs[:]...)
	if in.enabled {
		err = errors.Join(err, in.observe(meter, w))
	}
	if err != nil {
		w.options.Logger.Error(err, "some metrics are not available")
	}
	return in
}

// observe registers the gauges.
func (in *instruments) observe(meter metric.Meter, w *Workers) error {
	var errs [5]error
	var inFlight, queued, waiting, stuck metric.Int64ObservableGauge
	inFlight, errs[0] = meter.Int64ObservableGauge("podwright_pod_worker_calls_in_flight",
		metric.WithDescription("Syncer calls in progress, by phase."))
	queued, errs[1] = meter.Int64ObservableGauge("podwright_pod_worker_queue_length",
		metric.WithDescription("Pods waiting for a free slot."))
	waiting, errs[2] = meter.Int64ObservableGauge("podwright_pod_worker_waiting_static_pods",
		metric.WithDescription("Static pods waiting for their full name."))
	stuck, errs[3] = meter.Int64ObservableGauge("podwright_pod_worker_stuck_calls",
		metric.WithDescription("Calls that go on long after they were cancelled."))
	if err := errors.Join(errs[:]...); err != nil {
		return err
	}
	in.registration, errs[4] = meter.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		w.mu.Lock()
		stats := w.machine.Stats()
		w.mu.Unlock()
		for phase, n := range stats.InPhase {
			o.ObserveInt64(inFlight, int64(n), phaseAttribute(uint8(phase))) //nolint:gosec // four phases
		}
		o.ObserveInt64(queued, int64(stats.Queued))
		o.ObserveInt64(waiting, int64(stats.WaitingStatic))
		o.ObserveInt64(stuck, int64(stats.Stuck))
		return nil
	}, inFlight, queued, waiting, stuck)
	return errs[4]
}

// unregister stops the gauges.
func (in *instruments) unregister() {
	if in.registration != nil {
		_ = in.registration.Unregister()
	}
}

// record carries out one EffectMetric.
func (in *instruments) record(ctx context.Context, e *machine.Effect) {
	switch e.Metric {
	case machine.MetricDuration:
		in.duration.Record(ctx, e.Value, attributes("operation_type", operation(e.Label)))
	case machine.MetricStartDuration:
		in.start.Record(ctx, e.Value)
	case machine.MetricContainers:
		in.containers.Record(ctx, int64(e.Value))
	case machine.MetricBackOff:
		in.backOff.Record(ctx, e.Value, phaseAttribute(e.Label))
	case machine.MetricState:
		in.state.Record(ctx, e.Value, attributes("state", machine.State(e.Label).String()))
	case machine.MetricCancel:
		in.cancels.Add(ctx, 1, attributes("cause", cancelLabel(machine.Cause(e.Label))))
	case machine.MetricPanic:
		in.panics.Add(ctx, 1, phaseAttribute(e.Label))
	}
}

func (in *instruments) viewWait(ctx context.Context, d time.Duration) {
	if in.enabled {
		in.view.Record(ctx, d.Seconds())
	}
}

// operation is the kubelet's operation_type.
func operation(label uint8) string {
	if label == machine.OperationTerminated {
		return "terminated"
	}
	return UpdateType(label).String()
}

func cancelLabel(c machine.Cause) string {
	switch c {
	case machine.CauseTerminating:
		return "terminating"
	case machine.CauseGraceShrunk:
		return "grace_shrunk"
	case machine.CauseOrphaned:
		return "orphaned"
	case machine.CauseStopping:
		return "stopping"
	default:
		return "deadline"
	}
}

func phaseAttribute(phase uint8) metric.MeasurementOption {
	return attributes("phase", machine.Phase(phase).String())
}

func attributes(key, value string) metric.MeasurementOption {
	return metric.WithAttributeSet(attribute.NewSet(attribute.String(key, value)))
}
