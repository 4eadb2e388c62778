package status

import (
	"errors"
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/podwright/podwright/internal/podinfo"
)

// TestLeavingTerminated is the table under spec/status.md 7.5.
func TestLeavingTerminated(t *testing.T) {
	restartAll := func(p *v1.Pod) {
		p.Spec.Containers[0].RestartPolicyRules = []v1.ContainerRestartRule{{Action: v1.ContainerRestartRuleActionRestartAllContainers}}
	}
	restartOn0 := func(p *v1.Pod) {
		restartOn42(p)
		p.Spec.Containers[0].RestartPolicyRules[0].ExitCodes.Values = []int32{0}
	}
	for _, test := range []struct {
		rule   string
		policy v1.RestartPolicy
		change podOption
		before string
		after  string
		legal  bool
	}{
		{rule: "Always", policy: always, before: "A T0", after: "A R", legal: true},
		{rule: "some rule restarts all", policy: never, change: restartAll, before: "A T0", after: "A R", legal: true},
		{rule: "OnFailure, failed", policy: onFailure, before: "A T1", after: "A R", legal: true},
		{rule: "edge 7: OnFailure, exit 0", policy: onFailure, before: "A T0", after: "A W"},
		{rule: "IN5: what runs is believed", policy: onFailure, before: "A T0", after: "A R", legal: true},
		{rule: "IN5: also under Never", policy: never, before: "A T0, A T1", after: "A R, A R", legal: true},
		{rule: "IN5: but not beside another", policy: never, before: "A T0, A T1", after: "A R, A W"},
		{rule: "edge 8: container rule", policy: onFailure, change: restartOn0, before: "A T0", after: "A R", legal: true},
		{rule: "container rule, other code", policy: never, change: restartOn42, before: "A T1", after: "A W"},
		{rule: "Never", policy: never, before: "A T1", after: "A W"},
		{rule: "Never, empty state", policy: never, before: "A T1", after: "A E"},
		{rule: "Never, second container", policy: never, before: "A R, A T1", after: "A R, A W"},
		{rule: "Never, stays terminated", policy: never, before: "A T1", after: "A T0", legal: true},
		{rule: "Never, status vanished", policy: never, before: "A T1, A R", after: "A -, A R", legal: true},
		{rule: "sidecar", policy: never, before: "S T1, A R", after: "S R, A R", legal: true},
		{rule: "regular init", policy: never, before: "I T1, A W", after: "I W, A W"},
		{rule: "IN5: regular init that runs", policy: never, before: "I T1, A W", after: "I R, A W", legal: true},
		{rule: "regular init, OnFailure", policy: onFailure, before: "I T1, A W", after: "I R, A W", legal: true},
	} {
		t.Run(test.rule, func(t *testing.T) {
			pod := newPod(policy(test.policy))
			before := scene(pod, test.before)
			after := scene(newPod(), test.after)
			if test.change != nil {
				test.change(pod)
			}
			err := checkTransitions(pod, before, after)
			if (err == nil) != test.legal {
				t.Errorf("error %v, legal should be %t", err, test.legal)
			}
			var typed *transitionError
			if err != nil && !errors.As(fmt.Errorf("twice: %w", fmt.Errorf("wrapped: %w", err)), &typed) {
				t.Errorf("%T is not a transitionError", err)
			}
		})
	}
}

// TestInitContainerRunsAgainInNewSandbox: IN5: a new container may take the place of an init
// container that has ended, even before it runs; an app container that has ended for good
// stays so.
func TestInitContainerRunsAgainInNewSandbox(t *testing.T) {
	pod := newPod(policy(onFailure))
	before := scene(pod, "I T0, A T0")
	after := scene(newPod(), "I W, A T0")
	after.InitContainerStatuses[0].ContainerID = id("i0", 1).String()
	if err := checkTransitions(pod, before, after); err != nil {
		t.Error(err)
	}
	after = scene(newPod(), "I T0, A W")
	after.ContainerStatuses[0].ContainerID = id("a1", 1).String()
	if err := checkTransitions(pod, before, after); err == nil {
		t.Error("an app container left Terminated")
	}
}

// TestInitContainerLeavesAKillForMemory: an init container that the kernel killed for its memory use
// has failed, also with code 0, and may run again under OnFailure; an app container may not.
func TestInitContainerLeavesAKillForMemory(t *testing.T) {
	pod := newPod(policy(onFailure))
	before := scene(pod, "I T0, A T0")
	before.InitContainerStatuses[0].State.Terminated.Reason = "OOMKilled"
	before.ContainerStatuses[0].State.Terminated.Reason = "OOMKilled"
	if err := checkTransitions(pod, before, scene(newPod(), "I W0, A T0")); err != nil {
		t.Error(err)
	}
	if err := checkTransitions(pod, before, scene(newPod(), "I T0, A W0")); err == nil {
		t.Error("an app container left Terminated")
	}
	pod.Spec.RestartPolicy = never
	if err := checkTransitions(pod, before, scene(newPod(), "I W0, A T0")); err == nil {
		t.Error("an init container left Terminated under Never")
	}
	pod.Spec.InitContainers[0].RestartPolicy = ptr.To(v1.ContainerRestartPolicyOnFailure)
	if err := checkTransitions(pod, before, scene(newPod(), "I W0, A T0")); err != nil {
		t.Error(err)
	}
}

// TestAPIKeepsEnds (8.4): an API server refuses a status in which a container has left Terminated although its exit code does not
// allow it to run again, so an API is told of that container once it has ended again.
func TestAPIKeepsEnds(t *testing.T) {
	restartAll := func(p *v1.Pod) {
		p.Spec.Containers[0].RestartPolicyRules = []v1.ContainerRestartRule{{Action: v1.ContainerRestartRuleActionRestartAllContainers}}
	}
	onceOnly := func(p *v1.Pod) { p.Spec.Containers[0].RestartPolicy = ptr.To(v1.ContainerRestartPolicyNever) }
	for name, test := range map[string]struct {
		policy             v1.RestartPolicy
		change             podOption
		base, ours, stored string
	}{
		"a new sandbox, OnFailure":  {onFailure, nil, "I T0, A T1", "I R, A W1", "I T0, A W1"},
		"a new sandbox, Never":      {never, nil, "I T0, A W", "I W, A W", "I T0, A W"},
		"a new sandbox, Always":     {always, nil, "I T0, A T1", "I R, A W1", "I R, A W1"},
		"it has ended again":        {onFailure, nil, "I T0, A W", "I T1, A W", "I T1, A W"},
		"it failed, OnFailure":      {onFailure, nil, "I T1, A W", "I R, A W", "I R, A W"},
		"a sidecar":                 {never, nil, "S T1, A R", "S R, A R", "S R, A R"},
		"an app container, Never":   {never, nil, "A T0, A T1", "A R, A R", "A T0, A T1"},
		"a policy of its own":       {always, onceOnly, "A T1, A T1", "A R, A R", "A T1, A R"},
		"some rule restarts all":    {never, restartAll, "A T0", "A R", "A R"},
		"the API has not seen it":   {never, nil, "I R, A W", "I R, A W", "I R, A W"},
		"the API has no status yet": {never, nil, "I -, A -", "I R, A W", "I R, A W"},
	} {
		t.Run(name, func(t *testing.T) {
			pod := newPod(policy(test.policy))
			base, ours, want := scene(pod, test.base), scene(newPod(), test.ours), scene(newPod(), test.stored)
			if test.change != nil {
				test.change(pod)
			}
			kept := *ours
			keepEnds(pod, base, &kept)
			if !equalStatus(want, &kept, 0) {
				t.Errorf("%+v\n%+v", kept.InitContainerStatuses, kept.ContainerStatuses)
			}
			if !equalStatus(scene(newPod(), test.ours), ours, 0) {
				t.Error("the engine's own status was changed")
			}
		})
	}
}

// TestInitStatusesMatchTheSpec: below the table in 7.5.
func TestInitStatusesMatchTheSpec(t *testing.T) {
	pod := newPod(inits("i0", "i1"), apps("a"), debuggers("d"))
	list := func(names ...string) *v1.PodStatus {
		s := &v1.PodStatus{}
		for _, n := range names {
			s.InitContainerStatuses = append(s.InitContainerStatuses, *state(n, "R"))
		}
		return s
	}
	for _, test := range []struct {
		names []string
		legal bool
	}{
		{nil, true},
		{[]string{"i0"}, true},
		{[]string{"i0", "i1"}, true},
		{[]string{"i0", "x"}, false},
		{[]string{"i0", "i0"}, false},
	} {
		if err := checkTransitions(pod, &v1.PodStatus{}, list(test.names...)); (err == nil) != test.legal {
			t.Errorf("%q: %v", test.names, err)
		}
	}
	t.Run("ephemeral ones are not checked", func(t *testing.T) {
		pod.Spec.RestartPolicy = never
		before := &v1.PodStatus{EphemeralContainerStatuses: []v1.ContainerStatus{*state("d", "T1")}}
		after := &v1.PodStatus{EphemeralContainerStatuses: []v1.ContainerStatus{*state("d", "R")}}
		if err := checkTransitions(pod, before, after); err != nil {
			t.Error(err)
		}
	})
}

// TestTerminationLimit: 7.5, edge 16.
func TestTerminationLimit(t *testing.T) {
	for containers, want := range map[int]int{1: 12288, 3: 4096, 6: 2048} {
		pod := newPod()
		for i := range containers {
			apps(fmt.Sprint(i))(pod)
		}
		if got := messageLimit(pod); got != want {
			t.Errorf("%d containers: %d bytes, want %d", containers, got, want)
		}
	}
	if got := podinfo.Cut("añb", 2); got != "a" {
		t.Errorf("cut %q: a character was split", got)
	}
}
