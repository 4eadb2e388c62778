package probe

import (
	"go.opentelemetry.io/otel/metric"

	"github.com/podwright/podwright/internal/instrument"
	"github.com/podwright/podwright/probe/internal/decide"
)

// metrics are the instruments of section 10. The counter is read from the workers when the meter
// asks, so its series vanish with them. Without observable histograms in the API, durations cannot
// do that, so they are recorded only by type.
type metrics struct {
	set            *instrument.Set
	duration, late metric.Float64Histogram
	kinds          [decide.Kinds][]metric.RecordOption

	total, queued, running, workers, panics metric.Int64Observable
	lateness                                metric.Float64Observable
}

func newMetrics(meter metric.Meter) (*metrics, error) {
	set := instrument.New(meter)
	x := &metrics{
		set: set,
		duration: set.Durations("prober_probe_duration_seconds", "Time a probe took that did not fail.",
			instrument.By("probe_type", "Liveness", "Readiness", "Startup")),
		late: set.Durations("podwright_probe_lateness_seconds", "Time from the moment a probe was due to the moment it began."),
		total: set.ReadCounter("prober_probe_total", "Executed probes, by result.",
			instrument.By("probe_type", "Liveness", "Readiness", "Startup"), instrument.By("result", "unknown", "successful", "failed"),
			instrument.By("container"), instrument.By("pod"), instrument.By("namespace"), instrument.By("pod_uid")),
		panics:  set.ReadCounter("podwright_probe_panics_total", "Panics of probe handlers."),
		queued:  set.ReadGauge("podwright_probe_queue_length", "Probes that are due and wait for a slot."),
		running: set.ReadGauge("podwright_probe_running", "Probes that run."),
		workers: set.ReadGauge("podwright_probe_workers", "Probes there are."),
		lateness: set.ReadSeconds("podwright_probe_max_lateness_seconds",
			"The longest time from when a probe was due to when it began, since this was last read."),
	}
	for k := range x.kinds {
		x.kinds[k] = []metric.RecordOption{instrument.Labels("probe_type", Kind(k).String())} //nolint:gosec // three kinds
	}
	return x, set.Err()
}

// export registers the metrics that are read on demand, until withdraw is called.
func (x *metrics) export(m *Manager) (withdraw func(), err error) {
	return x.set.Export(func(o metric.Observer) {
		f := m.figures()
		o.ObserveInt64(x.queued, f.queued)
		o.ObserveInt64(x.running, f.running)
		o.ObserveInt64(x.workers, f.workers)
		o.ObserveInt64(x.panics, f.panics)
		o.ObserveFloat64(x.lateness, f.lateness)
		for _, s := range f.series {
			for result, n := range s.counts {
				if n > 0 {
					o.ObserveInt64(x.total, int64(n), s.labels(Result(result))) //nolint:gosec // three results
				}
			}
		}
	})
}

// figures is one snapshot for the meter.
type figures struct {
	queued, running, workers, panics int64
	lateness                         float64
	series                           []series
}

// series is what was counted for one worker.
type series struct {
	kind                Kind
	container           string
	pod, namespace, uid string
	counts              [3]uint32
}

func (s *series) labels(r Result) metric.MeasurementOption {
	names := [...]string{Unknown: "unknown", Success: "successful", Failure: "failed"}
	return instrument.Labels("probe_type", s.kind.String(), "result", names[r],
		"container", s.container, "pod", s.pod, "namespace", s.namespace, "pod_uid", s.uid)
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
