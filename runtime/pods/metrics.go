package pods

import (
	"context"
	"errors"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/podwright/podwright/runtime/pods/internal/meta"
)

// metrics are counters with the kubelet's names.
type metrics struct {
	pods, podErrors             metric.Int64Counter
	containers, containerErrors metric.Int64Counter
}

func newMetrics(meter metric.Meter) (metrics, error) {
	var problems []error
	counter := func(name, description string) metric.Int64Counter {
		c, err := meter.Int64Counter(name, metric.WithDescription(description))
		problems = append(problems, err)
		return c
	}
	m := metrics{
		pods:            counter("kubelet_started_pods_total", "Sandboxes the engine tried to start."),
		podErrors:       counter("kubelet_started_pods_errors_total", "Sandboxes that failed to start."),
		containers:      counter("kubelet_started_containers_total", "Containers the engine tried to start."),
		containerErrors: counter("kubelet_started_containers_errors_total", "Containers that failed to start."),
	}
	return m, errors.Join(problems...)
}

func (m *metrics) sandbox(ctx context.Context, err error) {
	m.pods.Add(ctx, 1)
	if err != nil {
		m.podErrors.Add(ctx, 1)
	}
}

func (m *metrics) container(ctx context.Context, kind meta.Kind, r StartResult) {
	labels := metric.WithAttributes(attribute.String("container_type", string(kind)))
	m.containers.Add(ctx, 1, labels)
	if r.Err != nil {
		m.containerErrors.Add(ctx, 1, labels, metric.WithAttributes(attribute.String("code", r.Reason)))
	}
}
