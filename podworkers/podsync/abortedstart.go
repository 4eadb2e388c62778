package podsync

import (
	"slices"

	"github.com/podwright/podwright/runtime"
)

// abortedAsCreated returns a view that shows the containers whose start was aborted as
// what they are: created, and never run. So an agent that is killed while it starts a pod
// fails no pod that runs once, and no crash is held against it, nor a restart counted
// unless the runtime cannot remove the container (HI8). The view is shared, so what changes
// is copied.
func abortedAsCreated(view *runtime.PodStatus) *runtime.PodStatus {
	if view == nil || !slices.ContainsFunc(view.Containers, (*runtime.ContainerStatus).StartAborted) {
		return view
	}
	out := *view
	out.Containers = slices.Clone(view.Containers)
	for i, c := range out.Containers {
		if c.StartAborted() {
			created := *c
			created.State, created.ExitCode, created.Reason, created.Message = runtime.Created, 0, "", ""
			created.FinishedAt = created.StartedAt
			out.Containers[i] = &created
		}
	}
	return &out
}
