package syncertest

import (
	"context"
	"reflect"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/timing"
	"github.com/podwright/podwright/podworkers"
	"github.com/podwright/podwright/runtime"
)

// retry is the pause between two attempts.
const retry = 250 * time.Millisecond

// pause waits for the next attempt.
func (e *env) pause(what string, last error) {
	e.Helper()
	if timing.Sleep(e.ctx, e.Clock, retry) != nil {
		e.Fatalf("%s: not within %v; the last error: %v", what, e.Timeout, last)
	}
}

// view returns a view that is newer than all calls so far.
func (e *env) view(ctx context.Context, uid types.UID) (*runtime.PodStatus, error) {
	if e.Views == nil {
		return nil, nil
	}
	after := e.Views.Stamp()
	e.Views.Refresh(uid)
	return e.Views.GetNewerThan(ctx, uid, after)
}

// repeated makes a call until it succeeds, as the workers do.
func (e *env) repeated(what string, pod *v1.Pod, call func(view *runtime.PodStatus) error) {
	e.Helper()
	for {
		view, err := e.view(e.ctx, pod.UID)
		if err == nil {
			err = call(view)
		}
		if err == nil {
			return
		}
		e.pause(what+" of "+pod.Name, err)
	}
}

// sync makes one SyncPod that succeeds.
func (e *env) sync(pod *v1.Pod, why podworkers.UpdateType) (result podworkers.SyncResult) {
	e.Helper()
	e.repeated("SyncPod", pod, func(view *runtime.PodStatus) (err error) {
		result, err = e.Syncer.SyncPod(e.ctx, why, pod, nil, view)
		return err
	})
	return result
}

// up syncs a pod until all its containers run.
func (e *env) up(pod *v1.Pod) {
	e.Helper()
	e.Cleanup(func() { e.cleanUp(pod) })
	for why := podworkers.Create; ; why = podworkers.Sync {
		if e.sync(pod, why).Terminal {
			e.Fatalf("SyncPod says that pod %s has ended, which runs until it is stopped", pod.Name)
		}
		running := e.Running(pod.UID)
		if running == len(pod.Spec.Containers) {
			return
		}
		if running > len(pod.Spec.Containers) {
			e.Fatalf("%d containers of pod %s run, its spec has %d", running, pod.Name, len(pod.Spec.Containers))
		}
		e.pause("pod "+pod.Name+" up", nil)
	}
}

// cleanUp stops what a case leaves, as well as it can.
func (e *env) cleanUp(pod *v1.Pod) {
	if e.Running(pod.UID) == 0 {
		return
	}
	ctx, cancel := timing.WithTimeout(context.WithoutCancel(e.ctx), e.Clock, e.Timeout/2)
	defer cancel()
	view, err := e.view(ctx, pod.UID)
	if err == nil {
		err = e.Syncer.SyncTerminatingPod(ctx, pod, view, nil, nil)
	}
	if err != nil {
		e.Logf("clean up: %v", err)
	}
}

// stop makes SyncTerminatingPod succeed.
func (e *env) stop(pod *v1.Pod, grace *int64, edit podworkers.PodStatusFunc) {
	e.Helper()
	e.repeated("SyncTerminatingPod", pod, func(view *runtime.PodStatus) error {
		return e.Syncer.SyncTerminatingPod(e.ctx, pod, view, grace, edit)
	})
	if n := e.Running(pod.UID); n > 0 {
		e.Errorf("SyncTerminatingPod returned nil while %d containers of pod %s run", n, pod.Name)
	}
}

// release makes SyncTerminatedPod succeed.
func (e *env) release(pod *v1.Pod) {
	e.Helper()
	e.repeated("SyncTerminatedPod", pod, func(view *runtime.PodStatus) error {
		return e.Syncer.SyncTerminatedPod(e.ctx, pod, view)
	})
}

// unchanged checks that a pod is as it was.
func (e *env) unchanged(when string, before, after *v1.Pod) {
	e.Helper()
	if !reflect.DeepEqual(before, after) {
		e.Errorf("%s changed the pod it was given", when)
	}
}
