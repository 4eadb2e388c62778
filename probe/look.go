package probe

import (
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/internal/podinfo"
	"github.com/podwright/podwright/internal/restartpolicy"
	"github.com/podwright/podwright/probe/internal/decide"
	"github.com/podwright/podwright/runtime"
)

// look collects what a decision needs. It is called without the lock, either before the worker is
// shared or by the scheduler, which alone changes the worker's container and probe. If there is a
// container, look writes to seen.
func (m *Manager) look(w *worker, view View, known bool, now time.Time, seen *decide.Container) decide.Look {
	l := decide.Look{Kind: w.kind, Known: known, InitialDelay: w.timing.InitialDelay, Now: now}
	if !known {
		return l
	}
	l.Ended = podinfo.Terminal(view.Status.Phase)
	l.Deleting = view.Leaving || view.Pod.DeletionTimestamp != nil
	c, ok := containerOf(view, w.name)
	if !ok {
		return l
	}
	*seen = c
	l.Container = seen
	if c.Running && w.state.ID.IsZero() {
		l.Before = m.before(view.Pod, w.name, w.kind, w.probe, func() time.Duration { return w.timing.Period }, c.ID)
	}
	return l
}

// before returns what is known from before a restart about a running container: the record, or the
// API's status (8.3-8.6). Nil: nothing.
func (m *Manager) before(pod *v1.Pod, container string, k Kind, p *v1.Probe, period func() time.Duration, id runtime.ContainerID) *decide.Before {
	record := m.options.Memory.Recall(pod.UID, container, id)
	if record == nil {
		record = decide.FromStatus(&pod.Status, container, id)
	}
	if record == nil {
		return nil
	}
	before := decide.Restore(decide.Rules{
		Kind: k, Period: period(), Failure: thresholdsOf(k, p).Failure,
		MaxAge: recordMaxAge, Lost: decide.DeclaredLost(&pod.Status),
	}, record, m.options.Clock.Now())
	return &before
}

// containerOf reads a container's status, app containers first (section 3, row 3). It returns false
// if there is no container ID.
func containerOf(view View, name string) (out decide.Container, ok bool) {
	for _, list := range [...][]v1.ContainerStatus{view.Status.ContainerStatuses, view.Status.InitContainerStatuses} {
		for i := range list {
			if c := &list[i]; c.Name == name {
				return readStatus(view, c)
			}
		}
	}
	return out, false
}

func readStatus(view View, c *v1.ContainerStatus) (out decide.Container, ok bool) {
	id, err := runtime.ParseContainerID(c.ContainerID)
	if err != nil || id.IsZero() {
		return out, false
	}
	out = decide.Container{ID: id, Started: c.Started != nil && *c.Started}
	switch {
	case c.State.Running != nil:
		out.Running, out.StartedAt = true, c.State.Running.StartedAt.Time
		if exact := view.Runtime.Container(c.Name); exact != nil && exact.ID == id && !exact.StartedAt.IsZero() {
			out.StartedAt = exact.StartedAt
		}
	case c.State.Terminated != nil:
		out.Stays = stays(view, c.Name, c.State.Terminated.ExitCode)
	default:
		out.Waits = true
	}
	return out, true
}

// stays reports whether a container that ended will not run again (section 3, row 6).
func stays(view View, name string, code int32) bool {
	for i := range view.Status.Conditions {
		if c := &view.Status.Conditions[i]; c.Type == v1.AllContainersRestarting && c.Status == v1.ConditionTrue {
			return false // 7.8
		}
	}
	c := specOf(view.Pod, name)
	return c != nil && !restartpolicy.IsSidecar(c) && restartpolicy.OnExit(view.Pod, c, code) == restartpolicy.Stay
}

// specOf returns an app container or a sidecar by name, or nil.
func specOf(pod *v1.Pod, name string) *v1.Container {
	for i := range pod.Spec.Containers {
		if pod.Spec.Containers[i].Name == name {
			return &pod.Spec.Containers[i]
		}
	}
	for i := range pod.Spec.InitContainers {
		if c := &pod.Spec.InitContainers[i]; c.Name == name && restartpolicy.IsSidecar(c) {
			return c
		}
	}
	return nil
}
