package pods

import (
	"context"

	"go.opentelemetry.io/otel/metric"

	"github.com/podwright/podwright/internal/instrument"
	"github.com/podwright/podwright/runtime/pods/internal/meta"
)

// metrics are counters with the kubelet's names.
type metrics struct {
	pods, podErrors             metric.Int64Counter
	containers, containerErrors metric.Int64Counter
}

func newMetrics(meter metric.Meter) (metrics, error) {
	set := instrument.New(meter)
	m := metrics{
		pods:            set.Counter("kubelet_started_pods_total", "Sandboxes the engine tried to start."),
		podErrors:       set.Counter("kubelet_started_pods_errors_total", "Sandboxes that failed to start."),
		containers:      set.Counter("kubelet_started_containers_total", "Containers the engine tried to start."),
		containerErrors: set.Counter("kubelet_started_containers_errors_total", "Containers that failed to start."),
	}
	return m, set.Err()
}

func (m *metrics) sandbox(ctx context.Context, err error) {
	m.pods.Add(ctx, 1)
	if err != nil {
		m.podErrors.Add(ctx, 1)
	}
}

func (m *metrics) container(ctx context.Context, kind meta.Kind, start Action) {
	labels := instrument.Labels("container_type", string(kind))
	m.containers.Add(ctx, 1, labels)
	if start.Err != nil {
		m.containerErrors.Add(ctx, 1, labels, instrument.Labels("code", start.Reason))
	}
}
