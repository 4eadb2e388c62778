package pods

import (
	"context"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/restartpolicy"
	"github.com/podwright/podwright/internal/restarts"
	"github.com/podwright/podwright/runtime"
	"github.com/podwright/podwright/runtime/pods/internal/actions"
	"github.com/podwright/podwright/runtime/pods/internal/meta"
)

// asked returns the restarts that were asked for in a pod.
func (m *Manager) asked(uid types.UID) *restarts.Asked { return m.options.Restarts(uid) }

// rememberOwn has the host remember which runs this sync stops in order to start their containers
// again, before anything stops (spec/runtime.md 6.12).
func (m *Manager) rememberOwn(ctx context.Context, pod *v1.Pod, own []restarts.Run) {
	asked := m.asked(pod.UID)
	if next := asked.WithOwn(own); next != asked {
		m.options.RecordRestarts(ctx, pod.UID, next)
	}
}

// rememberStopped has the host remember the run of an app container or sidecar that has just begun and is stopped, although its end can end the
// container for good, or restart the whole pod: it will be started again (spec/runtime.md 6.12, 15.1). One that has ended by itself is not remembered.
func (st *starting) rememberStopped(ctx context.Context, id string) {
	policy := restartpolicy.Effective(st.pod, st.spec)
	counts := policy == v1.RestartPolicyOnFailure || policy == v1.RestartPolicyAlways && restartpolicy.MayRestartAll(st.spec)
	if st.kind != meta.App && st.kind != meta.Sidecar || !counts || ctx.Err() != nil {
		return
	}
	view, err := st.m.read(ctx, st.pod.UID)
	if err != nil {
		st.m.options.Logger.Error(err, "A container is stopped in order to be started again, but its end counts, because the runtime did not show it",
			"podUID", st.pod.UID, "container", st.spec.Name)
		return
	}
	asked := st.m.asked(st.pod.UID)
	for _, record := range view.Containers {
		if record.ID.ID != id || record.State != runtime.Running || asked.Has(record.ID) {
			continue
		}
		var own []restarts.Run
		if asked != nil {
			own = slices.Clone(asked.Own)
		}
		st.m.rememberOwn(ctx, st.pod, append(own, restarts.RunOf(record, view)))
	}
}

// read reads a pod fresh from the runtime.
func (m *Manager) read(ctx context.Context, uid types.UID) (*runtime.PodStatus, error) {
	if m.options.Reader != nil {
		return m.options.Reader.Read(ctx, uid)
	}
	return m.view.Read(ctx, uid)
}

// stopAsked stops the containers whose restart was asked for, concurrently but sidecars after the
// app containers, as when a pod ends (spec/runtime.md 6.11). A container that does not stop is
// not started again, and does not hold up the others. It returns false once ctx has ended.
func (s *podSync) stopAsked(ctx context.Context) bool {
	var kills []actions.Kill
	var targets []*target
	for _, k := range s.plan.Kill {
		if k.Reason != actions.Requested {
			continue
		}
		c, _ := memberNamed(s.pod, k.Spec.Name)
		t := newTarget(s.pod, c, k.Record.ID.ID, k.Record.State)
		t.grace = terminationGrace(graceSources{pod: s.pod})
		t.message, t.why = killMessage(k), ", which was asked to restart"
		t.podIP = firstIP(s.status.IPs)
		kills, targets = append(kills, k), append(targets, t)
	}
	if len(kills) == 0 {
		return true
	}
	s.result.Acted = true
	for i, err := range s.m.stopAll(ctx, targets) {
		name := kills[i].Record.Name
		if err != nil {
			s.fail(stepKillContainer, name, reasonKillContainerError, err)
			s.leaveRunning(name)
			continue
		}
		s.done(stepKillContainer, name, string(kills[i].Reason), targets[i].message)
	}
	return ctx.Err() == nil
}

// leaveRunning takes the start of a container out of the plan.
func (s *podSync) leaveRunning(name string) {
	s.plan.StartInit = slices.DeleteFunc(s.plan.StartInit, func(i int) bool { return s.pod.Spec.InitContainers[i].Name == name })
	s.plan.StartApp = slices.DeleteFunc(s.plan.StartApp, func(i int) bool { return s.pod.Spec.Containers[i].Name == name })
}

// restartAsked reports whether the container starts because its restart was asked for: the request
// was for the run that it replaces. A container that was only created since then is not a run.
func (st *starting) restartAsked() bool {
	asked := st.m.asked(st.pod.UID)
	if !asked.Pending() || st.status == nil {
		return false
	}
	for _, record := range st.status.Containers {
		if record.Name == st.spec.Name && record.State != runtime.Created {
			return asked.Requested(record.ID)
		}
	}
	return false
}
