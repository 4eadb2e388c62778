package restartpolicy_test

import (
	"testing"

	"go.uber.org/goleak"
	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/internal/restartpolicy"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func container(own v1.ContainerRestartPolicy, rules ...v1.ContainerRestartRule) v1.Container {
	c := v1.Container{Name: "c", RestartPolicyRules: rules}
	if own != "" {
		c.RestartPolicy = &own
	}
	return c
}

func pod(policy v1.RestartPolicy, c ...v1.Container) *v1.Pod {
	return &v1.Pod{Spec: v1.PodSpec{RestartPolicy: policy, Containers: c}}
}

func on(action v1.ContainerRestartRuleAction, operator v1.ContainerRestartRuleOnExitCodesOperator, codes ...int32) v1.ContainerRestartRule {
	return v1.ContainerRestartRule{Action: action, ExitCodes: &v1.ContainerRestartRuleOnExitCodes{Operator: operator, Values: codes}}
}

// spec/runtime.md 6.1: the container's rules come first, then its own policy, then the
// pod's.
func TestRulesThenOwnPolicyThenThePods(t *testing.T) {
	const (
		always, onFailure, never = v1.RestartPolicyAlways, v1.RestartPolicyOnFailure, v1.RestartPolicyNever

		ownAlways, ownNever = v1.ContainerRestartPolicyAlways, v1.ContainerRestartPolicyNever
	)
	restart42 := on(v1.ContainerRestartRuleActionRestart, v1.ContainerRestartRuleOnExitCodesOpIn, 42)
	allBut0 := on(v1.ContainerRestartRuleActionRestartAllContainers, v1.ContainerRestartRuleOnExitCodesOpNotIn, 0)
	for _, tc := range []struct {
		name   string
		policy v1.RestartPolicy
		c      v1.Container
		code   int32
		want   restartpolicy.Decision
	}{
		{"no policy at all", "", container(""), 0, restartpolicy.Restart},
		{"always, success", always, container(""), 0, restartpolicy.Restart},
		{"on failure, success", onFailure, container(""), 0, restartpolicy.Stay},
		{"on failure, failure", onFailure, container(""), 1, restartpolicy.Restart},
		{"never, failure", never, container(""), 1, restartpolicy.Stay},
		{"its own wins over never", never, container(ownAlways), 1, restartpolicy.Restart},
		{"its own wins over always", always, container(ownNever), 1, restartpolicy.Stay},
		{"a rule matches", never, container(ownNever, restart42), 42, restartpolicy.Restart},
		{"no rule matches", always, container(ownNever, restart42), 1, restartpolicy.Stay},
		{"the first rule that matches", never, container(ownNever, restart42, allBut0), 42, restartpolicy.Restart},
		{"all but one code", never, container(ownNever, restart42, allBut0), 1, restartpolicy.RestartAll},
		{"rules without a policy of its own", never, container("", restart42), 42, restartpolicy.Stay},
		{"a rule without codes", never, container(ownNever, v1.ContainerRestartRule{Action: v1.ContainerRestartRuleActionRestart}), 0, restartpolicy.Stay},
	} {
		if got := restartpolicy.OnExit(pod(tc.policy, tc.c), &tc.c, tc.code); got != tc.want {
			t.Errorf("%s: %d, want %d", tc.name, got, tc.want)
		}
	}
}

func TestAtMostOnceIfThePodOrAContainerIsNeverRestarted(t *testing.T) {
	for _, tc := range []struct {
		pod  *v1.Pod
		want bool
	}{
		{pod("", container("")), false},
		{pod(v1.RestartPolicyOnFailure, container("")), false},
		{pod(v1.RestartPolicyNever, container(v1.ContainerRestartPolicyAlways)), true},
		{pod(v1.RestartPolicyAlways, container(""), container(v1.ContainerRestartPolicyNever)), true},
	} {
		if got := restartpolicy.AtMostOnce(tc.pod); got != tc.want {
			t.Errorf("%+v: %t", tc.pod.Spec, got)
		}
	}
}

func TestOnlyARuleRestartsAll(t *testing.T) {
	all := container(v1.ContainerRestartPolicyNever, on(v1.ContainerRestartRuleActionRestartAllContainers, v1.ContainerRestartRuleOnExitCodesOpIn, 7))
	if !restartpolicy.RestartsAll(&pod("", container(""), all).Spec) {
		t.Error("a container with the rule is not found")
	}
	one := container(v1.ContainerRestartPolicyNever, on(v1.ContainerRestartRuleActionRestart, v1.ContainerRestartRuleOnExitCodesOpIn, 7))
	if restartpolicy.RestartsAll(&pod(v1.RestartPolicyAlways, one).Spec) {
		t.Error("a rule that restarts one container counts")
	}
}

func TestSidecarsAreAlwaysRestarted(t *testing.T) {
	for own, want := range map[v1.ContainerRestartPolicy]bool{"": false, v1.ContainerRestartPolicyNever: false, v1.ContainerRestartPolicyAlways: true} {
		if c := container(own); restartpolicy.IsSidecar(&c) != want {
			t.Errorf("policy %q: %t", own, !want)
		}
	}
}

// spec/runtime.md 6.4, edge 1: an init container that the kernel killed for lack of memory has failed, even with code 0.
func TestKillForMemoryIsAFailureOfAnInitContainer(t *testing.T) {
	for _, tc := range []struct {
		pod    v1.RestartPolicy
		own    v1.ContainerRestartPolicy
		code   int32
		reason string
		want   restartpolicy.Decision
	}{
		{pod: v1.RestartPolicyNever, reason: "OOMKilled", want: restartpolicy.Stay},
		{pod: v1.RestartPolicyOnFailure, reason: "OOMKilled", want: restartpolicy.Restart},
		{pod: v1.RestartPolicyAlways, reason: "OOMKilled", want: restartpolicy.Restart},
		{pod: v1.RestartPolicyAlways, own: v1.ContainerRestartPolicyNever, reason: "OOMKilled", want: restartpolicy.Stay},
		{pod: v1.RestartPolicyNever, own: v1.ContainerRestartPolicyOnFailure, reason: "OOMKilled", want: restartpolicy.Restart},
		{pod: v1.RestartPolicyOnFailure, reason: "Completed", want: restartpolicy.Stay},
		{pod: v1.RestartPolicyOnFailure, code: 1, reason: "Error", want: restartpolicy.Restart},
	} {
		c := container(tc.own)
		if got := restartpolicy.OnInitExit(pod(tc.pod), &c, tc.code, tc.reason); got != tc.want {
			t.Errorf("%+v: got %v", tc, got)
		}
	}
}
