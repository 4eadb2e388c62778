package status

import (
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/internal/restarts"
	"github.com/podwright/podwright/runtime"
)

// TestAskedRestartIsNoEnd: spec/status.md 3.10: a container that stops while its restart is requested waits for the
// restart, and its pod continues, whatever its restart policy says about the exit. When the pod ends, it has ended.
func TestAskedRestartIsNoEnd(t *testing.T) {
	id := runtime.ContainerID{Runtime: "t", ID: "main-0"}
	asked := &restarts.Asked{Message: "The disk is new.", Runs: []restarts.Run{{Container: "main", ID: id.String()}}}
	ended := &runtime.ContainerStatus{ID: id, Name: "main", State: runtime.Exited, SandboxID: "s"}
	created := &runtime.ContainerStatus{ID: runtime.ContainerID{Runtime: "t", ID: "main-1"}, Name: "main", State: runtime.Created, SandboxID: "s", RestartCount: 1}
	for _, test := range []struct {
		name     string
		asked    *restarts.Asked
		records  []*runtime.ContainerStatus
		failed   map[string]WaitingReason
		terminal bool
		phase    v1.PodPhase
		reason   string // the reason for waiting; empty: terminated
		message  string
	}{
		{"nobody asked", nil, []*runtime.ContainerStatus{ended}, nil, false, v1.PodSucceeded, "", ""},
		{"stopped", asked, []*runtime.ContainerStatus{ended}, nil, false, v1.PodRunning, "RestartRequested", "The disk is new."},
		{"cannot start", asked, []*runtime.ContainerStatus{ended}, map[string]WaitingReason{"main": {Reason: "ErrImagePull", Message: "no"}}, false, v1.PodRunning, "ErrImagePull", "no"},
		{"made, not started", asked, []*runtime.ContainerStatus{created, ended}, map[string]WaitingReason{"main": {Reason: "RunContainerError"}}, false, v1.PodRunning, "RunContainerError", ""},
		{"the pod has ended", asked, []*runtime.ContainerStatus{ended}, nil, true, v1.PodSucceeded, "", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			pod := &v1.Pod{Spec: v1.PodSpec{RestartPolicy: v1.RestartPolicyOnFailure, Containers: []v1.Container{{Name: "main"}}}}
			old := &v1.PodStatus{Phase: v1.PodRunning, ContainerStatuses: []v1.ContainerStatus{{
				Name: "main", ContainerID: id.String(), State: v1.ContainerState{Running: &v1.ContainerStateRunning{}},
			}}}
			s := Generate(Input{
				Pod: pod, Old: old, Asked: test.asked, Waiting: test.failed, Terminal: test.terminal,
				Runtime: &runtime.PodStatus{Sandboxes: []*runtime.SandboxStatus{{ID: "s", State: runtime.Running}}, Containers: test.records},
			})
			c := s.ContainerStatuses[0]
			if s.Phase != test.phase || (c.State.Waiting != nil) != (test.reason != "") {
				t.Fatalf("phase %s, %+v", s.Phase, c)
			}
			if w := c.State.Waiting; w != nil && (w.Reason != test.reason || w.Message != test.message || c.LastTerminationState.Terminated == nil || c.RestartCount != 0) {
				t.Errorf("%+v", c)
			}
			if err := checkTransitions(pod, old, &s); err != nil {
				t.Error(err)
			}
		})
	}
}
