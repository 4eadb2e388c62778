package cri

import (
	"context"
	"strings"
	"sync"

	"go.opentelemetry.io/otel/metric"
	"k8s.io/utils/clock"

	"github.com/podwright/podwright/internal/instrument"
)

// operations measures calls, under the kubelet's names. A nil one measures nothing.
type operations struct {
	clock           clock.PassiveClock
	total, failures metric.Int64Counter
	duration        metric.Float64Histogram
	labels          sync.Map // of operations, by method
}

func newOperations(meter metric.Meter, c clock.PassiveClock) (*operations, error) {
	if meter == nil {
		return nil, nil
	}
	set, byOperation := instrument.New(meter), instrument.By("operation_type", "version", "status", "run_podsandbox", "stop_podsandbox", "remove_podsandbox",
		"podsandbox_status", "list_podsandbox", "create_container", "start_container", "stop_container", "remove_container",
		"container_status", "list_containers", "update_container", "update_podsandbox_resources", "exec_sync", "reopen_container_log",
		"exec", "attach", "port_forward", "container_stats", "list_container_stats", "list_podsandbox_stats", "checkpoint_container",
		"get_container_events", "image_status", "list_images", "pull_image", "remove_image", "image_fs_info")
	return &operations{
		clock:    c,
		total:    set.Counter("kubelet_runtime_operations_total", "Calls of the container runtime, by operation.", byOperation),
		failures: set.Counter("kubelet_runtime_operations_errors_total", "Calls of the container runtime that failed, by operation.", byOperation),
		duration: set.Durations("kubelet_runtime_operations_duration_seconds", "Time of calls of the container runtime, by operation.", byOperation),
	}, set.Err()
}

// begin starts timing a call of a method; the function it returns counts the call when it ends.
func (o *operations) begin(ctx context.Context, method string) (end func(err error)) {
	if o == nil {
		return func(error) {}
	}
	began, ctx := o.clock.Now(), context.WithoutCancel(ctx)
	return func(err error) {
		label := o.label(method)
		o.total.Add(ctx, 1, label)
		o.duration.Record(ctx, o.clock.Since(began).Seconds(), label)
		if err != nil {
			o.failures.Add(ctx, 1, label)
		}
	}
}

func (o *operations) label(method string) metric.MeasurementOption {
	if known, ok := o.labels.Load(method); ok {
		return known.(metric.MeasurementOption)
	}
	label := instrument.Labels("operation_type", operationType(method))
	o.labels.Store(method, label)
	return label
}

// operationType is the kubelet's name of a call: RunPodSandbox is run_podsandbox.
func operationType(method string) string {
	switch method {
	case "UpdateContainerResources":
		return "update_container"
	case "StreamPodSandboxes":
		return "list_podsandbox"
	case "StreamContainers":
		return "list_containers"
	case "StreamImages":
		return "list_images"
	}
	var b strings.Builder
	for i, r := range strings.ReplaceAll(method, "PodSandbox", "Podsandbox") {
		if r >= 'A' && r <= 'Z' {
			if i > 0 {
				b.WriteByte('_')
			}
			r += 'a' - 'A'
		}
		b.WriteRune(r)
	}
	return b.String()
}
