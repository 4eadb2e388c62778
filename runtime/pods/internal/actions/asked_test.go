package actions_test

import (
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/internal/proberesult"
	"github.com/podwright/podwright/internal/restarts"
	"github.com/podwright/podwright/runtime"
	"github.com/podwright/podwright/runtime/pods/internal/actions"
)

// askedFor are restarts of the newest runs of containers that a pod had before it was stopped; a container
// that was only created has not run.
func askedFor(s *runtime.PodStatus, names string) *restarts.Asked {
	var runs []restarts.Run
	for name := range strings.FieldsSeq(names) {
		for _, c := range s.Containers {
			if c.Name == name && c.State != runtime.Created {
				runs = append(runs, restarts.Run{Container: name, ID: c.ID.String()})
				break
			}
		}
	}
	if runs == nil {
		return nil
	}
	return &restarts.Asked{Runs: runs}
}

// spec/runtime.md 6.11.
func TestAskedRestarts(t *testing.T) {
	startup := func(p *v1.Pod) { p.Spec.InitContainers[0].StartupProbe = &v1.Probe{} }
	unknown := map[string]actions.Probes{"s": {Startup: proberesult.Unknown}}
	check(t, []row{
		{rule: "all that run", pod: pod(always, "", "a b"), asked: "a b", status: "s0:ready a=running b=running", want: "kill a RestartRequested+, kill b RestartRequested+, start a, start b"},
		{rule: "one of them", pod: pod(onFailure, "", "a b"), asked: "b", status: "s0:ready a=running b=running", want: "kill b RestartRequested+, start b"},
		{rule: "a changed definition is the reason", pod: pod(always, "", "a"), asked: "a", status: "s0:ready a=changed", want: "kill a ContainerChanged+, start a"},
		{rule: "stopped, exit 0 under OnFailure", pod: pod(onFailure, "", "a b"), asked: "a", status: "s0:ready a=exited:0 b=running", want: "start a"},
		{rule: "stopped, the only one", pod: pod(onFailure, "", "a"), asked: "a", status: "s0:ready a=exited:0", want: "start a"},
		{rule: "not asked for: it stays ended", pod: pod(onFailure, "", "a b"), asked: "b", status: "s0:ready a=exited:0 b=exited:0", want: "start b"},
		{rule: "an older run was meant: nothing", pod: pod(onFailure, "", "a b"), asked: "", status: "s0:ready a=exited:0 a=running b=running"},
		{rule: "init does not run again", pod: pod(always, "i s*", "a"), asked: "a s", status: "s0:ready i=exited:0 s=running a=running", want: "kill s RestartRequested+, kill a RestartRequested+, start s, start a"},
		{rule: "nor when its record is gone", pod: pod(always, "i s*", "a"), asked: "a s", status: "s0:ready s=exited:0 a=exited:0", want: "start s, start a"},
		{rule: "a lost sandbox: all begins again", pod: pod(onFailure, "i", "a"), asked: "a", status: "s0:dead i=exited:0 a=exited:0", want: "kill pod, sandbox 1 for s0, start i"},
		{rule: "a lost sandbox, without init", pod: pod(onFailure, "", "a b"), asked: "a", status: "s0:dead a=exited:0 b=exited:0", want: "kill pod, sandbox 1 for s0, start a"},
		{rule: "a sidecar that has not started up", pod: pod(always, "s*", "a"), change: startup, asked: "s", probes: unknown, status: "s0:ready s=running", want: "kill s RestartRequested+, start s"},
		{rule: "a sidecar among init containers", pod: pod(always, "s* i", "a"), asked: "s", status: "s0:ready s=running i=running", want: "kill s RestartRequested+, start s"},
		{rule: "only created since", pod: pod(onFailure, "", "a"), asked: "a", status: "s0:ready a=exited:0 a=created", want: "start a"},
		{rule: "being deleted", pod: pod(always, "", "a"), change: deleted, asked: "a", status: "s0:ready a=running"},
		{rule: "being deleted, stopped", pod: pod(always, "", "a"), change: deleted, asked: "a", status: "s0:ready a=exited:0", want: "kill pod"},
		{
			rule: "its exit is not one of the container's own", pod: pod(always, "", "a b"), asked: "a",
			change: rules(v1.ContainerRestartPolicyNever, v1.ContainerRestartRuleActionRestartAllContainers, 9), status: "s0:ready a=exited:9 b=running", want: "start a",
		},
	})
}
