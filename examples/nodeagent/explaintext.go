package main

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/podwright/podwright"
	"github.com/podwright/podwright/podworkers"
	"github.com/podwright/podwright/probe"
)

// explainLines says in words where a pod stands. What the lines quote is made safe for a terminal.
func explainLines(e *podwright.Explanation, pod *v1.Pod, now time.Time) []string {
	t := &teller{now: now}
	t.say("%s/%s: %s", e.Namespace, e.Name, podStatus(pod))
	t.say("  uid %s, phase %s", e.UID, cmp.Or(string(e.Phase), "not known yet"))
	if e.Reason != "" || e.Message != "" {
		t.say("  %s", joined(": ", e.Reason, e.Message))
	}
	for _, hindrance := range [][2]string{{"held", e.Held}, {"unreadable", e.Unreadable}, {"record", e.Checkpoint}, {"to restart", e.Restart}} {
		if hindrance[1] != "" {
			t.say("  %s: %s", hindrance[0], hindrance[1])
		}
	}
	t.resizes(pod)
	t.worker(e.Worker)
	for _, call := range e.Calls {
		t.say("  runtime: %s", call)
	}
	if len(e.Containers) > 0 {
		t.say("containers:")
	}
	for i := range e.Containers {
		t.container(&e.Containers[i])
		t.lastRun(pod, e.Containers[i].Name)
	}
	if len(e.Probes) > 0 {
		t.say("probes:")
	}
	for i := range e.Probes {
		t.probe(&e.Probes[i])
	}
	t.steps(e.Worker)
	return t.lines
}

// plainly says in words what the engine names by a method of its PodSyncer: what the step does where
// the engine tells, and what it is for where not.
func plainly(waits string) string {
	if waits == "a view newer than the last call" {
		return "the container runtime to say what it has of the pod"
	}
	step, rest, found := strings.Cut(waits, " to return")
	purpose, known := map[string]string{
		"SyncPod":                   "a sync of the pod to end",
		"SyncTerminatingPod":        "its containers to stop",
		"SyncTerminatingRuntimePod": "its containers to stop",
		"SyncTerminatedPod":         "what it leaves behind to be removed",
	}[step]
	if !found || !known {
		return waits
	}
	if does, told := strings.CutPrefix(rest, ": "); told {
		return does
	}
	return purpose + rest
}

// teller collects lines.
type teller struct {
	now   time.Time
	lines []string
}

func (t *teller) say(text string, args ...any) {
	t.lines = append(t.lines, printable(fmt.Sprintf(text, args...)))
}

func (t *teller) ago(at time.Time) string { return duration.HumanDuration(t.now.Sub(at)) + " ago" }

func (t *teller) in(at time.Time) string {
	if !at.After(t.now) {
		return "now"
	}
	return "in " + duration.HumanDuration(at.Sub(t.now))
}

// resizes tells of a change of the pod's resources that waits, is impossible, or has failed.
func (t *teller) resizes(pod *v1.Pod) {
	for _, c := range pod.Status.Conditions {
		switch {
		case c.Status != v1.ConditionTrue:
		case c.Type == v1.PodResizePending, c.Type == v1.PodResizeInProgress && c.Reason == v1.PodReasonError:
			t.say("  resize: %s", joined(": ", c.Reason, c.Message))
		}
	}
}

func (t *teller) worker(w *podworkers.Explanation) {
	if w == nil {
		return
	}
	t.say("  %s since %s: %s", w.State, duration.HumanDuration(t.now.Sub(w.Since)), plainly(w.WaitingFor))
	if w.LastError != "" {
		t.say("  last error, of %d in a row: %s", w.Failures, strings.ReplaceAll(w.LastError, "\n", "; ")) // an error of several containers has a line for each
	}
	if !w.NextWakeUp.IsZero() {
		t.say("  looked at again %s: %s", t.in(w.NextWakeUp), w.NextWakeUpReason)
	}
}

func (t *teller) container(c *podwright.ContainerExplanation) {
	state := c.State
	if c.ExitCode != nil {
		state += fmt.Sprintf(" with code %d", *c.ExitCode)
	}
	if c.Ready {
		state += ", ready"
	}
	if c.RestartCount > 0 {
		state += fmt.Sprintf(", restarts %d", c.RestartCount)
	}
	t.say("  %s: %s", c.Name, joined("; ", state, joined(": ", c.Reason, c.Message)))
	if p := c.Pull; p != nil {
		what := "is pulled"
		if p.Queued {
			what = "waits for other pulls"
		}
		t.say("    image %s %s since %s, for %d", p.Image, what, duration.HumanDuration(t.now.Sub(p.Since)), p.Waiters)
	}
}

// lastRun adds how the run of a container before the current one ended.
func (t *teller) lastRun(pod *v1.Pod, container string) {
	for _, list := range [][]v1.ContainerStatus{pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses, pod.Status.EphemeralContainerStatuses} {
		for i := range list {
			end := list[i].LastTerminationState.Terminated
			if end == nil || list[i].Name != container {
				continue
			}
			text := "its last run ended"
			if !end.FinishedAt.IsZero() {
				text += " " + t.ago(end.FinishedAt.Time)
			}
			t.say("    %s with code %d; %s", text, end.ExitCode, joined(": ", end.Reason, cut(strings.TrimSpace(end.Message), maxToldError)))
		}
	}
}

func (t *teller) probe(p *probe.Explanation) {
	last := "has not run"
	switch {
	case p.LastRun.IsZero():
	case p.Broken: // a probe that never works would look like one that succeeds
		last = "could not be executed, last tried " + t.ago(p.LastRun)
	case p.RunLength == 0: // the count starts again, or is not needed any more
		last = "last " + t.ago(p.LastRun)
	default:
		last = fmt.Sprintf("%s %d times in a row, last %s", p.LastResult, p.RunLength, t.ago(p.LastRun))
	}
	next := ""
	if p.Held == "" {
		next = "; next " + t.in(p.NextDue)
	}
	t.say("  %s %s: %s; %s%s", p.Container, strings.ToLower(p.Kind), p.Result, last, next)
	for _, text := range []string{p.Held, p.LastOutput} {
		if text != "" {
			t.say("    %s", text)
		}
	}
}

// steps adds the worker's newest steps.
func (t *teller) steps(w *podworkers.Explanation) {
	if w == nil || len(w.Transitions) == 0 {
		return
	}
	t.say("steps:")
	for _, step := range w.Transitions[max(len(w.Transitions)-shownSteps, 0):] {
		count := ""
		if step.Count > 1 {
			count = fmt.Sprintf(" (%d times)", step.Count)
		}
		t.say("  %s  %s to %s: %s%s", step.At.Format(time.TimeOnly), step.From, step.To, step.Reason, count)
	}
}

// shownSteps is how many steps of a pod's life are shown; JSON has all that are kept.
const shownSteps = 10

// joined joins the texts that are not empty.
func joined(separator string, texts ...string) string {
	var out []string
	for _, text := range texts {
		if text != "" {
			out = append(out, text)
		}
	}
	return strings.Join(out, separator)
}
