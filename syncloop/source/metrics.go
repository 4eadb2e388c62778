package source

import (
	"context"
	"sync/atomic"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"
)

// fileMetrics are the instruments of a file source.
type fileMetrics struct {
	source   attribute.KeyValue
	meter    metric.Meter
	problems metric.Int64Counter

	pods, kept, broken atomic.Int64
}

func newFileMetrics(meter metric.Meter, source string) (*fileMetrics, error) {
	if meter == nil {
		meter = noop.NewMeterProvider().Meter("")
	}
	problems, err := meter.Int64Counter("podwright_syncloop_manifest_problems_total",
		metric.WithDescription("New problems of manifests, by source and reason."))
	if err != nil {
		return nil, err
	}
	return &fileMetrics{source: attribute.String("source", source), meter: meter, problems: problems}, nil
}

// observe registers the gauges; the returned function ends that.
func (m *fileMetrics) observe() (stop func(), err error) {
	names := []struct {
		name, description string
		value             *atomic.Int64
	}{
		{"podwright_syncloop_manifest_pods", "Pods defined by manifests.", &m.pods},
		{"podwright_syncloop_manifest_kept_pods", "Pods kept although their manifest cannot be read.", &m.kept},
		{"podwright_syncloop_manifest_problems", "Manifests with a problem now.", &m.broken},
	}
	stops := []func(){}
	stop = func() {
		for _, s := range stops {
			s()
		}
	}
	for _, n := range names {
		gauge, err := m.meter.Int64ObservableGauge(n.name, metric.WithDescription(n.description))
		if err != nil {
			stop()
			return nil, err
		}
		registration, err := m.meter.RegisterCallback(func(_ context.Context, o metric.Observer) error {
			o.ObserveInt64(gauge, n.value.Load(), metric.WithAttributes(m.source))
			return nil
		}, gauge)
		if err != nil {
			stop()
			return nil, err
		}
		stops = append(stops, func() { _ = registration.Unregister() })
	}
	return stop, nil
}

func (m *fileMetrics) scanned(pods, kept, broken int) {
	m.pods.Store(int64(pods))
	m.kept.Store(int64(kept))
	m.broken.Store(int64(broken))
}

func (m *fileMetrics) problem(ctx context.Context, reason string) {
	m.problems.Add(ctx, 1, metric.WithAttributes(m.source, attribute.String("reason", reason)))
}
