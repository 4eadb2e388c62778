package actions_test

import (
	"testing"

	v1 "k8s.io/api/core/v1"
)

// TestLostSandboxBeforeStart: a pod that is never restarted gets another sandbox if
// the first was lost before any container ran; otherwise it would stay Pending.
func TestLostSandboxBeforeStart(t *testing.T) {
	check(t, []row{
		{rule: "6.2a only created", pod: pod(v1.RestartPolicyNever, "", "a"), status: "s0:dead a=created", want: "kill pod, sandbox 1 for s0, start a"},
		{rule: "6.2a one of two created", pod: pod(v1.RestartPolicyNever, "", "a b"), status: "s0:dead a=created b=exited:0", want: "kill pod"},
		{rule: "6.2a unknown may have run", pod: pod(v1.RestartPolicyNever, "", "a"), status: "s0:dead a=unknown", want: "kill pod"},
	})
}
