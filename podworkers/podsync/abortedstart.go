package podsync

import (
	"slices"

	"github.com/podwright/podwright/runtime"
)

// abortedAsCreated returns a view that shows containers whose start was aborted as what they
// are: created, but never run. So if the agent is killed while it starts a pod, a pod that runs
// once does not fail, no crash is counted, and a restart is counted only if the runtime cannot
// remove the container (HI8). The view is shared, so changed parts are copied.
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
