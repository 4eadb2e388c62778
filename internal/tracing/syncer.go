package tracing

import (
	"context"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/podworkers"
	"github.com/podwright/podwright/runtime"
)

// Syncer is a syncer with all abilities.
type Syncer interface {
	podworkers.PodSyncer
	podworkers.UnseenStopper
}

// Syncer decorates a syncer.
func (t *Traces) Syncer(inner Syncer) Syncer {
	if t == nil {
		return inner
	}
	return tracedSyncer{inner, t}
}

type tracedSyncer struct {
	inner  Syncer
	traces *Traces
}

func nameOf(pod *v1.Pod) named { return named{pod.UID, pod.Namespace, pod.Name} }

func (s tracedSyncer) SyncPod(ctx context.Context, kind podworkers.UpdateType, pod, mirror *v1.Pod, view *runtime.PodStatus) (podworkers.SyncResult, error) {
	ctx, step := s.traces.begin(ctx, "syncPod", nameOf(pod), false, updateType(kind))
	result, err := s.inner.SyncPod(ctx, kind, pod, mirror, view)
	step.end(err)
	step.started()
	return result, err
}

func (s tracedSyncer) SyncTerminatingPod(ctx context.Context, pod *v1.Pod, view *runtime.PodStatus, grace *int64, edit podworkers.PodStatusFunc) error {
	ctx, step := s.traces.begin(ctx, "syncTerminatingPod", nameOf(pod), true)
	err := s.inner.SyncTerminatingPod(ctx, pod, view, grace, edit)
	step.end(err)
	return err
}

func (s tracedSyncer) StopUnseen(ctx context.Context, pod *v1.Pod, grace *int64) error {
	ctx, step := s.traces.begin(ctx, "stopUnseenPod", nameOf(pod), true)
	err := s.inner.StopUnseen(ctx, pod, grace)
	step.end(err)
	return err
}

func (s tracedSyncer) SyncTerminatingRuntimePod(ctx context.Context, pod *runtime.Pod) error {
	ctx, step := s.traces.begin(ctx, "syncTerminatingRuntimePod", named{pod.UID, pod.Namespace, pod.Name}, true)
	err := s.inner.SyncTerminatingRuntimePod(ctx, pod)
	step.end(err)
	if err == nil {
		step.over()
	}
	return err
}

func (s tracedSyncer) SyncTerminatedPod(ctx context.Context, pod *v1.Pod, view *runtime.PodStatus) error {
	ctx, step := s.traces.begin(ctx, "syncTerminatedPod", nameOf(pod), true)
	err := s.inner.SyncTerminatedPod(ctx, pod, view)
	step.end(err)
	if err == nil {
		step.over()
	}
	return err
}
