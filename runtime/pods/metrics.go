package pods

import (
	"context"

	"go.opentelemetry.io/otel/metric"

	"github.com/podwright/podwright/internal/instrument"
	"github.com/podwright/podwright/runtime/pods/internal/meta"
	"github.com/podwright/podwright/runtime/pods/internal/worklimit"
)

// metrics are the counters, with the kubelet's names where it has them.
type metrics struct {
	pods, podErrors             metric.Int64Counter
	containers, containerErrors metric.Int64Counter
	work, pulls                 worklimit.Metrics
}

func newMetrics(meter metric.Meter) (metrics, error) {
	set, byKind := instrument.New(meter), instrument.By("container_type", "app", "init", "sidecar", "ephemeral")
	m := metrics{
		pods:            set.Counter("kubelet_started_pods_total", "Sandboxes the engine tried to start."),
		podErrors:       set.Counter("kubelet_started_pods_errors_total", "Sandboxes that failed to start."),
		containers:      set.Counter("kubelet_started_containers_total", "Containers the engine tried to start, by kind.", byKind),
		containerErrors: set.Counter("kubelet_started_containers_errors_total", "Containers that failed to start, by kind and the reason in the status.", byKind, instrument.By("code")),
		work: worklimit.Metrics{
			InFlight: set.UpDown("podwright_runtime_work_in_flight", "Calls that make or start sandboxes and containers, under way."),
			Waiting:  set.UpDown("podwright_runtime_work_waiting", "Calls that wait for their turn to make or start a sandbox or container."),
			Taken:    set.Counter("podwright_runtime_work_slots_taken_total", "Slots taken from calls that the runtime did not answer in time."),
		},
		pulls: worklimit.Metrics{
			InFlight: set.UpDown("podwright_image_pulls_in_flight", "Image pulls under way."),
			Waiting:  set.UpDown("podwright_image_pulls_waiting", "Image pulls that wait for their turn."),
			Taken:    set.Counter("podwright_image_pulls_slots_taken_total", "Slots taken from image pulls that took long while others waited."),
		},
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
		m.containerErrors.Add(ctx, 1, instrument.Labels("container_type", string(kind), "code", start.Reason))
	}
}
