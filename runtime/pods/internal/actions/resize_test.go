package actions_test

import (
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/internal/proberesult"
	"github.com/podwright/podwright/runtime"
	"github.com/podwright/podwright/runtime/pods/internal/actions"
)

// spec/runtime.md 6.4, 6.5 v, 6.7: what new resources of a running container
// lead to, and what comes before them.
func TestResizeYieldsToOtherReasonsToRestart(t *testing.T) {
	const place, restart = actions.ResizeInPlace, actions.ResizeRestart
	liveness := func(p *v1.Pod) {
		p.Spec.Containers[0].LivenessProbe = &v1.Probe{}
		if len(p.Spec.InitContainers) > 0 {
			p.Spec.InitContainers[0].LivenessProbe = &v1.Probe{}
		}
	}
	failed := func(name string) map[string]actions.Probes {
		return map[string]actions.Probes{name: {Liveness: proberesult.Failure}}
	}
	check(t, []row{
		{rule: "6.7 in place", pod: pod(always, "", "a b"), status: "s0:ready a=running b=running", want: "resize b", resizes: map[string]actions.Resize{"b": place}},
		{rule: "6.7 restart", pod: pod(always, "", "a b"), status: "s0:ready a=running b=running", want: "kill b ContainerResized+, start b, resize pod", resizes: map[string]actions.Resize{"b": restart}},
		{rule: "6.7 restart under Never", pod: pod(never, "", "a"), status: "s0:ready a=running", want: "kill a ContainerResized+, start a, resize pod", resizes: map[string]actions.Resize{"a": restart}},
		{rule: "6.7 in place keeps the pod", pod: pod(never, "", "a"), status: "s0:ready a=running", want: "resize a", resizes: map[string]actions.Resize{"a": place}},
		{rule: "6.7 changed comes before", pod: pod(always, "", "a"), status: "s0:ready a=changed", want: "kill a ContainerChanged+, start a", resizes: map[string]actions.Resize{"a": restart}},
		{rule: "6.7 liveness comes before", pod: pod(always, "", "a"), change: liveness, probes: failed("a"), status: "s0:ready a=running", want: "kill a LivenessProbe+, start a", resizes: map[string]actions.Resize{"a": place}},
		{rule: "6.5 v in place", pod: pod(always, "s*", "a"), status: "s0:ready s=running a=running", want: "resize s", resizes: map[string]actions.Resize{"s": place}},
		{rule: "6.5 v restart", pod: pod(always, "s*", "a"), status: "s0:ready s=running a=running", want: "kill s ContainerResized+, start s, resize pod", resizes: map[string]actions.Resize{"s": restart}},
		{rule: "6.5 iv comes before v", pod: pod(always, "s*", "a"), change: liveness, probes: failed("s"), status: "s0:ready s=running a=running", want: "kill s LivenessProbe+, start s", resizes: map[string]actions.Resize{"s": restart}},
		{rule: "6.5 iii comes before v", pod: pod(always, "s*", "a"), status: "s0:ready s=changed a=running", want: "kill s ContainerChanged+, start s", resizes: map[string]actions.Resize{"s": place}},
		{rule: "6.5 v several, in order", pod: pod(always, "s* t*", "a"), status: "s0:ready s=running t=running a=running", want: "resize s, resize t, resize a", resizes: map[string]actions.Resize{"s": place, "t": place, "a": place}},
		{rule: "6.4 running init in place", pod: pod(always, "i", "a"), status: "s0:ready i=running", want: "resize i", resizes: map[string]actions.Resize{"i": place}},
		{rule: "6.4 running init is not restarted", pod: pod(always, "i", "a"), status: "s0:ready i=running", resizes: map[string]actions.Resize{"i": restart}},
		{rule: "6.8 a pod that ends is not resized", pod: pod(never, "s*", "a"), status: "s0:ready s=running a=exited:0", want: "kill pod", resizes: map[string]actions.Resize{"s": place}},
		{rule: "6.1 nor one that is being deleted", pod: pod(never, "s*", "a"), change: deleted, status: "s0:ready s=running a=running", resizes: map[string]actions.Resize{"s": place, "a": restart}},
	})
}

// byID turns names into the newest records' IDs.
func byID[V any](s *runtime.PodStatus, byName map[string]V) map[runtime.ContainerID]V {
	if byName == nil {
		return nil
	}
	out := map[runtime.ContainerID]V{}
	for name, v := range byName {
		if c := s.Container(name); c != nil {
			out[c.ID] = v
		}
	}
	return out
}
