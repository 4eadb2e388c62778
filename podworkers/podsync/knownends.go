package podsync

import (
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/internal/restartpolicy"
	"github.com/podwright/podwright/runtime"
)

// How containerd and runtime/process show a run of which they only know that it is over, for example because the record
// of its end was lost with the power. No other end has both.
const (
	unseenCode   = 255
	unseenReason = "Unknown"
)

// unseen reports whether the runtime only knows that a run is over.
func unseen(c *runtime.ContainerStatus) bool {
	return c.State == runtime.Exited && c.ExitCode == unseenCode && c.Reason == unseenReason
}

// withKnownEnds returns a view that shows the ends of such runs as they are known (spec/status.md 9.4): otherwise a
// container that had done its work would run again. It takes them from the pod's status, or from its record.
func (s *Syncer) withKnownEnds(pod *v1.Pod, view *runtime.PodStatus) *runtime.PodStatus {
	if view == nil || !slices.ContainsFunc(view.Containers, unseen) {
		return view
	}
	old, ok := s.statuses.Get(pod.UID)
	if !ok { // its record is lost, but its API may know
		old = pod.Status
	}
	return showKnownEnds(pod, view, s.o.Records.Previous(pod, view, &old))
}

// showKnownEnds puts the ends in a status in the place of those that the runtime has not seen. The view is shared, so
// changed parts are copied.
func showKnownEnds(pod *v1.Pod, view *runtime.PodStatus, shown *v1.PodStatus) *runtime.PodStatus {
	if shown == nil || restartpolicy.RestartsAll(&pod.Spec) { // ends of the pod's reset are no ends of the run
		return view
	}
	out := view
	for i, c := range view.Containers {
		if !unseen(c) {
			continue
		}
		end := knownEnd(shown, c.ID.String())
		if end == nil {
			continue
		}
		if out == view {
			shallow := *view
			shallow.Containers = slices.Clone(view.Containers)
			out = &shallow
		}
		known := *c
		known.ExitCode, known.Reason, known.Message = end.ExitCode, end.Reason, end.Message
		known.StartedAt, known.FinishedAt = end.StartedAt.Time, end.FinishedAt.Time
		out.Containers[i] = &known
	}
	return out
}

// knownEnd returns the end of a run in a status, nil if there is none or it is a guess.
func knownEnd(shown *v1.PodStatus, id string) *v1.ContainerStateTerminated {
	for _, list := range [...][]v1.ContainerStatus{shown.InitContainerStatuses, shown.ContainerStatuses, shown.EphemeralContainerStatuses} {
		for i := range list {
			for _, end := range [...]*v1.ContainerStateTerminated{list[i].State.Terminated, list[i].LastTerminationState.Terminated} {
				if end == nil || end.ContainerID != id || end.Reason == "ContainerStatusUnknown" || end.Reason == unseenReason && end.ExitCode == unseenCode {
					continue
				}
				return end
			}
		}
	}
	return nil
}
