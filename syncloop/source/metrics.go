package source

import (
	"context"
	"sync/atomic"

	"go.opentelemetry.io/otel/metric"

	"github.com/podwright/podwright/internal/instrument"
)

// fileMetrics are the instruments of a file source.
type fileMetrics struct {
	source   string
	set      *instrument.Set
	problems metric.Int64Counter

	pods, kept, broken figure
}

// figure is a number and the gauge that shows it.
type figure struct {
	atomic.Int64
	gauge metric.Int64Observable
}

func newFileMetrics(meter metric.Meter, source string) (*fileMetrics, error) {
	set, bySource := instrument.New(meter), instrument.By("source")
	m := &fileMetrics{
		source: source, set: set,
		problems: set.Counter("podwright_syncloop_manifest_problems_total", "New problems of manifests, by source and reason.",
			bySource, instrument.By("reason", "UnknownField", "FailedValidation", "ManifestSkipped", "ManifestUnreadable")),
	}
	m.pods.gauge = set.ReadGauge("podwright_syncloop_manifest_pods", "Pods defined by manifests, by source.", bySource)
	m.kept.gauge = set.ReadGauge("podwright_syncloop_manifest_kept_pods", "Pods kept although their manifest cannot be read, by source.", bySource)
	m.broken.gauge = set.ReadGauge("podwright_syncloop_manifest_problems", "Manifests with a problem now, by source.", bySource)
	return m, set.Err()
}

// observe registers the gauges; stop unregisters them.
func (m *fileMetrics) observe() (stop func(), err error) {
	label := instrument.Labels("source", m.source)
	return m.set.Export(func(o metric.Observer) {
		for _, f := range []*figure{&m.pods, &m.kept, &m.broken} {
			o.ObserveInt64(f.gauge, f.Load(), label)
		}
	})
}

func (m *fileMetrics) scanned(pods, kept, broken int) {
	m.pods.Store(int64(pods))
	m.kept.Store(int64(kept))
	m.broken.Store(int64(broken))
}

func (m *fileMetrics) problem(ctx context.Context, reason string) {
	m.problems.Add(ctx, 1, instrument.Labels("source", m.source, "reason", reason))
}
