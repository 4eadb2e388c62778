package enginetest_test

import (
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/podwright/podwright/probe"
	"github.com/podwright/podwright/runtime"
	"github.com/podwright/podwright/status"
)

// spec/runtime.md 1.4: the containers of the latest sandbox are active if that sandbox is ready. Only active
// containers show that a pod's sidecars have started; containers of an older or a dead sandbox do not.
func TestOnlyLatestReadySandboxCounts(t *testing.T) {
	pod := newPod("p", "app")
	pod.Spec.RestartPolicy = v1.RestartPolicyAlways
	pod.Spec.InitContainers = []v1.Container{{
		Name: "side", Image: "app:1", RestartPolicy: ptr.To(v1.ContainerRestartPolicyAlways), StartupProbe: &v1.Probe{},
	}}
	now := time.Unix(1_800_000_000, 0)
	record := func(name, sandbox string, state runtime.State) *runtime.ContainerStatus {
		r := &runtime.ContainerStatus{ID: runtime.ContainerID{Runtime: "fake", ID: name + sandbox}, Name: name, SandboxID: sandbox, State: state, StartedAt: now}
		if state == runtime.Exited {
			r.FinishedAt = now
		}
		return r
	}
	sandbox := func(id string, state runtime.State) *runtime.SandboxStatus {
		return &runtime.SandboxStatus{ID: id, State: state}
	}
	for _, tc := range []struct {
		name      string
		sandboxes []*runtime.SandboxStatus
		app       *runtime.ContainerStatus
		want      v1.PodPhase
	}{
		{"app in the latest ready sandbox", []*runtime.SandboxStatus{sandbox("new", runtime.Running), sandbox("old", runtime.Exited)}, record("app", "new", runtime.Running), v1.PodRunning},
		{"app only in the old sandbox", []*runtime.SandboxStatus{sandbox("new", runtime.Running), sandbox("old", runtime.Exited)}, record("app", "old", runtime.Exited), v1.PodPending},
		{"the only sandbox is not ready", []*runtime.SandboxStatus{sandbox("old", runtime.Exited)}, record("app", "old", runtime.Exited), v1.PodPending},
	} {
		// The sidecar runs, and its startup probe has not passed.
		side := record("side", tc.sandboxes[0].ID, runtime.Running)
		got := status.Generate(status.Input{
			Pod: pod, Now: now,
			Runtime: &runtime.PodStatus{UID: pod.UID, Sandboxes: tc.sandboxes, Containers: []*runtime.ContainerStatus{side, tc.app}},
			Probes: func(string, runtime.ContainerID) status.ProbeFacts {
				return status.ProbeFacts{Startup: probe.Unknown}
			},
		})
		if got.Phase != tc.want {
			t.Errorf("1.4 %s: %s, want %s", tc.name, got.Phase, tc.want)
		}
	}
}
