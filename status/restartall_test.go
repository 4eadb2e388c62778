package status

import (
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/runtime"
)

// restartAllOn42 gives the first app container a rule that restarts the pod.
func restartAllOn42(p *v1.Pod) {
	restartOn42(p)
	p.Spec.Containers[0].RestartPolicyRules[0].Action = v1.ContainerRestartRuleActionRestartAllContainers
}

// TestRestartAll follows a whole restart: spec/status.md 3.8, 5.9, edge case 12
// of its phase rows in 2.1.
func TestRestartAll(t *testing.T) {
	pod := newPod(policy(never), inits("i"), apps("a", "b"), restartAllOn42)
	step := func(old *v1.PodStatus, records ...*runtime.ContainerStatus) *v1.PodStatus {
		t.Helper()
		s := generate(t, Input{Pod: pod, Runtime: view(records...), Old: old})
		if s.Phase != v1.PodRunning && s.Phase != v1.PodPending {
			t.Fatalf("phase %s", s.Phase)
		}
		return &s
	}
	is := func(s *v1.PodStatus, want v1.ConditionStatus, reason string) {
		t.Helper()
		if c := condition(s, v1.AllContainersRestarting); c.Status != want || c.Reason != reason {
			t.Errorf("%+v, want %s %q", c, want, reason)
		}
	}
	first := step(nil, exited("i", 0, 0), record("a", 0, runtime.Running), record("b", 0, runtime.Running))
	is(first, v1.ConditionFalse, "")
	exit := step(first, exited("i", 0, 0), exited("a", 0, 42), record("b", 0, runtime.Running))
	is(exit, v1.ConditionTrue, "RestartAllContainersStarted")

	t.Run("seen half-way", func(t *testing.T) {
		half := step(exit, exited("a", 0, 42))
		is(half, v1.ConditionTrue, "RestartAllContainersStarted")
		b := half.ContainerStatuses[1]
		if briefOf(&b) != (brief{"W:RestartingAllContainers", "T:137:RestartingAllContainers", 1}) {
			t.Errorf("b: %+v", briefOf(&b))
		}
		gone := step(half)
		is(gone, v1.ConditionFalse, "")
		a := gone.ContainerStatuses[0]
		if briefOf(&a) != (brief{"W:RestartingAllContainers", "T:137:RestartingAllContainers", 1}) {
			t.Errorf("a: %+v", briefOf(&a))
		}
		again := step(gone, exited("i", 1, 0), record("a", 1, runtime.Running), record("b", 1, runtime.Running))
		is(again, v1.ConditionFalse, "")
		if a := again.ContainerStatuses[0]; briefOf(&a) != (brief{"R", "T:137:RestartingAllContainers", 1}) {
			t.Errorf("a again: %+v", briefOf(&a))
		}
	})
	t.Run("no look in between", func(t *testing.T) {
		low := record("b", 1, runtime.Running)
		low.RestartCount = 0
		again := step(exit, exited("i", 1, 0), record("a", 1, runtime.Running), low)
		is(again, v1.ConditionFalse, "")
		a, b := again.ContainerStatuses[0], again.ContainerStatuses[1]
		if briefOf(&a) != (brief{"R", "T:042:Error", 1}) { // the old end, from the status
			t.Errorf("a: %+v", briefOf(&a))
		}
		if briefOf(&b) != (brief{"R", "T:137:RestartingAllContainers", 1}) {
			t.Errorf("b: %+v", briefOf(&b))
		}
	})
	t.Run("some old run is left", func(t *testing.T) {
		is(step(exit, record("b", 0, runtime.Running)), v1.ConditionTrue, "RestartAllContainersStarted")
	})
	t.Run("unknown record", func(t *testing.T) {
		s := step(exit, exited("a", 0, 42), record("b", 0, runtime.Unknown))
		if b := s.ContainerStatuses[1]; briefOf(&b) != (brief{"T:137:RestartingAllContainers", "", 1}) {
			t.Errorf("b: %+v", briefOf(&b))
		}
	})
	t.Run("never while deleting", func(t *testing.T) {
		gone := pod.DeepCopy()
		deleted(gone)
		s := Generate(Input{Pod: gone, Runtime: view(exited("a", 0, 42)), Now: t2})
		is(&s, v1.ConditionFalse, "")
	})
	t.Run("terminal", func(t *testing.T) {
		s := Generate(Input{Pod: pod, Runtime: view(exited("i", 0, 0), exited("a", 0, 42), exited("b", 0, 0)), Terminal: true, Old: exit, Now: t2})
		is(&s, v1.ConditionFalse, "PodFailed")
	})
	t.Run("no such rule, no condition", func(t *testing.T) {
		s := Generate(Input{Pod: newPod(apps("a")), Runtime: view(exited("a", 0, 42)), Now: t2})
		if conditionOf(s.Conditions, v1.AllContainersRestarting) != nil {
			t.Error("there is one")
		}
	})
}

// TestTerminalPodWaitsForNothing: once the containers of a pod have stopped for good, their ends
// show, even if no API asked for it.
func TestTerminalPodWaitsForNothing(t *testing.T) {
	s := generate(t, Input{
		Pod: newPod(apps("c")), Runtime: view(exited("c", 0, 3)), Terminal: true,
		Waiting: map[string]WaitingReason{"c": {Reason: "CrashLoopBackOff"}},
	})
	if got := briefOf(&s.ContainerStatuses[0]); got.State != "T:003:Error" || s.Phase != v1.PodFailed {
		t.Errorf("%+v, phase %s", got, s.Phase)
	}
}
