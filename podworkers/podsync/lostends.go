package podsync

import (
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/internal/restartpolicy"
	"github.com/podwright/podwright/runtime"
)

// withLostEnds adds to the view of a pod the containers that have ended for good and whose
// records are gone, because they were removed or the runtime lost them: otherwise these
// containers would run again (spec/cleanup.md CK3, HI8). It takes them from the pod's status.
// The view is shared, so changed parts are copied.
func withLostEnds(pod *v1.Pod, view *runtime.PodStatus, shown *v1.PodStatus) *runtime.PodStatus {
	if restartpolicy.RestartsAll(&pod.Spec) {
		return view // the reset may have removed the records
	}
	var lost []*runtime.ContainerStatus
	find := func(name string, statuses []v1.ContainerStatus, again func(code int32) bool) {
		if view.Container(name) != nil {
			return
		}
		for i := range statuses {
			if end := statuses[i].State.Terminated; statuses[i].Name == name && end != nil && !again(end.ExitCode) {
				lost = append(lost, recordOf(&statuses[i], end))
			}
		}
	}
	list := func(containers []v1.Container, statuses []v1.ContainerStatus) {
		for i := range containers {
			c := &containers[i]
			find(c.Name, statuses, func(code int32) bool { return restartpolicy.OnExit(pod, c, code) != restartpolicy.Stay })
		}
	}
	if inFirstSandbox(view) {
		list(pod.Spec.InitContainers, shown.InitContainerStatuses)
	}
	list(pod.Spec.Containers, shown.ContainerStatuses)
	for i := range pod.Spec.EphemeralContainers {
		find(pod.Spec.EphemeralContainers[i].Name, shown.EphemeralContainerStatuses, func(int32) bool { return false })
	}
	if len(lost) == 0 {
		return view
	}
	out := runtime.PodStatus{UID: pod.UID, Name: pod.Name, Namespace: pod.Namespace}
	if view != nil {
		out = *view
	}
	out.Containers = append(slices.Clone(out.Containers), lost...)
	return &out
}

// inFirstSandbox reports whether the pod has never lost a sandbox, as far as the runtime
// shows: in a newer sandbox its init containers run again, and their records have been
// removed for that (spec/runtime.md 6.2).
func inFirstSandbox(view *runtime.PodStatus) bool {
	return view == nil || len(view.Sandboxes) == 0 || view.Sandboxes[0].Attempt == 0 && view.Sandboxes[0].State == runtime.Running
}

// recordOf returns the record that a runtime would have of an end.
func recordOf(status *v1.ContainerStatus, end *v1.ContainerStateTerminated) *runtime.ContainerStatus {
	id, err := runtime.ParseContainerID(end.ContainerID)
	if err != nil {
		id = runtime.ContainerID{} // it will not be found, because it no longer exists
	}
	return &runtime.ContainerStatus{
		ID: id, Name: status.Name, State: runtime.Exited, RestartCount: int(status.RestartCount),
		CreatedAt: end.StartedAt.Time, StartedAt: end.StartedAt.Time, FinishedAt: end.FinishedAt.Time,
		ExitCode: end.ExitCode, Reason: end.Reason, Message: end.Message,
	}
}
