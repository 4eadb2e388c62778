package probe

import (
	"context"
	"errors"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/podwright/podwright/internal/buckets"
	"github.com/podwright/podwright/probe/internal/decide"
)

// metrics are the instruments of section 10. The counter is read from the workers
// when the meter asks, so its series vanish with them. An API without observable
// histograms cannot do that for durations: those are by type only.
type metrics struct {
	meter          metric.Meter
	duration, late metric.Float64Histogram
	kinds          [decide.Kinds][]metric.RecordOption
}

func newMetrics(m *Manager) (*metrics, error) {
	out := &metrics{meter: m.options.Meter}
	for k := range out.kinds {
		out.kinds[k] = []metric.RecordOption{metric.WithAttributes(attribute.String("probe_type", Kind(k).String()))} //nolint:gosec // three kinds
	}
	var errs [2]error
	seconds, bounds := metric.WithUnit("s"), metric.WithExplicitBucketBoundaries(buckets.Seconds()...)
	out.duration, errs[0] = out.meter.Float64Histogram("prober_probe_duration_seconds", seconds, bounds,
		metric.WithDescription("Time a probe took that did not fail."))
	out.late, errs[1] = out.meter.Float64Histogram("podwright_probe_lateness_seconds", seconds, bounds,
		metric.WithDescription("Time from the moment a probe was due to the moment it began."))
	return out, errors.Join(errs[:]...)
}

// export registers what is read on demand, until withdraw is called.
func (x *metrics) export(m *Manager) (withdraw func(), err error) {
	var problems []error
	gauge := func(name, description string) metric.Int64ObservableGauge {
		i, err := x.meter.Int64ObservableGauge(name, metric.WithDescription(description))
		problems = append(problems, err)
		return i
	}
	counter := func(name, description string) metric.Int64ObservableCounter {
		i, err := x.meter.Int64ObservableCounter(name, metric.WithDescription(description))
		problems = append(problems, err)
		return i
	}
	total := counter("prober_probe_total", "Executed probes, by result.")
	panics := counter("podwright_probe_panics_total", "Panics of probe handlers.")
	queued := gauge("podwright_probe_queue_length", "Probes that are due and wait for a slot.")
	running := gauge("podwright_probe_running", "Probes that run.")
	workers := gauge("podwright_probe_workers", "Probes there are.")
	lateness, err := x.meter.Float64ObservableGauge("podwright_probe_max_lateness_seconds", metric.WithUnit("s"),
		metric.WithDescription("The longest time from when a probe was due to when it began, since this was last read."))
	if err := errors.Join(append(problems, err)...); err != nil {
		return nil, err
	}
	registration, err := x.meter.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		f := m.figures()
		o.ObserveInt64(queued, f.queued)
		o.ObserveInt64(running, f.running)
		o.ObserveInt64(workers, f.workers)
		o.ObserveInt64(panics, f.panics)
		o.ObserveFloat64(lateness, f.lateness)
		for _, s := range f.series {
			for result, n := range s.counts {
				if n > 0 {
					o.ObserveInt64(total, int64(n), s.attributes(Result(result))) //nolint:gosec // three results
				}
			}
		}
		return nil
	}, total, queued, running, workers, panics, lateness)
	if err != nil {
		return nil, err
	}
	return func() { _ = registration.Unregister() }, nil
}

// figures is one snapshot for the meter.
type figures struct {
	queued, running, workers, panics int64
	lateness                         float64
	series                           []series
}

// series is what was counted of one worker.
type series struct {
	kind                Kind
	container           string
	pod, namespace, uid string
	counts              [3]uint32
}

func (s *series) attributes(r Result) metric.MeasurementOption {
	names := [...]string{Unknown: "unknown", Success: "successful", Failure: "failed"}
	return metric.WithAttributes(
		attribute.String("probe_type", s.kind.String()), attribute.String("result", names[r]),
		attribute.String("container", s.container), attribute.String("pod", s.pod),
		attribute.String("namespace", s.namespace), attribute.String("pod_uid", s.uid))
}

func (m *Manager) figures() figures {
	m.mu.Lock()
	defer m.mu.Unlock()
	f := figures{running: int64(m.inFlight), panics: m.panics, lateness: m.lateness.Seconds()}
	m.lateness = 0
	for i := range m.lanes {
		f.queued += int64(len(m.lanes[i].queue))
	}
	for _, p := range m.pods {
		f.queued += int64(len(p.parked))
		f.workers += int64(len(p.workers))
		for _, w := range p.workers {
			if w.counts != [3]uint32{} {
				f.series = append(f.series, series{
					kind: w.kind, container: w.name, pod: p.name, namespace: p.namespace,
					uid: string(p.uid), counts: w.counts,
				})
			}
		}
	}
	return f
}
