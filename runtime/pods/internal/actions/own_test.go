package actions_test

import (
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/internal/proberesult"
	"github.com/podwright/podwright/internal/restarts"
	"github.com/podwright/podwright/runtime/pods/internal/actions"
)

// spec/runtime.md 6.12: which runs are remembered before they stop, and until when.
func TestOwnRuns(t *testing.T) {
	live := func(p *v1.Pod) { p.Spec.Containers[0].LivenessProbe = &v1.Probe{} }
	failed := map[string]actions.Probes{"a": {Liveness: proberesult.Failure}}
	ownAlways := func(p *v1.Pod) { p.Spec.Containers[0].RestartPolicy = new(v1.ContainerRestartPolicyAlways) }
	restartAll := rules(v1.ContainerRestartPolicyAlways, v1.ContainerRestartRuleActionRestartAllContainers, 143)
	sidecarAll := func(p *v1.Pod) {
		restartAll(p)
		p.Spec.InitContainers[0].RestartPolicyRules, p.Spec.Containers[0].RestartPolicyRules = p.Spec.Containers[0].RestartPolicyRules, nil
	}
	for _, r := range []struct {
		rule       string
		pod        *v1.Pod
		change     func(*v1.Pod)
		status     string
		probes     map[string]actions.Probes
		resizes    map[string]actions.Resize
		outside    bool
		asked, own string
		want       string
		// left are the containers whose runs are remembered afterwards.
		left string
	}{
		{rule: "a failed probe", pod: pod(onFailure, "", "a b"), change: live, probes: failed, status: "s0:ready a=running b=running", want: "kill a LivenessProbe+, start a", left: "a"},
		{rule: "policy Always: an exit never ends it", pod: pod(always, "", "a"), change: live, probes: failed, status: "s0:ready a=running", want: "kill a LivenessProbe+, start a"},
		{rule: "its own policy is Always", pod: pod(onFailure, "", "a"), change: ownAlways, status: "s0:ready a=changed", want: "kill a ContainerChanged+, start a"},
		{rule: "policy Always, and a rule that restarts all", pod: pod(always, "", "a b"), change: restartAll, status: "s0:ready a=changed b=running", want: "kill a ContainerChanged+, start a", left: "a"},
		{rule: "stopped, and a rule that restarts all", pod: pod(always, "", "a b"), change: restartAll, own: "a", status: "s0:ready a=exited:143 b=running", want: "start a", left: "a"},
		{rule: "its own exit, and a rule that restarts all", pod: pod(always, "", "a b"), change: restartAll, status: "s0:ready a=exited:143 b=running", want: "reset b, reset a"},
		{rule: "a lost sandbox, and a rule that restarts all", pod: pod(always, "", "a b"), change: restartAll, status: "s0:dead a=running b=running", want: "kill pod, sandbox 1 for s0, start a, start b", left: "a"},
		{rule: "a sidecar with a rule that restarts all", pod: pod(always, "s*", "a"), change: sidecarAll, status: "s0:ready s=changed a=running", want: "kill s ContainerChanged+, start s", left: "s"},
		{rule: "that sidecar, stopped", pod: pod(always, "s*", "a"), change: sidecarAll, own: "s", status: "s0:ready s=exited:143 a=running", want: "start s", left: "s"},
		{rule: "that sidecar, the reason has gone", pod: pod(always, "s*", "a"), change: sidecarAll, own: "s", status: "s0:ready s=running a=running"},
		{rule: "a sidecar without", pod: pod(always, "s*", "a"), status: "s0:ready s=changed a=running", want: "kill s ContainerChanged+, start s"},
		{rule: "policy Never: it is not started again", pod: pod(never, "", "a b"), change: live, probes: failed, status: "s0:ready a=running b=running", want: "kill a LivenessProbe"},
		{rule: "another definition, whatever the policy", pod: pod(never, "", "a"), status: "s0:ready a=changed", want: "kill a ContainerChanged+, start a", left: "a"},
		{rule: "other resources", pod: pod(onFailure, "", "a"), resizes: map[string]actions.Resize{"a": actions.ResizeRestart}, status: "s0:ready a=running", want: "kill a ContainerResized+, start a, resize pod", left: "a"},
		{rule: "a caller asked already", pod: pod(onFailure, "", "a"), asked: "a", status: "s0:ready a=changed", want: "kill a ContainerChanged+, start a"},
		{rule: "a lost sandbox", pod: pod(onFailure, "", "a b"), status: "s0:dead a=running b=exited:0", want: "kill pod, sandbox 1 for s0, start a", left: "a"},
		{rule: "a lost sandbox, with init", pod: pod(onFailure, "i", "a"), status: "s0:dead i=exited:0 a=running", want: "kill pod, sandbox 1 for s0, start i", left: "a"},
		{rule: "a lost sandbox, policy Never", pod: pod(never, "", "a"), status: "s0:dead a=running", want: "kill pod"},
		{rule: "the pod ends", pod: pod(onFailure, "", "a"), change: deleted, status: "s0:dead a=running", want: "kill pod"},
		{rule: "stopped", pod: pod(onFailure, "", "a"), own: "a", status: "s0:ready a=exited:0", want: "start a", left: "a"},
		{rule: "stopped, policy Never", pod: pod(never, "", "a"), own: "a", status: "s0:ready a=exited:137", want: "start a", left: "a"},
		{rule: "stopped, in a new sandbox", pod: pod(onFailure, "i", "a"), own: "a", status: "s0:dead a=exited:0 s1:ready i=exited:0", want: "start a", left: "a"},
		{rule: "the next one is only created", pod: pod(onFailure, "", "a"), own: "a", status: "s0:ready a=exited:0 a=created", want: "start a", left: "a"},
		{rule: "still to be stopped", pod: pod(onFailure, "", "a"), own: "a", status: "s0:ready a=changed", want: "kill a ContainerChanged+, start a", left: "a"},
		{rule: "the reason has gone", pod: pod(onFailure, "", "a b"), own: "a b", status: "s0:ready a=running b=exited:0", want: "start b", left: "b"},
		{rule: "stopped, policy Never, and its sandbox is lost", pod: pod(never, "i", "a b"), own: "a", status: "s0:dead i=exited:0 a=exited:0 b=running", want: "kill pod, sandbox 1 for s0, start i", left: "a"},
		{rule: "only its next one is created, and the sandbox is lost", pod: pod(never, "", "a"), own: "a", status: "s0:dead a=exited:0 a=created", want: "kill pod, sandbox 1 for s0, start a", left: "a"},
		{rule: "policy Never: still to be stopped, and the sandbox is lost", pod: pod(never, "", "a"), own: "a", status: "s0:dead a=running", want: "kill pod"},
		{rule: "policy Never: unknown, and the sandbox is lost", pod: pod(never, "", "a"), own: "a", status: "s0:dead a=unknown", want: "kill pod"},
		{rule: "policy Never: the reason has gone, and the probe fails", pod: pod(never, "", "a b"), change: live, probes: failed, own: "a", status: "s0:ready a=running b=running", want: "kill a LivenessProbe"},
		{rule: "7.2: outside of the cgroup", pod: pod(onFailure, "", "a b c"), outside: true, status: "s0:ready a=running b=exited:0 c=unknown", want: "kill c ContainerStateUnknown+, start c", left: "a c"},
		{rule: "7.2: outside of the cgroup, still to be stopped", pod: pod(onFailure, "", "a"), outside: true, own: "a", status: "s0:ready a=running", left: "a"},
		{rule: "7.2: outside of the cgroup, policy Never", pod: pod(never, "", "a"), outside: true, status: "s0:ready a=running"},
		{rule: "7.2: outside of the cgroup, the pod ends", pod: pod(onFailure, "", "a"), change: deleted, outside: true, status: "s0:ready a=running"},
		{rule: "7.2: outside of the cgroup, it has ended but for a sidecar", pod: pod(onFailure, "s*", "a"), outside: true, status: "s0:ready s=running a=exited:0", want: "kill pod"},
		{rule: "no record is left of it", pod: pod(onFailure, "", "a b"), own: "a", status: "s0:ready b=running", want: "start a"},
	} {
		t.Run(r.rule, func(t *testing.T) {
			if r.change != nil {
				r.change(r.pod)
			}
			in := actions.Input{Pod: r.pod, Status: status(r.status), Asked: askedFor(status(r.status), r.asked), Outside: r.outside}
			in.Probes, in.Resizes = byID(in.Status, r.probes), byID(in.Status, r.resizes)
			if own := askedFor(in.Status, r.own); own != nil {
				in.Asked = in.Asked.WithOwn(own.Runs)
			}
			plan := actions.Compute(in)
			if got := say(plan, r.pod); got != r.want {
				t.Errorf("got  %q\nwant %q", got, r.want)
			}
			var left []restarts.Run
			if of := askedFor(in.Status, r.left); of != nil {
				left = of.Runs
			}
			if !slices.Equal(plan.Own, left) {
				t.Errorf("remembered %+v, want %+v", plan.Own, left)
			}
		})
	}
}
