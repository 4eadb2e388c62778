package podsync

import (
	"context"
	"errors"
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/foreign"
	"github.com/podwright/podwright/internal/podinfo"
	"github.com/podwright/podwright/podworkers"
	"github.com/podwright/podwright/runtime"
	"github.com/podwright/podwright/runtime/pods"
)

// SyncTerminatingPod stops the containers and publishes how they ended.
func (s *Syncer) SyncTerminatingPod(ctx context.Context, pod *v1.Pod, view *runtime.PodStatus, gracePeriodSeconds *int64, statusFunc podworkers.PodStatusFunc) (err error) {
	defer func() { err = canceled(err) }()
	s.o.Hooks.Terminating(pod.UID)
	s.stopping.setFinal(pod.UID, false)
	s.deadlines.forget(pod.UID)
	s.held.remove(pod.UID)
	s.o.Mirrors.Forget(pod.UID)
	ctx = foreign.ForPod(ctx, pod.UID)
	pod = s.o.Allocations.Allocated(pod)
	published, _ := s.publish(pod, view, false, statusFunc)
	if !podinfo.Terminal(published.Phase) { // a pod that has finished is not shown as being stopped
		s.stopping.add(pod)
	}
	s.o.Probes.StopLivenessAndStartup(pod.UID)
	unknownOutcome := s.o.Calls.unknownOutcome(pod.UID) // before the reading
	if err := s.pods.KillPod(ctx, pod, view, gracePeriodSeconds); err != nil {
		return fmt.Errorf("stop the pod: %w", err)
	}
	// KillPod has read the pod again and updated the cache.
	fresh, err := s.reader.Get(pod.UID)
	if err != nil {
		return fmt.Errorf("read the pod after stopping it: %w", err)
	}
	seen(ctx, fresh)
	if names := running(fresh); len(names) > 0 {
		return fmt.Errorf("%w: %v", errStillRunning, names)
	}
	if err := s.o.Calls.awaitListed(pod.UID, fresh); err != nil {
		return err // the unlisted object may run
	}
	if unknownOutcome != nil {
		return unknownOutcome // what the call makes may run
	}
	s.o.Probes.RemovePod(pod.UID)
	s.o.Records.ForgetProbes(pod.UID)
	_, _ = s.publish(pod, keepIPs(fresh, view), true, statusFunc)
	return nil
}

// StopUnseen tells a pod to stop that the runtime lists but does not describe.
func (s *Syncer) StopUnseen(ctx context.Context, pod *v1.Pod, gracePeriodSeconds *int64) (err error) {
	defer func() { err = canceled(err) }()
	ctx = foreign.ForPod(ctx, pod.UID)
	s.o.Probes.StopLivenessAndStartup(pod.UID)
	if err := s.pods.KillListed(ctx, s.o.Allocations.Allocated(pod), gracePeriodSeconds); err != nil {
		return fmt.Errorf("stop what is listed of the pod: %w", err)
	}
	return nil
}

// SyncTerminatingRuntimePod stops a pod that no source wants and whose spec is unknown.
func (s *Syncer) SyncTerminatingRuntimePod(ctx context.Context, pod *runtime.Pod) (err error) {
	defer func() { err = canceled(err) }()
	if err := s.pods.KillRuntimePod(ctx, pod, nil); err != nil {
		return fmt.Errorf("stop the left-over pod: %w", err)
	}
	if err := s.release(ctx, pod.UID); err != nil {
		return err
	}
	s.o.Hooks.Released(pod.UID)
	return nil
}

// SyncTerminatedPod publishes the last status and releases the pod.
func (s *Syncer) SyncTerminatedPod(ctx context.Context, pod *v1.Pod, view *runtime.PodStatus) (err error) {
	defer func() { err = canceled(err) }()
	ctx = foreign.ForPod(ctx, pod.UID) // so that removals are reported
	if view, err = s.stopAgain(ctx, pod, view); err != nil {
		return err
	}
	seen(ctx, view)
	s.o.Hooks.Terminated(pod.UID)
	if err := s.publishFinal(ctx, pod, view); err != nil {
		return err
	}
	if s.stopping.isFinal(pod.UID) && s.o.Removable(pod.UID) {
		// Housekeeping would do this too; doing it now leaves nothing behind
		// for the seconds until its next pass.
		if err := s.removeStopped(ctx, pod, view); err != nil {
			return fmt.Errorf("remove the pod from the runtime: %w", err)
		}
	}
	if err := s.release(ctx, pod.UID); err != nil {
		return err
	}
	s.o.Content.Forget(pod.UID)
	s.o.Calls.forget(pod.UID)
	s.stopping.remove(pod.UID)
	s.o.Hooks.Released(pod.UID)
	return nil
}

// stopAgain stops containers that run although the pod was stopped before, and returns the view
// afterwards. A runtime may complete late what was requested before the stop (RT1).
func (s *Syncer) stopAgain(ctx context.Context, pod *v1.Pod, view *runtime.PodStatus) (*runtime.PodStatus, error) {
	if !view.Running() {
		return view, nil
	}
	if err := s.pods.KillPod(ctx, pod, view, nil); err != nil {
		return nil, fmt.Errorf("stop the pod again: %w", err)
	}
	fresh, err := s.reader.Get(pod.UID)
	if err != nil {
		return nil, fmt.Errorf("read the pod after stopping it again: %w", err)
	}
	if names := running(fresh); len(names) > 0 {
		return nil, fmt.Errorf("%w: %v", errStillRunning, names)
	}
	return keepIPs(fresh, view), nil
}

// removeStopped removes the pod from the runtime, based on the view if that is known to show
// everything. Containers that run after all are stopped first.
func (s *Syncer) removeStopped(ctx context.Context, pod *v1.Pod, view *runtime.PodStatus) error {
	podworkers.Seen(ctx, 0)
	if s.o.Calls.knowsAll(pod.UID) {
		if err := s.o.Content.RemoveStopped(ctx, view); err != nil {
			return err
		}
		gone, err := s.o.Calls.Read(ctx, pod.UID)
		if err == nil {
			seen(ctx, gone)
		}
		return nil // a failed reading does no harm: the next list shows the removal
	}
	err := s.o.Content.RemovePod(ctx, pod.UID)
	if !errors.Is(err, pods.ErrPodRunning) {
		return err
	}
	if view, err = s.reader.ReadNow(ctx, pod.UID); err != nil {
		return err
	}
	if _, err := s.stopAgain(ctx, pod, view); err != nil {
		return err
	}
	return s.o.Content.RemovePod(ctx, pod.UID)
}

// publishFinal publishes the last status and makes it final, once: when the step is
// repeated, the records that the status was made from may be gone. A dropped status stops
// nothing (IN5); then the runtime's records stay until housekeeping removes them.
func (s *Syncer) publishFinal(ctx context.Context, pod *v1.Pod, view *runtime.PodStatus) error {
	if s.stopping.isFinal(pod.UID) {
		return nil
	}
	pod = s.o.Allocations.Allocated(pod)
	_, unpublished := s.publish(pod, view, true, nil)
	// Memory and mounts are released as soon as nothing can use them.
	if err := s.o.Content.TearDownVolumes(ctx, pod.UID); err != nil {
		return err
	}
	if errors.Join(unpublished, s.statuses.TerminatePod(pod)) == nil {
		s.stopping.setFinal(pod.UID, true)
	}
	return nil
}

// release releases what a pod held apart from its containers.
func (s *Syncer) release(ctx context.Context, uid types.UID) error {
	if err := s.o.Content.DestroyCgroup(ctx, uid); err != nil {
		return err
	}
	return s.o.Allocations.Forget(uid)
}

// running returns the names of the containers that run.
func running(view *runtime.PodStatus) []string {
	var names []string
	for _, c := range view.Containers {
		if c.State == runtime.Running {
			names = append(names, c.Name)
		}
	}
	return names
}
