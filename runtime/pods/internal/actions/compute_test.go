package actions_test

import (
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/internal/proberesult"
	"github.com/podwright/podwright/runtime/pods/internal/actions"
)

const (
	always    = v1.RestartPolicyAlways
	onFailure = v1.RestartPolicyOnFailure
	never     = v1.RestartPolicyNever
)

// row is one case: a pod, what the runtime shows, and the plan in words.
type row struct {
	rule   string
	pod    *v1.Pod
	change func(*v1.Pod)
	status string
	probes map[string]actions.Probes
	want   string
	// resizes is what running containers ask for.
	resizes map[string]actions.Resize
	// asked are the containers whose newest run must be replaced because a restart was asked for.
	asked string
}

func check(t *testing.T, rows []row) {
	t.Helper()
	for _, r := range rows {
		t.Run(r.rule, func(t *testing.T) {
			if r.change != nil {
				r.change(r.pod)
			}
			in := actions.Input{Pod: r.pod, Status: status(r.status)}
			if r.status == "" {
				in.Status = nil
			}
			in.Probes = byID(in.Status, r.probes)
			in.Resizes = byID(in.Status, r.resizes)
			in.Asked = askedFor(in.Status, r.asked)
			plan := actions.Compute(in)
			if got := say(plan, r.pod); got != r.want {
				t.Errorf("%s\n got %q\nwant %q", r.status, got, r.want)
			}
			if plan.Empty() != (r.want == "") {
				t.Errorf("Empty() = %v for %q", plan.Empty(), r.want)
			}
		})
	}
}

// spec/runtime.md 5.
func TestSandboxRows(t *testing.T) {
	host := func(p *v1.Pod) { p.Spec.HostNetwork = true }
	check(t, []row{
		{rule: "5.1 none", pod: pod(always, "", "a"), want: "kill pod, sandbox 0, start a"},
		{rule: "5.2 edge 2: two ready", pod: pod(always, "", "a"), status: "s0:ready s1:ready", want: "kill pod, sandbox 2 for s1, start a"},
		{rule: "5.3 not ready", pod: pod(always, "", "a"), status: "s4:dead", want: "kill pod, sandbox 5 for s4, start a"},
		{rule: "5.3 older ready", pod: pod(always, "", "a"), status: "s4:ready s5:dead", want: "kill pod, sandbox 6 for s5, start a"},
		{rule: "5.4 network mode", pod: pod(always, "", "a"), change: host, status: "s0:ready", want: "kill pod, sandbox 1, start a"},
		{rule: "5.4 other way", pod: pod(always, "", "a"), status: "s0:host", want: "kill pod, sandbox 1, start a"},
		{rule: "5.5 lost address", pod: pod(always, "", "a"), status: "s0:noip", want: "kill pod, sandbox 1 for s0, start a"},
		{rule: "5.6 else", pod: pod(always, "", "a"), status: "s0:ready a=running", want: ""},
		{rule: "6.10 host network has no address", pod: pod(always, "", "a"), change: host, status: "s0:host a=running", want: ""},
		{rule: "5.6 older dead ones do not matter", pod: pod(always, "", "a"), status: "s0:dead s1:ready a=running", want: ""},
	})
}

// spec/runtime.md 6.2.
func TestNewSandbox(t *testing.T) {
	check(t, []row{
		{rule: "6.2a Never has run", pod: pod(never, "", "a"), status: "s0:dead a=exited:1", want: "kill pod"},
		{rule: "6.2a edge 4: nothing ever created", pod: pod(never, "", "a"), status: "s0:dead", want: "kill pod, sandbox 1 for s0, start a"},
		{rule: "6.2a Never, records but no sandbox", pod: pod(never, "", "a"), status: "a=exited:1", want: "kill pod"},
		{rule: "6.2b edge 3: all succeeded", pod: pod(onFailure, "i", "a b"), status: "s0:dead i=exited:0 a=exited:0 b=exited:0", want: "kill pod"},
		{rule: "6.2b own policy", pod: pod(always, "", "a"), change: own(v1.ContainerRestartPolicyOnFailure), status: "s0:dead a=exited:0", want: "kill pod"},
		{rule: "6.2c init first", pod: pod(always, "i j", "a"), status: "s0:dead i=exited:0 j=exited:0 a=running", want: "kill pod, sandbox 1 for s0, start i"},
		{rule: "6.2d succeeded run-once stays", pod: pod(onFailure, "", "a b"), status: "s0:dead a=exited:0 b=exited:1", want: "kill pod, sandbox 1 for s0, start b"},
		{rule: "6.2d Always starts all", pod: pod(always, "", "a b"), status: "s0:dead a=exited:0 b=running", want: "kill pod, sandbox 1 for s0, start a, start b"},
		{rule: "6.2d own policy Never has ended", pod: pod(always, "", "a b"), change: own(v1.ContainerRestartPolicyNever), status: "s0:dead a=exited:1 b=exited:1", want: "kill pod, sandbox 1 for s0, start b"},
		{rule: "6.2a attempt 0 is no restart", pod: pod(never, "", "a"), status: "a=created", want: "kill pod, sandbox 0, start a"},
		{rule: "6.2d own policy Never would run twice", pod: pod(always, "", "a b"), change: own(v1.ContainerRestartPolicyNever), status: "s0:dead a=running b=running", want: "kill pod, sandbox 1 for s0, start b"},
		{rule: "6.2 being deleted", pod: pod(always, "", "a"), change: deleted, status: "s0:dead a=exited:1", want: "kill pod"},
	})
}

// own gives container a its own policy.
func own(policy v1.ContainerRestartPolicy) func(*v1.Pod) {
	return func(p *v1.Pod) { p.Spec.Containers[0].RestartPolicy = &policy }
}

// rules gives container a restart rules on an exit code.
func rules(policy v1.ContainerRestartPolicy, action v1.ContainerRestartRuleAction, codes ...int32) func(*v1.Pod) {
	return func(p *v1.Pod) {
		p.Spec.Containers[0].RestartPolicy = &policy
		p.Spec.Containers[0].RestartPolicyRules = []v1.ContainerRestartRule{{
			Action: action,
			ExitCodes: &v1.ContainerRestartRuleOnExitCodes{
				Operator: v1.ContainerRestartRuleOnExitCodesOpIn, Values: codes,
			},
		}}
	}
}

// notIn gives container a a rule on every other exit code.
func notIn(policy v1.ContainerRestartPolicy, codes ...int32) func(*v1.Pod) {
	return func(p *v1.Pod) {
		rules(policy, v1.ContainerRestartRuleActionRestart, codes...)(p)
		p.Spec.Containers[0].RestartPolicyRules[0].ExitCodes.Operator = v1.ContainerRestartRuleOnExitCodesOpNotIn
	}
}

// spec/runtime.md 6.1, seen through app containers of a kept sandbox (6.7); a
// second container keeps the pod alive.
func TestRestartPredicate(t *testing.T) {
	restart := v1.ContainerRestartRuleActionRestart
	check(t, []row{
		{rule: "6.1 being deleted", pod: pod(always, "", "a b"), change: deleted, status: "s0:ready a=exited:1 b=running"},
		{rule: "6.1 deleted, all ended", pod: pod(always, "", "a"), change: deleted, status: "s0:ready a=exited:1", want: "kill pod"},
		{rule: "6.1 no status", pod: pod(never, "", "a b"), status: "s0:ready b=running", want: "start a"},
		{rule: "6.1 running", pod: pod(always, "", "a b"), status: "s0:ready a=running b=running"},
		{rule: "6.1 edge 9: created", pod: pod(never, "", "a b"), status: "s0:ready a=created b=running", want: "start a"},
		{rule: "6.1 edge 10: unknown", pod: pod(always, "", "a b"), status: "s0:ready a=unknown b=running", want: "kill a ContainerStateUnknown+, start a"},
		{rule: "6.1 Always 0", pod: pod(always, "", "a b"), status: "s0:ready a=exited:0 b=running", want: "start a"},
		{rule: "6.1 empty policy", pod: pod("", "", "a b"), status: "s0:ready a=exited:0 b=running", want: "start a"},
		{rule: "6.1 OnFailure 0", pod: pod(onFailure, "", "a b"), status: "s0:ready a=exited:0 b=running"},
		{rule: "6.1 OnFailure 1", pod: pod(onFailure, "", "a b"), status: "s0:ready a=exited:1 b=running", want: "start a"},
		{rule: "6.1 Never 1", pod: pod(never, "", "a b"), status: "s0:ready a=exited:1 b=running"},
		{rule: "6.1 own Always", pod: pod(never, "", "a b"), change: own(v1.ContainerRestartPolicyAlways), status: "s0:ready a=exited:0 b=running", want: "start a"},
		{rule: "6.1 own Never", pod: pod(always, "", "a b"), change: own(v1.ContainerRestartPolicyNever), status: "s0:ready a=exited:1 b=running"},
		{rule: "6.1 rule matches", pod: pod(never, "", "a b"), change: rules(v1.ContainerRestartPolicyNever, restart, 42), status: "s0:ready a=exited:42 b=running", want: "start a"},
		{rule: "6.1 rule does not match", pod: pod(never, "", "a b"), change: rules(v1.ContainerRestartPolicyNever, restart, 42), status: "s0:ready a=exited:41 b=running"},
		{rule: "6.1 NotIn matches what is not listed", pod: pod(never, "", "a b"), change: notIn(v1.ContainerRestartPolicyNever, 42), status: "s0:ready a=exited:41 b=running", want: "start a"},
		{rule: "6.1 NotIn does not match what is", pod: pod(never, "", "a b"), change: notIn(v1.ContainerRestartPolicyNever, 42), status: "s0:ready a=exited:42 b=running"},
		{rule: "6.1 no rule matches: own policy", pod: pod(never, "", "a b"), change: rules(v1.ContainerRestartPolicyOnFailure, restart, 42), status: "s0:ready a=exited:1 b=running", want: "start a"},
		{rule: "6.1 a rule without codes never matches", pod: pod(never, "", "a b"), change: func(p *v1.Pod) {
			rules(v1.ContainerRestartPolicyNever, restart)(p)
			p.Spec.Containers[0].RestartPolicyRules[0].ExitCodes = nil
		}, status: "s0:ready a=exited:0 b=running"},
		{rule: "6.1 rules without own policy are not considered", pod: pod(never, "", "a b"), change: func(p *v1.Pod) {
			rules(v1.ContainerRestartPolicyNever, restart, 42)(p)
			p.Spec.Containers[0].RestartPolicy = nil
		}, status: "s0:ready a=exited:42 b=running"},
		{rule: "6.1 the first rule that matches decides", pod: pod(never, "", "a b"), change: func(p *v1.Pod) {
			rules(v1.ContainerRestartPolicyNever, restart, 42)(p)
			p.Spec.Containers[0].RestartPolicyRules = append(p.Spec.Containers[0].RestartPolicyRules, v1.ContainerRestartRule{
				Action:    v1.ContainerRestartRuleActionRestartAllContainers,
				ExitCodes: &v1.ContainerRestartRuleOnExitCodes{Operator: v1.ContainerRestartRuleOnExitCodesOpIn, Values: []int32{42}},
			})
		}, status: "s0:ready a=exited:42 b=running", want: "start a"},
		{rule: "6.1 own OnFailure", pod: pod(always, "", "a b"), change: own(v1.ContainerRestartPolicyOnFailure), status: "s0:ready a=exited:0 b=running"},
		{rule: "6.1 the newest record counts", pod: pod(onFailure, "", "a b"), status: "s0:ready a=exited:1 a=exited:0 b=running"},
	})
}

// spec/runtime.md 6.3.
func TestEphemeralContainersStartOnce(t *testing.T) {
	add := func(p *v1.Pod) {
		p.Spec.EphemeralContainers = []v1.EphemeralContainer{
			{EphemeralContainerCommon: v1.EphemeralContainerCommon{Name: "e"}},
		}
	}
	check(t, []row{
		{rule: "6.3 no status", pod: pod(always, "", "a"), change: add, status: "s0:ready a=running", want: "ephemeral e"},
		{rule: "6.3 never again", pod: pod(always, "", "a"), change: add, status: "s0:ready a=running e=exited:1"},
		{rule: "6.3 created, never started", pod: pod(always, "", "a"), change: add, status: "s0:ready a=running e=created", want: "ephemeral e"},
		{rule: "6.3 before init is done", pod: pod(always, "i", "a"), change: add, status: "s0:ready i=running", want: "ephemeral e"},
		{rule: "6.3 not into a pod that ends", pod: pod(never, "i", "a"), change: add, status: "s0:ready i=exited:1", want: "kill pod"},
	})
}

// spec/runtime.md 6.4.
func TestInitContainersRunInOrder(t *testing.T) {
	check(t, []row{
		{rule: "6.4 first", pod: pod(always, "i j", "a"), status: "s0:ready", want: "start i"},
		{rule: "6.4 running: wait", pod: pod(always, "i j", "a"), status: "s0:ready i=running"},
		{rule: "6.4 created", pod: pod(always, "i j", "a"), status: "s0:ready i=created", want: "start i"},
		{rule: "6.4 next", pod: pod(always, "i j", "a"), status: "s0:ready i=exited:0", want: "start j"},
		{rule: "6.4 done", pod: pod(always, "i j", "a"), status: "s0:ready i=exited:0 j=exited:0", want: "start a"},
		{rule: "6.4 failed, again", pod: pod(onFailure, "i j", "a"), status: "s0:ready i=exited:1", want: "start i"},
		{rule: "6.4 failed, Never", pod: pod(never, "i j", "a"), status: "s0:ready i=exited:1", want: "kill pod"},
		{rule: "edge 1: OOMKilled with code 0", pod: pod(never, "i", "a"), status: "s0:ready i=exited:0:OOMKilled", want: "kill pod"},
		{rule: "6.4 OOMKilled with code 0 is a failure", pod: pod(onFailure, "i j", "a"), status: "s0:ready i=exited:0:OOMKilled", want: "start i"},
		{rule: "6.4 unknown", pod: pod(onFailure, "i", "a"), status: "s0:ready i=unknown", want: "kill i ContainerStateUnknown+, start i"},
		{rule: "6.4 unknown, Never", pod: pod(never, "i", "a"), status: "s0:ready i=unknown", want: "kill pod"},
		{rule: "6.4 past ones do not matter", pod: pod(never, "i j", "a"), status: "s0:ready i=exited:1 j=running"},
		{rule: "edge 7: record lost after apps began", pod: pod(always, "i", "a"), status: "s0:ready a=running"},
		{rule: "edge 7: a lost sidecar starts", pod: pod(always, "i s*", "a"), status: "s0:ready i=exited:0 a=running", want: "start s"},
		{rule: "6.4 created app counts as begun", pod: pod(always, "i", "a"), status: "s0:ready a=created", want: "start a"},
		{rule: "6.4 app created in an older sandbox does not", pod: pod(always, "i", "a"), status: "s0:dead a=created s1:ready", want: "start i"},
		{rule: "6.4 exited app does not", pod: pod(always, "i", "a"), status: "s0:ready a=exited:1", want: "start i"},
		{rule: "6.4 failed init restarts by the pod's policy", pod: pod(always, "i", "a"), status: "s0:ready i=exited:3", want: "start i"},
	})
}

// spec/runtime.md 6.4, 6.5.
func TestSidecarsStartInOrderAndRestart(t *testing.T) {
	startup := func(p *v1.Pod) { p.Spec.InitContainers[0].StartupProbe = &v1.Probe{} }
	liveness := func(p *v1.Pod) { p.Spec.InitContainers[0].LivenessProbe = &v1.Probe{} }
	result := func(startup, liveness proberesult.Result) map[string]actions.Probes {
		return map[string]actions.Probes{"s": {Startup: startup, Liveness: liveness}}
	}
	const unknown, success, failure = proberesult.Unknown, proberesult.Success, proberesult.Failure
	check(t, []row{
		{rule: "6.5 running: next", pod: pod(always, "s* i", "a"), status: "s0:ready s=running", want: "start i"},
		{rule: "6.5 last: done", pod: pod(always, "i s*", "a"), status: "s0:ready i=exited:0 s=running", want: "start a"},
		{rule: "6.4 exited: again", pod: pod(never, "s* i", "a"), status: "s0:ready s=exited:0 i=running", want: "start s"},
		{rule: "6.4 failed: again", pod: pod(never, "s*", "a"), status: "s0:ready s=exited:1 a=running", want: "start s"},
		{rule: "6.4 created: again", pod: pod(always, "s*", "a"), status: "s0:ready s=created", want: "start s"},
		{rule: "6.4 unknown", pod: pod(never, "s*", "a"), status: "s0:ready s=unknown a=running", want: "kill s ContainerStateUnknown+, start s"},
		{rule: "6.4 two lost ones start in order", pod: pod(always, "s* t*", "a"), status: "s0:ready a=running", want: "start s, start t"},
		{rule: "6.5 i: no result yet", pod: pod(always, "s*", "a"), change: startup, status: "s0:ready s=running", probes: map[string]actions.Probes{}},
		{rule: "6.5 i: unknown", pod: pod(always, "s*", "a"), change: startup, status: "s0:ready s=running", probes: result(unknown, unknown)},
		{rule: "6.5 i: failure", pod: pod(always, "s*", "a"), change: startup, status: "s0:ready s=running", probes: result(failure, unknown), want: "kill s StartupProbe+, start s"},
		{rule: "6.5 ii: success", pod: pod(always, "s*", "a"), change: startup, status: "s0:ready s=running", probes: result(success, unknown), want: "start a"},
		{rule: "edge 8: no result, apps run", pod: pod(always, "s*", "a"), change: startup, status: "s0:ready s=running a=running", probes: map[string]actions.Probes{}},
		{rule: "no probe runs", pod: pod(always, "s*", "a"), change: startup, status: "s0:ready s=running", want: "start a"},
		{rule: "6.5 iii: changed", pod: pod(always, "s* i", "a"), status: "s0:ready s=changed", want: "kill s ContainerChanged+, start s, start i"},
		{rule: "6.5 iv: liveness", pod: pod(always, "s*", "a"), change: liveness, status: "s0:ready s=running a=running", probes: result(unknown, failure), want: "kill s LivenessProbe+, start s"},
		{rule: "6.5 iv: no liveness result", pod: pod(always, "s*", "a"), change: liveness, status: "s0:ready s=running a=running", probes: map[string]actions.Probes{}},
	})
}

// spec/runtime.md 6.6, 6.7, 6.8.
func TestAppContainersFollowTheirPolicy(t *testing.T) {
	probes := func(p *v1.Pod) {
		p.Spec.Containers[0].LivenessProbe, p.Spec.Containers[0].StartupProbe = &v1.Probe{}, &v1.Probe{}
	}
	result := func(startup, liveness proberesult.Result) map[string]actions.Probes {
		return map[string]actions.Probes{"a": {Startup: startup, Liveness: liveness}}
	}
	const unknown, success, failure = proberesult.Unknown, proberesult.Success, proberesult.Failure
	check(t, []row{
		{rule: "6.6 init not done", pod: pod(always, "i", "a"), status: "s0:ready i=running a=exited:1"},
		{rule: "6.7 edge 6: changed under Never", pod: pod(never, "", "a"), status: "s0:ready a=changed", want: "kill a ContainerChanged+, start a"},
		{rule: "6.7 liveness", pod: pod(always, "", "a"), change: probes, status: "s0:ready a=running", probes: result(success, failure), want: "kill a LivenessProbe+, start a"},
		{rule: "6.7 startup", pod: pod(onFailure, "", "a"), change: probes, status: "s0:ready a=running", probes: result(failure, unknown), want: "kill a StartupProbe+, start a"},
		{rule: "6.7 liveness under Never", pod: pod(never, "", "a b"), change: probes, status: "s0:ready a=running b=running", probes: result(success, failure), want: "kill a LivenessProbe"},
		{rule: "6.7 own policy Never", pod: pod(always, "", "a b"), change: func(p *v1.Pod) { probes(p); own(v1.ContainerRestartPolicyNever)(p) }, status: "s0:ready a=running b=running", probes: result(success, failure), want: "kill a LivenessProbe"},
		{rule: "6.7 changed comes first", pod: pod(always, "", "a"), change: probes, status: "s0:ready a=changed", probes: result(failure, failure), want: "kill a ContainerChanged+, start a"},
		{rule: "6.7 no startup result does not hold an app", pod: pod(always, "", "a"), change: probes, status: "s0:ready a=running", probes: map[string]actions.Probes{}},
		{rule: "6.8 all ended", pod: pod(never, "", "a b"), status: "s0:ready a=exited:0 b=exited:1", want: "kill pod"},
		{rule: "6.8 sidecars do not hold the pod", pod: pod(never, "s*", "a"), status: "s0:ready s=exited:0 a=exited:0", want: "kill pod"},
		{rule: "6.8 unless an app container returns", pod: pod(onFailure, "s*", "a b"), status: "s0:ready s=exited:0 a=exited:0 b=exited:1", want: "start s"},
		{rule: "6.8 or ended in an older sandbox, before another one ran", pod: pod(never, "s*", "a b"), status: "s0:dead a=exited:0 s1:ready s=exited:0", want: "start s"},
		{rule: "6.8 nor does one that has not started", pod: pod(never, "s*", "a"), change: func(p *v1.Pod) { p.Spec.InitContainers[0].StartupProbe = &v1.Probe{} }, status: "s0:ready s=running a=exited:0", probes: map[string]actions.Probes{}, want: "kill pod"},
		{rule: "6.8 running sidecar", pod: pod(onFailure, "s*", "a"), status: "s0:ready s=running a=exited:0", want: "kill pod"},
		{rule: "6.8 the only one fails its probe under Never", pod: pod(never, "", "a"), change: probes, status: "s0:ready a=running", probes: result(success, failure), want: "kill pod, kill a LivenessProbe"},
		{rule: "6.8 unless its exit may bring it back", pod: pod(never, "i", "a"), change: func(p *v1.Pod) { probes(p); notIn(v1.ContainerRestartPolicyNever, 0)(p) }, status: "s0:ready i=exited:0 a=running", probes: result(success, failure), want: "kill a LivenessProbe"},
		{rule: "6.8 it exited, and its rule matches", pod: pod(never, "i", "a"), change: notIn(v1.ContainerRestartPolicyNever, 0), status: "s0:ready i=exited:0 a=exited:143", want: "start a"},
		{rule: "6.8 it exited, and no rule matches", pod: pod(never, "i", "a"), change: notIn(v1.ContainerRestartPolicyNever, 0), status: "s0:ready i=exited:0 a=exited:0", want: "kill pod"},
		{
			rule: "6.8, 6.9 or restart all of them", pod: pod(never, "s*", "a"), change: func(p *v1.Pod) {
				probes(p)
				rules(v1.ContainerRestartPolicyNever, v1.ContainerRestartRuleActionRestartAllContainers, 143)(p)
			},
			status: "s0:ready s=running a=running", probes: result(failure, unknown), want: "kill a StartupProbe",
		},
		{rule: "6.8, 16.1 (3) it and a sidecar", pod: pod(never, "s*", "a"), change: probes, status: "s0:ready s=changed a=running", probes: result(failure, unknown), want: "kill pod, kill a StartupProbe"},
	})
}

// spec/runtime.md 6.9.
func TestRestartAll(t *testing.T) {
	restartAll := rules(v1.ContainerRestartPolicyNever, v1.ContainerRestartRuleActionRestartAllContainers, 9)
	onSidecar := func(p *v1.Pod) {
		restartAll(p)
		p.Spec.InitContainers[1].RestartPolicyRules = p.Spec.Containers[0].RestartPolicyRules
		p.Spec.Containers[0].RestartPolicyRules = nil
	}
	check(t, []row{
		{
			rule: "6.9 order", pod: pod(never, "i s*", "a b"), change: restartAll,
			status: "s0:ready i=exited:0 s=running a=exited:1 a=exited:9 b=running",
			want:   "reset b, reset i, reset s, reset a, reset a",
		},
		{
			rule: "edge 30: a sidecar is the source", pod: pod(never, "i s*", "a b"), change: onSidecar,
			status: "s0:ready i=exited:0 s=exited:9 a=running b=running",
			want:   "reset a, reset b, reset i, reset s",
		},
		{rule: "6.9 other code", pod: pod(never, "", "a b"), change: restartAll, status: "s0:ready a=exited:8 b=running"},
		{rule: "6.9 an older exit is past", pod: pod(never, "", "a b"), change: restartAll, status: "s0:ready a=exited:9 a=running b=running"},
		{
			rule: "6.9 being deleted", pod: pod(never, "", "a b"),
			change: func(p *v1.Pod) { restartAll(p); deleted(p) }, status: "s0:ready a=exited:9 b=running",
		},
		{
			rule: "6.9 ephemeral containers stay", pod: pod(never, "", "a"), change: func(p *v1.Pod) {
				restartAll(p)
				p.Spec.EphemeralContainers = []v1.EphemeralContainer{{EphemeralContainerCommon: v1.EphemeralContainerCommon{Name: "e"}}}
			},
			status: "s0:ready e=running a=exited:9", want: "reset a",
		},
	})
}

// A pod at rest costs no allocation.
func TestComputeAllocatesNothing(t *testing.T) {
	in := atRest()
	if n := testing.AllocsPerRun(100, func() { actions.Compute(in) }); n != 0 {
		t.Errorf("Compute allocates %v times", n)
	}
}

// atRest is a pod with 3 init containers, 2 sidecars and 5 apps, all well.
func atRest() actions.Input {
	p := pod(always, "i1 i2 i3 s1* s2*", "a1 a2 a3 a4 a5")
	s := status("s0:ready i1=exited:0 i2=exited:0 i3=exited:0 s1=running s2=running a1=running a2=running a3=running a4=running a5=running")
	return actions.Input{Pod: p, Status: s}
}

func BenchmarkComputeActions(b *testing.B) {
	in := atRest()
	if plan := actions.Compute(in); !plan.Empty() {
		b.Fatal(say(plan, in.Pod))
	}
	b.ReportAllocs()
	for b.Loop() {
		actions.Compute(in)
	}
}

func ExampleCompute() {
	p := pod(always, "migrate", "web")
	plan := actions.Compute(actions.Input{Pod: p, Status: status("s0:ready migrate=exited:0")})
	fmt.Println(say(plan, p))
	// Output: start web
}
