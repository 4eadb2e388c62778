package cleanup

import (
	"context"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/instrument"
	"github.com/podwright/podwright/internal/podinfo"
	"github.com/podwright/podwright/internal/rule"
	"github.com/podwright/podwright/runtime"
)

// executeFenced does steps 7 and 12 to 14. It asks every guard again, because the loop went on
// while the plan was made.
func (h *Housekeeper) executeFenced(ctx context.Context, plan Plan, in *input) {
	if !h.sourcesReady() {
		return
	}
	var due []Action
	restarts := map[types.UID]bool{}
	for _, a := range plan.Actions {
		if a.Step != StepRestart && a.Step != StepFinish && a.Step != StepKillOrphan || !a.Allowed() {
			continue
		}
		pod, desired := h.pods.Get(a.PodUID)
		closed := h.gate()
		switch {
		case desired == (a.Step == StepKillOrphan):
			h.skip(a, rule.Changed.Because("the sources have changed what they want"))
		case h.workers.Knows(a.PodUID) && !(a.Step == StepRestart && in.Workers[a.PodUID].Restart):
			h.skip(a, rule.Changed.Because("the pod has a worker by now"))
		case desired && h.workers.Knows(a.PodUID) && pod.DeletionTimestamp != nil:
			h.skip(a, rule.Changed.Because("the source has deleted the pod"))
		case a.Step == StepRestart && h.withheld(a.PodUID):
			h.skip(a, withheld())
		case a.Step == StepRestart && closed != nil:
			h.skip(a, setupHeld(closed))
		case a.Step == StepKillOrphan && !h.allows(a.PodUID):
			h.skip(a, h.guard(a.PodUID))
		case h.permits(a):
			due = append(due, a)
			restarts[a.PodUID] = restarts[a.PodUID] || a.Step == StepRestart
		}
	}
	h.dropStatuses(restarts) // those of the old lives, before the new ones begin
	for _, a := range due {
		h.carryOut(ctx, a, in)
		h.done(a, nil)
	}
}

// carryOut hands one pod to the workers.
func (h *Housekeeper) carryOut(ctx context.Context, a Action, in *input) {
	pod, _ := h.pods.Get(a.PodUID)
	switch a.Step {
	case StepRestart:
		h.workers.Restart(pod)
		in.Workers[a.PodUID] = Worker{State: WorkerSync, HasConfig: true, Static: podinfo.Static(pod)}
		h.metrics.restarts.Add(ctx, 1, instrument.Labels("static", static(podinfo.Static(pod))))
	case StepFinish:
		h.workers.Kill(pod)
	case StepKillOrphan:
		i := slices.IndexFunc(in.Running, func(p *runtime.Pod) bool { return p.UID == a.PodUID })
		h.workers.KillRuntimePod(in.Running[i])
		in.Workers[a.PodUID] = Worker{State: WorkerTerminating, Orphan: true}
		h.metrics.killed.Add(ctx, 1)
	}
}

// dropStatuses is step 7; except holds pods whose status is dropped although they are desired. A mirror pod would keep
// the status of its static pod.
func (h *Housekeeper) dropStatuses(except map[types.UID]bool) {
	if h.options.Statuses == nil {
		return
	}
	pods, mirrors := h.pods.Pods(), h.pods.Mirrors()
	keep := make(map[types.UID]struct{}, len(pods)+len(mirrors))
	dropped := map[string]bool{}
	for _, pod := range pods {
		if except[pod.UID] {
			dropped[podinfo.FullName(pod.Namespace, pod.Name)] = true
		} else {
			keep[pod.UID] = struct{}{}
		}
	}
	for _, m := range mirrors {
		if !dropped[podinfo.FullName(m.Namespace, m.Name)] {
			keep[m.UID] = struct{}{}
		}
	}
	h.options.Statuses.RemoveOrphanedStatuses(keep)
}
