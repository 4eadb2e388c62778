package tracing

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/runtime/cri"
)

// Services of the CRI: spans of calls have the names that gRPC uses.
const (
	runtimeService = "runtime.v1.RuntimeService/"
	imageService   = "runtime.v1.ImageService/"
)

// Runtime decorates a runtime: each call that belongs to a step has a span.
func (t *Traces) Runtime(inner cri.RuntimeService) cri.RuntimeService {
	if t == nil {
		return inner
	}
	return tracedRuntime{inner, t}
}

// Images decorates an image service.
func (t *Traces) Images(inner cri.ImageService) cri.ImageService {
	if t == nil {
		return inner
	}
	return tracedImages{inner, t}
}

// call makes a call in a span. A call outside of a step gets none, because it would be a trace of a single span.
func call[T any](ctx context.Context, t *Traces, name string, f func(context.Context) (T, error), attributes ...attribute.KeyValue) (T, error) {
	if !trace.SpanContextFromContext(ctx).IsValid() {
		return f(ctx)
	}
	ctx, span := t.tracer.Start(ctx, name, trace.WithSpanKind(trace.SpanKindClient), trace.WithTimestamp(t.options.Clock.Now()), trace.WithAttributes(attributes...))
	value, err := f(ctx)
	outcome(span, err)
	span.End(trace.WithTimestamp(t.options.Clock.Now()))
	return value, err
}

// act is call for calls that return no value.
func act(ctx context.Context, t *Traces, name string, f func(context.Context) error, attributes ...attribute.KeyValue) error {
	_, err := call(ctx, t, name, func(ctx context.Context) (struct{}, error) { return struct{}{}, f(ctx) }, attributes...)
	return err
}

func sandboxID(id string) attribute.KeyValue   { return attribute.String("podwright.sandbox.id", id) }
func containerID(id string) attribute.KeyValue { return attribute.String("container.id", id) }
func imageName(i *runtimeapi.ImageSpec) attribute.KeyValue {
	return attribute.String("container.image.name", i.GetImage())
}

// tracedRuntime leaves out Version and Status, which do not belong to any pod.
type tracedRuntime struct {
	cri.RuntimeService
	traces *Traces
}

func (r tracedRuntime) ListPodSandbox(ctx context.Context, filter *runtimeapi.PodSandboxFilter) ([]*runtimeapi.PodSandbox, error) {
	return call(ctx, r.traces, runtimeService+"ListPodSandbox", func(ctx context.Context) ([]*runtimeapi.PodSandbox, error) {
		return r.RuntimeService.ListPodSandbox(ctx, filter)
	})
}

func (r tracedRuntime) ListContainers(ctx context.Context, filter *runtimeapi.ContainerFilter) ([]*runtimeapi.Container, error) {
	return call(ctx, r.traces, runtimeService+"ListContainers", func(ctx context.Context) ([]*runtimeapi.Container, error) {
		return r.RuntimeService.ListContainers(ctx, filter)
	})
}

func (r tracedRuntime) PodSandboxStatus(ctx context.Context, id string, verbose bool) (*runtimeapi.PodSandboxStatusResponse, error) {
	return call(ctx, r.traces, runtimeService+"PodSandboxStatus", func(ctx context.Context) (*runtimeapi.PodSandboxStatusResponse, error) {
		return r.RuntimeService.PodSandboxStatus(ctx, id, verbose)
	}, sandboxID(id))
}

func (r tracedRuntime) ContainerStatus(ctx context.Context, id string, verbose bool) (*runtimeapi.ContainerStatusResponse, error) {
	return call(ctx, r.traces, runtimeService+"ContainerStatus", func(ctx context.Context) (*runtimeapi.ContainerStatusResponse, error) {
		return r.RuntimeService.ContainerStatus(ctx, id, verbose)
	}, containerID(id))
}

func (r tracedRuntime) RunPodSandbox(ctx context.Context, config *runtimeapi.PodSandboxConfig, handler string) (string, error) {
	return call(ctx, r.traces, runtimeService+"RunPodSandbox", func(ctx context.Context) (string, error) {
		return r.RuntimeService.RunPodSandbox(ctx, config, handler)
	})
}

func (r tracedRuntime) StopPodSandbox(ctx context.Context, id string) error {
	return act(ctx, r.traces, runtimeService+"StopPodSandbox", func(ctx context.Context) error { return r.RuntimeService.StopPodSandbox(ctx, id) }, sandboxID(id))
}

func (r tracedRuntime) RemovePodSandbox(ctx context.Context, id string) error {
	return act(ctx, r.traces, runtimeService+"RemovePodSandbox", func(ctx context.Context) error { return r.RuntimeService.RemovePodSandbox(ctx, id) }, sandboxID(id))
}

func (r tracedRuntime) CreateContainer(ctx context.Context, sandbox string, config *runtimeapi.ContainerConfig, sandboxConfig *runtimeapi.PodSandboxConfig) (string, error) {
	return call(ctx, r.traces, runtimeService+"CreateContainer", func(ctx context.Context) (string, error) {
		return r.RuntimeService.CreateContainer(ctx, sandbox, config, sandboxConfig)
	}, attribute.String("k8s.container.name", config.GetMetadata().GetName()))
}

func (r tracedRuntime) StartContainer(ctx context.Context, id string) error {
	return act(ctx, r.traces, runtimeService+"StartContainer", func(ctx context.Context) error { return r.RuntimeService.StartContainer(ctx, id) }, containerID(id))
}

func (r tracedRuntime) StopContainer(ctx context.Context, id string, timeout int64) error {
	return act(ctx, r.traces, runtimeService+"StopContainer", func(ctx context.Context) error { return r.RuntimeService.StopContainer(ctx, id, timeout) },
		containerID(id), attribute.Int64("podwright.grace_seconds", timeout))
}

func (r tracedRuntime) RemoveContainer(ctx context.Context, id string) error {
	return act(ctx, r.traces, runtimeService+"RemoveContainer", func(ctx context.Context) error { return r.RuntimeService.RemoveContainer(ctx, id) }, containerID(id))
}

// ExecSync has two results; its command may hold secrets and is not shown.
func (r tracedRuntime) ExecSync(ctx context.Context, id string, cmd []string, timeout time.Duration) (stdout, stderr []byte, err error) {
	err = act(ctx, r.traces, runtimeService+"ExecSync", func(ctx context.Context) error {
		stdout, stderr, err = r.RuntimeService.ExecSync(ctx, id, cmd, timeout)
		return err
	}, containerID(id))
	return stdout, stderr, err
}

type tracedImages struct {
	cri.ImageService
	traces *Traces
}

func (i tracedImages) ImageStatus(ctx context.Context, image *runtimeapi.ImageSpec, verbose bool) (*runtimeapi.ImageStatusResponse, error) {
	return call(ctx, i.traces, imageService+"ImageStatus", func(ctx context.Context) (*runtimeapi.ImageStatusResponse, error) {
		return i.ImageService.ImageStatus(ctx, image, verbose)
	}, imageName(image))
}

func (i tracedImages) PullImage(ctx context.Context, image *runtimeapi.ImageSpec, auth *runtimeapi.AuthConfig, sandboxConfig *runtimeapi.PodSandboxConfig) (string, error) {
	return call(ctx, i.traces, imageService+"PullImage", func(ctx context.Context) (string, error) {
		return i.ImageService.PullImage(ctx, image, auth, sandboxConfig)
	}, imageName(image))
}
