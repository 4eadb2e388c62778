package status

import (
	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/internal/proberesult"
	"github.com/podwright/podwright/internal/restartpolicy"
	"github.com/podwright/podwright/runtime"
)

// probes sets started and ready of all containers.
func (g *generator) probes(s *v1.PodStatus) {
	for i := range s.InitContainerStatuses {
		cs := &s.InitContainerStatuses[i]
		g.probed(initial, &g.pod.Spec.InitContainers[i], statusOf(g.old.InitContainerStatuses, i, cs.Name), cs)
	}
	for i := range s.ContainerStatuses {
		cs := &s.ContainerStatuses[i]
		g.probed(app, &g.pod.Spec.Containers[i], statusOf(g.old.ContainerStatuses, i, cs.Name), cs)
	}
	for i := range s.EphemeralContainerStatuses {
		g.probed(ephemeral, nil, nil, &s.EphemeralContainerStatuses[i])
	}
}

// probed sets started and ready of one status (spec/status.md 4). c is nil for an
// ephemeral container.
func (g *generator) probed(k kind, c *v1.Container, old, cs *v1.ContainerStatus) {
	if k == ephemeral {
		cs.Started, cs.Ready = nil, false // 4.3
		return
	}
	facts := ProbeFacts{Startup: proberesult.None, Readiness: proberesult.None}
	running := cs.State.Running != nil
	if running && g.in.Probes != nil {
		if id, err := runtime.ParseContainerID(cs.ContainerID); err == nil {
			facts = g.in.Probes(cs.Name, id)
		}
	}
	started := running && g.started(facts.Startup, old, cs)
	cs.Started = boolPointer(old, started)
	if k == initial && !restartpolicy.IsSidecar(c) {
		cs.Ready = restartpolicy.InitDone(&cs.State) // 4.3
		return
	}
	cs.Ready = started && (facts.Readiness == proberesult.Success || facts.Readiness == proberesult.None) // 4.2
}

// started decides for a running container (4.1).
func (g *generator) started(probe proberesult.Result, old, cs *v1.ContainerStatus) bool {
	switch probe {
	case proberesult.Success:
		return true
	case proberesult.Failure:
		return false
	}
	if old != nil && old.Started != nil && *old.Started && old.ContainerID == cs.ContainerID && old.State.Running != nil {
		return true
	}
	return probe == proberesult.None
}

// boolPointer returns a pointer to value, reusing the old pointer if possible.
func boolPointer(old *v1.ContainerStatus, value bool) *bool {
	if old != nil && old.Started != nil && *old.Started == value {
		return old.Started
	}
	fresh := value
	return &fresh
}
