package podsync

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/podwright/podwright/runtime"
)

// TestEndedContainersAreNotRunAgain: CK3, HI8: a container without a record in the runtime counts as ended if its
// status shows an end after which it does not run again.
func TestEndedContainersAreNotRunAgain(t *testing.T) {
	sidecar := v1.ContainerRestartPolicyAlways
	all := []v1.ContainerRestartRule{{Action: v1.ContainerRestartRuleActionRestartAllContainers}}
	ended := func(code int32) v1.ContainerState {
		return v1.ContainerState{Terminated: &v1.ContainerStateTerminated{ExitCode: code, Reason: "Error", ContainerID: "rt://old"}}
	}
	running := v1.ContainerState{Running: &v1.ContainerStateRunning{}}
	waiting := v1.ContainerState{Waiting: &v1.ContainerStateWaiting{}}
	for _, tc := range []struct {
		name   string
		policy v1.RestartPolicy
		spec   func(*v1.PodSpec)
		state  v1.ContainerState
		kind   string             // init or ephemeral; empty: an app container
		view   *runtime.PodStatus // nil: only the other container
		none   bool               // the runtime has nothing of the pod
		want   bool
	}{
		{name: "Never, failed", policy: v1.RestartPolicyNever, state: ended(7), want: true},
		{name: "Never, the runtime has nothing at all", policy: v1.RestartPolicyNever, state: ended(7), none: true, want: true},
		{name: "OnFailure, succeeded", policy: v1.RestartPolicyOnFailure, state: ended(0), want: true},
		{name: "OnFailure, failed: it is run again", policy: v1.RestartPolicyOnFailure, state: ended(1)},
		{name: "Always: it is run again", state: ended(0)},
		{name: "Never, running as far as is known", policy: v1.RestartPolicyNever, state: running},
		{name: "Never, not started yet", policy: v1.RestartPolicyNever, state: waiting},
		{name: "its own policy", state: ended(0), want: true, spec: func(s *v1.PodSpec) {
			s.Containers[0].RestartPolicy = ptr.To(v1.ContainerRestartPolicyNever)
		}},
		{name: "the reset of all may have removed it", policy: v1.RestartPolicyNever, state: ended(7), spec: func(s *v1.PodSpec) {
			s.Containers[1].RestartPolicy, s.Containers[1].RestartPolicyRules = ptr.To(v1.ContainerRestartPolicyNever), all
		}},
		{name: "the runtime has it", policy: v1.RestartPolicyNever, state: ended(7), view: &runtime.PodStatus{
			Containers: []*runtime.ContainerStatus{{Name: "c"}, {Name: "other"}},
		}},
		{name: "an init container that is done", kind: "init", policy: v1.RestartPolicyOnFailure, state: ended(0), want: true},
		{name: "a sidecar", kind: "init", policy: v1.RestartPolicyNever, state: ended(0), spec: func(s *v1.PodSpec) {
			s.InitContainers[0].RestartPolicy = &sidecar
		}},
		{name: "an ephemeral one runs once", kind: "ephemeral", state: ended(1), want: true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			pod := &v1.Pod{Spec: v1.PodSpec{RestartPolicy: tc.policy, Containers: []v1.Container{{Name: "c"}, {Name: "other"}}}}
			shown := []v1.ContainerStatus{{Name: "c", State: tc.state, RestartCount: 3}}
			status := &v1.PodStatus{}
			switch tc.kind {
			case "init":
				pod.Spec.InitContainers, pod.Spec.Containers = pod.Spec.Containers[:1], pod.Spec.Containers[1:]
				status.InitContainerStatuses = shown
			case "ephemeral":
				pod.Spec.EphemeralContainers = []v1.EphemeralContainer{{EphemeralContainerCommon: v1.EphemeralContainerCommon{Name: "c"}}}
				pod.Spec.Containers = pod.Spec.Containers[1:]
				status.EphemeralContainerStatuses = shown
			default:
				status.ContainerStatuses = shown
			}
			if tc.spec != nil {
				tc.spec(&pod.Spec)
			}
			view := tc.view
			if view == nil && !tc.none {
				view = &runtime.PodStatus{UID: "u", Containers: []*runtime.ContainerStatus{{Name: "other", State: runtime.Running}}}
			}
			before := 0
			if view != nil {
				before = len(view.Containers)
			}
			got := withLostEnds(pod, view, status)
			c := got.Container("c")
			if !tc.want {
				if got != view {
					t.Errorf("a copy was made: %+v", got)
				}
				return
			}
			if c == nil || c.State != runtime.Exited || c.ExitCode != tc.state.Terminated.ExitCode || c.RestartCount != 3 || c.ID.ID != "old" {
				t.Errorf("%+v", c)
			}
			if view != nil && (len(view.Containers) != before || got.Container("other") != view.Container("other")) {
				t.Error("the view was changed")
			}
		})
	}
}
