package status

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
)

const (
	always    = v1.RestartPolicyAlways
	onFailure = v1.RestartPolicyOnFailure
	never     = v1.RestartPolicyNever
)

// restartOn42 gives the first app container an own policy with a rule.
func restartOn42(p *v1.Pod) {
	p.Spec.Containers[0].RestartPolicy = ptr.To(v1.ContainerRestartPolicyNever)
	p.Spec.Containers[0].RestartPolicyRules = []v1.ContainerRestartRule{{
		Action: v1.ContainerRestartRuleActionRestart,
		ExitCodes: &v1.ContainerRestartRuleOnExitCodes{
			Operator: v1.ContainerRestartRuleOnExitCodesOpIn, Values: []int32{42},
		},
	}}
}

func neverPolicy(p *v1.Pod) {
	p.Spec.Containers[0].RestartPolicy = ptr.To(v1.ContainerRestartPolicyNever)
}

// TestPhase holds every worked combination of spec/status.md 2.3, every row of
// the counters in 2.1 and every row of the decision in 2.2.
func TestPhase(t *testing.T) {
	anyPolicy := []v1.RestartPolicy{always, onFailure, never}
	for _, test := range []struct {
		rule        string
		policies    []v1.RestartPolicy
		containers  string
		terminal    bool
		initialized bool
		change      podOption
		want        v1.PodPhase
	}{
		{rule: "2.3", policies: anyPolicy, containers: "A -", want: v1.PodPending},
		{rule: "2.3", policies: anyPolicy, containers: "A W", want: v1.PodPending},
		{rule: "2.3", policies: anyPolicy, containers: "A R, A W", want: v1.PodPending},
		{rule: "2.3", policies: anyPolicy, containers: "A R, A -", want: v1.PodPending},
		{rule: "2.3", policies: anyPolicy, containers: "A R, A T1", want: v1.PodRunning},
		{rule: "2.3", policies: []v1.RestartPolicy{always}, containers: "A T0", want: v1.PodRunning},
		{rule: "2.3 edge 1", policies: []v1.RestartPolicy{always}, containers: "A W0", want: v1.PodRunning},
		{rule: "2.3", policies: []v1.RestartPolicy{always}, containers: "A W1", want: v1.PodRunning},
		{rule: "2.3", policies: []v1.RestartPolicy{onFailure}, containers: "A T0, A T0", want: v1.PodSucceeded},
		{rule: "2.3", policies: []v1.RestartPolicy{onFailure}, containers: "A T0, A T1", want: v1.PodRunning},
		{rule: "2.3", policies: []v1.RestartPolicy{onFailure}, containers: "A T0, A W1", want: v1.PodRunning},
		{rule: "2.3", policies: []v1.RestartPolicy{never}, containers: "A T0, A T1", want: v1.PodFailed},
		{rule: "2.3", policies: []v1.RestartPolicy{never}, containers: "A T0, A R", want: v1.PodRunning},
		{rule: "2.3 edge 2", policies: []v1.RestartPolicy{always}, containers: "A T0, A T0", terminal: true, want: v1.PodSucceeded},
		{rule: "2.3", policies: []v1.RestartPolicy{always}, containers: "A T0, A W1", terminal: true, want: v1.PodFailed},
		{rule: "2.3", policies: []v1.RestartPolicy{always}, containers: "A T0", terminal: true, change: static, want: v1.PodRunning},
		{rule: "2.3", policies: []v1.RestartPolicy{never}, containers: "I T1, A W", want: v1.PodFailed},
		{rule: "2.3", policies: []v1.RestartPolicy{onFailure, always}, containers: "I T1, A W", want: v1.PodPending},
		{rule: "2.3", policies: []v1.RestartPolicy{onFailure, always}, containers: "I W1, A W", want: v1.PodPending},
		{rule: "2.3", policies: anyPolicy, containers: "I R, A W", want: v1.PodPending},
		{rule: "2.3", policies: anyPolicy, containers: "I T0, S R, A R", want: v1.PodRunning},
		{rule: "2.3", policies: anyPolicy, containers: "I T0, S r, A W", want: v1.PodPending},
		{rule: "2.3 edge 18", policies: anyPolicy, containers: "S r, A R", initialized: true, want: v1.PodRunning},
		{rule: "2.3", policies: []v1.RestartPolicy{never}, containers: "S R, A T0", want: v1.PodRunning},
		{rule: "2.3", policies: []v1.RestartPolicy{never}, containers: "S T1, A T0", want: v1.PodSucceeded},
		{rule: "2.3", policies: []v1.RestartPolicy{never}, containers: "A T42", change: restartOn42, want: v1.PodRunning},
		{rule: "2.3", policies: []v1.RestartPolicy{never}, containers: "A T1", change: restartOn42, want: v1.PodFailed},
		{rule: "2.3", policies: []v1.RestartPolicy{always}, containers: "A T1", change: neverPolicy, want: v1.PodFailed},

		// 2.1: the rows not seen above.
		{rule: "2.1 init none", policies: anyPolicy, containers: "I -, A R", want: v1.PodPending},
		{rule: "2.1 init empty", policies: anyPolicy, containers: "I E, A R", want: v1.PodPending},
		{rule: "2.1 init waiting", policies: anyPolicy, containers: "I W, A R", want: v1.PodPending},
		{rule: "2.1 init waiting after 0", policies: anyPolicy, containers: "I W0, A R", want: v1.PodRunning},
		{rule: "2.1 init failed, will restart", policies: []v1.RestartPolicy{onFailure, always}, containers: "I T1, A R", want: v1.PodRunning},
		{rule: "2.1 sidecar none", policies: anyPolicy, containers: "S -, A R", want: v1.PodPending},
		{rule: "2.1 sidecar waiting after exit", policies: anyPolicy, containers: "S W1, A R", want: v1.PodRunning},
		{rule: "2.1 sidecar waiting", policies: anyPolicy, containers: "S W, A R", initialized: true, want: v1.PodPending},
		{rule: "2.1 sidecar empty", policies: anyPolicy, containers: "S E, A R", initialized: true, want: v1.PodPending},
		{rule: "2.1 app empty", policies: anyPolicy, containers: "A E, A T0", want: v1.PodPending},
		{rule: "2.1 restart all", policies: []v1.RestartPolicy{never}, containers: "A T0!", want: v1.PodRunning},
		{rule: "2.1 restart all, init", policies: []v1.RestartPolicy{never}, containers: "I T1!, A W", want: v1.PodPending},

		// 2.2: order of the rows.
		{rule: "2.2 row 1 before 2", policies: []v1.RestartPolicy{never}, containers: "I T1, I -, A R", want: v1.PodFailed},
		{rule: "2.2 row 2 before 4", policies: anyPolicy, containers: "S r, A R", want: v1.PodPending},
		{rule: "2.2 row 5 needs all known", policies: anyPolicy, containers: "A T0, A -", terminal: true, want: v1.PodPending},
		{rule: "2.2 row 6", policies: []v1.RestartPolicy{always}, containers: "A W0", terminal: true, want: v1.PodFailed},
		{rule: "2.2 row 4 before 5", policies: anyPolicy, containers: "A T0, A R", terminal: true, want: v1.PodRunning},
	} {
		for _, p := range test.policies {
			t.Run(test.rule+"/"+string(p)+"/"+test.containers, func(t *testing.T) {
				pod := newPod(policy(p))
				s := scene(pod, test.containers)
				if test.change != nil {
					test.change(pod)
				}
				if got := phaseOf(pod, s, test.initialized, test.terminal, nil); got != test.want {
					t.Errorf("phase %s, want %s", got, test.want)
				}
			})
		}
	}
}

// TestInitContainerKilledForMemoryFailed (runtime.md edge 1): an init container that the kernel killed for lack of memory
// has failed, even with code 0, unless its policy runs it again.
func TestInitContainerKilledForMemoryFailed(t *testing.T) {
	for policyOf, want := range map[v1.RestartPolicy]v1.PodPhase{never: v1.PodFailed, onFailure: v1.PodPending, always: v1.PodPending} {
		for _, containers := range []string{"I T0, A W", "I W0, A W"} {
			pod := newPod(policy(policyOf))
			s := scene(pod, containers)
			for _, state := range []*v1.ContainerState{&s.InitContainerStatuses[0].State, &s.InitContainerStatuses[0].LastTerminationState} {
				if state.Terminated != nil {
					state.Terminated.Reason = "OOMKilled"
				}
			}
			if got := phaseOf(pod, s, false, false, nil); got != want {
				t.Errorf("%s, %s: phase %s, want %s", policyOf, containers, got, want)
			}
		}
	}
}

// TestPhaseIgnoresOrder: a status is found by name wherever it is in its list.
func TestPhaseIgnoresOrder(t *testing.T) {
	pod := newPod(policy(never))
	s := scene(pod, "A T0, A R")
	s.ContainerStatuses[0], s.ContainerStatuses[1] = s.ContainerStatuses[1], s.ContainerStatuses[0]
	if got := phaseOf(pod, s, true, false, nil); got != v1.PodRunning {
		t.Errorf("phase %s, want Running", got)
	}
}
