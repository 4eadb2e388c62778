package main

import (
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podwright/podwright"
	"github.com/podwright/podwright/podworkers"
	"github.com/podwright/podwright/probe"
)

// An operator reads what a pod waits for, not which method of the engine works on it.
func TestPlainly(t *testing.T) {
	for waits, want := range map[string]string{
		"SyncPod to return: pulling image web": "pulling image web",
		"SyncPod to return":                    "a sync of the pod to end",
		"SyncTerminatingPod to return, cancelled because the grace period got shorter": "its containers to stop, cancelled because the grace period got shorter",
		"SyncTerminatingRuntimePod to return":                                          "its containers to stop",
		"SyncTerminatedPod to return":                                                  "what it leaves behind to be removed",
		"a view newer than the last call":                                              "the container runtime to say what it has of the pod",
		"PullImage to return":                                                          "PullImage to return",
		"the next attempt":                                                             "the next attempt",
	} {
		if got := plainly(waits); got != want {
			t.Errorf("%q reads %q, want %q", waits, got, want)
		}
	}
}

// How the run before ended is what an operator asks of a container in a crash loop. A long message is cut, and controls
// no terminal.
func TestExplainTellsTheLastRun(t *testing.T) {
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	pod := &v1.Pod{Status: v1.PodStatus{ContainerStatuses: []v1.ContainerStatus{
		{Name: "first"},
		{Name: "main", LastTerminationState: v1.ContainerState{Terminated: &v1.ContainerStateTerminated{
			ExitCode: 7, Reason: "Error", Message: "no\x1b[31m database\n" + strings.Repeat("x", 1000), FinishedAt: metav1.NewTime(now.Add(-90 * time.Second)),
		}}},
	}}}
	lines := explainLines(&podwright.Explanation{Containers: []podwright.ContainerExplanation{{Name: "first", State: "running"}, {Name: "main", State: "waiting"}}}, pod, now)
	i := slices.Index(lines, "  main: waiting")
	if i < 0 || i+1 >= len(lines) || !strings.HasPrefix(lines[i+1], "    its last run ended 90s ago with code 7; Error: no [31m database xxx") || len(lines[i+1]) > 400 {
		t.Errorf("%q", lines)
	}
	if strings.Count(strings.Join(lines, "\n"), "last run") != 1 {
		t.Errorf("%q", lines)
	}
}

// A startup probe that has passed is not run again, so it has no next time; and errors of several containers are
// told apart.
func TestExplainTellsAHeldProbe(t *testing.T) {
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	lines := explainLines(&podwright.Explanation{
		Worker: &podworkers.Explanation{LastError: "container a: no image\ncontainer b: no secret", Failures: 1},
		Probes: []probe.Explanation{{Container: "side", Kind: "Startup", Result: "Success", LastRun: now.Add(-time.Minute), NextDue: now, Held: "decided for this container"}},
	}, &v1.Pod{}, now)
	for _, want := range []string{
		"  last error, of 1 in a row: container a: no image; container b: no secret",
		"  side startup: Success; last 60s ago",
	} {
		if !slices.Contains(lines, want) {
			t.Errorf("no line %q in %q", want, lines)
		}
	}
}

// A probe that cannot be executed counts for nothing, so its result stays: it must not look like one that works.
func TestExplainTellsAProbeThatCannotRun(t *testing.T) {
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	lines := explainLines(&podwright.Explanation{Probes: []probe.Explanation{{
		Container: "main", Kind: "Liveness", Result: "Success", Broken: true, LastRun: now.Add(-5 * time.Second),
		LastOutput: `container "main" has no port named "nope"`, NextDue: now.Add(3 * time.Second),
	}}}, &v1.Pod{}, now)
	want := []string{"  main liveness: Success; could not be executed, last tried 5s ago; next in 3s", `    container "main" has no port named "nope"`}
	if i := slices.Index(lines, want[0]); i < 0 || i+1 >= len(lines) || lines[i+1] != want[1] {
		t.Errorf("%q, want %q", lines, want)
	}
}

// A resize that waits or is impossible shows, and one that is under way is not worth a line.
func TestExplainTellsAResize(t *testing.T) {
	condition := func(kind v1.PodConditionType, reason, message string) v1.PodCondition {
		return v1.PodCondition{Type: kind, Status: v1.ConditionTrue, Reason: reason, Message: message}
	}
	for want, c := range map[string]v1.PodCondition{
		"  resize: Infeasible: too large": condition(v1.PodResizePending, v1.PodReasonInfeasible, "too large"),
		"  resize: Error: no cgroup":      condition(v1.PodResizeInProgress, v1.PodReasonError, "no cgroup"),
		"":                                condition(v1.PodResizeInProgress, "", ""),
	} {
		lines := explainLines(&podwright.Explanation{}, &v1.Pod{Status: v1.PodStatus{Conditions: []v1.PodCondition{c}}}, time.Now())
		i := slices.IndexFunc(lines, func(l string) bool { return strings.HasPrefix(l, "  resize") })
		if want == "" && i >= 0 || want != "" && !slices.Contains(lines, want) {
			t.Errorf("%q, want %q", lines, want)
		}
	}
}
