package actions_test

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
)

// TestLostSandboxBeforeStart: a pod that is never restarted gets another sandbox if
// the first was lost before any container ran; otherwise it would stay Pending.
func TestLostSandboxBeforeStart(t *testing.T) {
	check(t, []row{
		{rule: "6.2a only created", pod: pod(v1.RestartPolicyNever, "", "a"), status: "s0:dead a=created", want: "kill pod, sandbox 1 for s0, start a"},
		{rule: "6.2a one of two created", pod: pod(v1.RestartPolicyNever, "", "a b"), status: "s0:dead a=created b=exited:0", want: "kill pod, sandbox 1 for s0, start a"},
		{rule: "6.2a one of two has no record", pod: pod(v1.RestartPolicyNever, "", "a b"), status: "s0:dead b=exited:255", want: "kill pod, sandbox 1 for s0, start a"},
		{rule: "6.2a only init has run", pod: pod(v1.RestartPolicyNever, "i", "a"), status: "s0:dead i=exited:0", want: "kill pod, sandbox 1 for s0, start i"},
		{rule: "6.2a the second init container is only created", pod: pod(v1.RestartPolicyNever, "i j", "a"), status: "s0:dead i=exited:0 j=created", want: "kill pod, sandbox 1 for s0, start i"},
		{rule: "6.2a only a sidecar has run", pod: pod(v1.RestartPolicyNever, "s*", "a"), status: "s0:dead s=exited:255", want: "kill pod, sandbox 1 for s0, start s"},
		{rule: "6.2a only an ephemeral container has run", pod: pod(v1.RestartPolicyNever, "", "a"), status: "s0:dead e=exited:255", want: "kill pod, sandbox 1 for s0, start a"},
		{rule: "6.2a init has failed", pod: pod(v1.RestartPolicyNever, "i", "a"), status: "s0:dead i=exited:1", want: "kill pod"},
		{rule: "6.2a the second init container may have run", pod: pod(v1.RestartPolicyNever, "i j", "a"), status: "s0:dead i=exited:0 j=unknown", want: "kill pod"},
		{rule: "6.1 in the new sandbox the other one stays ended", pod: pod(v1.RestartPolicyNever, "i", "a b"), status: "s0:dead b=exited:255 s1:ready i=exited:0", want: "start a"},
		{rule: "6.2a unknown may have run", pod: pod(v1.RestartPolicyNever, "", "a"), status: "s0:dead a=unknown", want: "kill pod"},
	})
}

// TestOwnPolicyReturnsInANewSandbox: a container whose own policy or rules restart it also returns after its sandbox
// is lost, as after a reboot, although the pod's policy is Never; the others stay as they are.
func TestOwnPolicyReturnsInANewSandbox(t *testing.T) {
	of := func(init bool, policy v1.ContainerRestartPolicy) func(*v1.Pod) {
		return func(p *v1.Pod) {
			if init {
				p.Spec.InitContainers[0].RestartPolicy = ptr.To(policy)
				return
			}
			p.Spec.Containers[0].RestartPolicy = ptr.To(policy)
		}
	}
	const again, failing, once = v1.ContainerRestartPolicyAlways, v1.ContainerRestartPolicyOnFailure, v1.ContainerRestartPolicyNever
	on255 := rules(once, v1.ContainerRestartRuleActionRestart, 255)
	check(t, []row{
		{rule: "6.1 kept sandbox", pod: pod(never, "", "a b"), change: of(false, again), status: "s0:ready a=exited:255 b=running", want: "start a"},
		{rule: "6.2a reboot", pod: pod(never, "", "a b"), change: of(false, again), status: "s0:dead a=exited:255 b=exited:255", want: "kill pod, sandbox 1 for s0, start a"},
		{rule: "6.2a shown as running", pod: pod(never, "", "a b"), change: of(false, again), status: "s0:dead a=running b=running", want: "kill pod, sandbox 1 for s0, start a"},
		{rule: "6.2a what may have run does not run twice", pod: pod(never, "", "a b"), change: of(false, again), status: "s0:dead a=exited:255 b=unknown", want: "kill pod, sandbox 1 for s0, start a"},
		{rule: "6.2a a rule, but its end is not known", pod: pod(never, "", "a b"), change: on255, status: "s0:dead a=unknown b=exited:255", want: "kill pod"},
		{rule: "6.2a a failure", pod: pod(never, "", "a b"), change: of(false, failing), status: "s0:dead a=exited:255 b=exited:0", want: "kill pod, sandbox 1 for s0, start a"},
		{rule: "6.2a no failure", pod: pod(never, "", "a b"), change: of(false, failing), status: "s0:dead a=exited:0 b=exited:255", want: "kill pod"},
		{rule: "6.2a own Never", pod: pod(never, "", "a b"), change: of(false, once), status: "s0:dead a=exited:1 b=exited:255", want: "kill pod"},
		{rule: "6.2a a rule", pod: pod(never, "", "a b"), change: on255, status: "s0:dead a=exited:255 b=exited:255", want: "kill pod, sandbox 1 for s0, start a"},
		{rule: "6.2a no rule for this code", pod: pod(never, "", "a b"), change: on255, status: "s0:dead a=exited:1 b=exited:255", want: "kill pod"},
		{rule: "6.2c after init", pod: pod(never, "i", "a b"), change: of(false, again), status: "s0:dead i=exited:0 a=exited:255 b=exited:255", want: "kill pod, sandbox 1 for s0, start i"},
		{rule: "6.2a init has failed for good", pod: pod(never, "i", "a"), change: of(false, again), status: "s0:dead i=exited:255", want: "kill pod"},
		{rule: "6.2a init is lost", pod: pod(never, "i", "a"), change: of(false, again), status: "s0:dead i=running", want: "kill pod"},
		{rule: "6.2c init by its own policy", pod: pod(never, "i", "a"), change: of(true, failing), status: "s0:dead i=exited:255", want: "kill pod, sandbox 1 for s0, start i"},
		{rule: "6.2c init by its own policy, for lack of memory", pod: pod(never, "i", "a"), change: of(true, failing), status: "s0:dead i=exited:0:OOMKilled", want: "kill pod, sandbox 1 for s0, start i"},
		{rule: "6.2a a sidecar only accompanies", pod: pod(never, "s*", "a"), status: "s0:dead s=exited:255 a=exited:255", want: "kill pod"},
	})
}

// TestWhatMayHaveRunStaysOutOfTheNewSandbox: a container of policy Never whose end is not known does not return in the
// syncs after the new sandbox was made, either; in its own sandbox it does (6.1).
func TestWhatMayHaveRunStaysOutOfTheNewSandbox(t *testing.T) {
	again := own(v1.ContainerRestartPolicyAlways)
	check(t, []row{
		{rule: "6.1 beside the one that returned", pod: pod(never, "", "a b"), change: again, status: "s0:dead b=unknown s1:ready a=running"},
		{rule: "6.1 before that one", pod: pod(never, "", "a b"), change: again, status: "s0:dead a=exited:255 b=unknown s1:ready", want: "start a"},
		{rule: "6.1 nothing else runs", pod: pod(never, "", "b"), status: "s0:dead b=unknown s1:ready", want: "kill pod"},
		{rule: "6.11 a restart was asked for", pod: pod(never, "", "a b"), change: again, asked: "b", status: "s0:dead b=unknown s1:ready a=running", want: "kill b ContainerStateUnknown+, start b"},
		{rule: "6.1 another policy", pod: pod(onFailure, "", "a b"), status: "s0:dead b=unknown s1:ready a=running", want: "kill b ContainerStateUnknown+, start b"},
		{rule: "6.1 edge 10: its own sandbox", pod: pod(never, "", "a b"), status: "s0:ready b=unknown a=running", want: "kill b ContainerStateUnknown+, start b"},
	})
}
