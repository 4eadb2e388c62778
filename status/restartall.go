package status

import (
	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/internal/restartpolicy"
	"github.com/podwright/podwright/runtime"
)

// reasonRestartAllStarted is the reason of AllContainersRestarting being True.
const reasonRestartAllStarted = "RestartAllContainersStarted"

// restartAll says how far the restart of a whole pod, requested by an exit rule, has got
// (spec/status.md 3.8, 5.9).
type restartAll struct {
	// possible: a rule of the spec has that action; otherwise nothing here ever happens.
	possible bool
	// begun: the last status already showed the restart, so containers may be missing or new
	// because of it.
	begun bool
	// going: some old runs have not been removed yet.
	going bool
}

// restartAllOf looks at the spec, the last status and the records.
//
// A restart is over when no record of the runs that it began with is left. The last status knows
// their IDs, so the end is recognized even if nothing was read between the removal of the last old
// record and the first new start.
func (g *generator) restartAllOf() restartAll {
	r := restartAll{possible: restartpolicy.RestartsAll(&g.pod.Spec)}
	if !r.possible || g.pod.DeletionTimestamp != nil {
		return r
	}
	c := conditionOf(g.old.Conditions, v1.AllContainersRestarting)
	r.begun = c != nil && c.Status == v1.ConditionTrue
	for _, list := range [...]struct {
		spec []v1.Container
		old  []v1.ContainerStatus
	}{{g.pod.Spec.InitContainers, g.old.InitContainerStatuses}, {g.pod.Spec.Containers, g.old.ContainerStatuses}} {
		for i := range list.spec {
			record, _ := g.records(list.spec[i].Name)
			if record == nil {
				continue
			}
			old := statusOf(list.old, i, list.spec[i].Name)
			if r.begun && old != nil && isID(old.ContainerID, record.ID) {
				r.going = true
			}
			if record.State == runtime.Exited && !g.in.Asked.Has(record.ID) && restartpolicy.OnExit(g.pod, &list.spec[i], record.ExitCode) == restartpolicy.RestartAll {
				r.going = true
			}
		}
	}
	return r
}

// container adjusts the status of one init or app container whose old run was ended by the restart
// (3.8).
func (r *restartAll) container(old *v1.ContainerStatus, record *runtime.ContainerStatus, out *v1.ContainerStatus) {
	if !r.begun || old == nil || old.ContainerID == "" {
		return
	}
	switch {
	case record == nil:
		if old.State.Waiting != nil {
			return
		}
		out.State = v1.ContainerState{Waiting: waitingState(old, reasonRestartAll, "")}
		out.LastTerminationState = endedByRestartAll(old)
		out.RestartCount = old.RestartCount + 1
	case isID(old.ContainerID, record.ID):
		if record.State == runtime.Unknown && out.State.Terminated != nil && out.State.Terminated.Reason == reasonUnknown {
			out.State = endedByRestartAll(old)
		}
	case record.State == runtime.Running && old.State.Waiting == nil:
		// The state was not read between the two runs.
		out.RestartCount = max(out.RestartCount, old.RestartCount+1)
		if old.State.Running != nil && out.LastTerminationState.Terminated == old.LastTerminationState.Terminated {
			out.LastTerminationState = endedByRestartAll(old)
		}
	}
}

// endedByRestartAll returns the end of a run that was cut short. The reason makes the container
// count as restartable whatever its policy (2.1).
func endedByRestartAll(old *v1.ContainerStatus) v1.ContainerState {
	return v1.ContainerState{Terminated: &v1.ContainerStateTerminated{
		ExitCode:    exitUnknown,
		Reason:      reasonRestartAll,
		Message:     "The container was removed to restart all containers of the pod",
		ContainerID: old.ContainerID,
	}}
}

// condition returns the condition AllContainersRestarting (5.9).
func (r *restartAll) condition(phase v1.PodPhase) v1.PodCondition {
	c := v1.PodCondition{Type: v1.AllContainersRestarting, Status: v1.ConditionFalse}
	switch {
	case phase == v1.PodSucceeded:
		c.Reason = reasonPodCompleted
	case phase == v1.PodFailed:
		c.Reason = reasonPodFailed
	case r.going:
		c.Status, c.Reason = v1.ConditionTrue, reasonRestartAllStarted
	}
	return c
}
