package conformance

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
)

const prefix = "expect/"

// Expectation is the expected outcome of one pod, keyed by annotation name without its prefix:
// "phase" → "Running".
type Expectation map[string]string

// Of reads a pod's expectations: those for its life, and those for its last status after it was
// deleted (nil if it is not deleted).
func Of(pod *v1.Pod) (life, deleted Expectation) {
	life = Expectation{}
	for k, v := range pod.Annotations {
		name, ok := strings.CutPrefix(k, prefix)
		switch after, isDeleted := strings.CutPrefix(name, "deleted."); {
		case !ok:
		case name == "delete":
			if deleted == nil {
				deleted = Expectation{}
			}
		case isDeleted:
			if deleted == nil {
				deleted = Expectation{}
			}
			deleted[after] = v
		default:
			life[name] = v
		}
	}
	return life, deleted
}

// Observed is what was observed of a pod.
type Observed struct {
	Status v1.PodStatus
	// Logs per container: the text of all runs.
	Logs map[string]string
	// Events are the reasons of the pod's events.
	Events []string
}

// alternative prefixes the expectations for a runtime that resolves differently something the CRI
// leaves open.
const alternative = "or."

// Check returns what does not (yet) match, nil if everything does. A malformed expectation is
// reported in the same way. Where there are alternatives, either all of them or the plain
// expectations with the same names must hold, together with the rest.
func (e Expectation) Check(o Observed) []string {
	plain, other := Expectation{}, Expectation{}
	for name, want := range e {
		if _, isOther := strings.CutPrefix(name, alternative); !isOther {
			plain[name] = want
		}
	}
	maps.Copy(other, plain)
	for name, want := range e {
		if name, isOther := strings.CutPrefix(name, alternative); isOther {
			other[name] = want
		}
	}
	wrong := plain.checkAll(o)
	if len(wrong) == 0 || len(e) > len(plain) && len(other.checkAll(o)) == 0 {
		return nil
	}
	return wrong
}

// checkAll checks expectations without alternatives.
func (e Expectation) checkAll(o Observed) []string {
	var wrong []string
	for _, name := range slices.Sorted(maps.Keys(e)) {
		if text := check(name, strings.TrimRight(e[name], "\n"), o); text != "" {
			wrong = append(wrong, name+": "+text)
		}
	}
	return wrong
}

func check(name, want string, o Observed) string {
	what, container, _ := strings.Cut(name, ".")
	switch what {
	case "phase":
		return same(string(o.Status.Phase), want)
	case "reason":
		return same(o.Status.Reason, want)
	case "ready":
		return same(strings.ToLower(condition(o.Status, v1.PodReady)), want)
	case "event":
		for _, reason := range strings.Split(want, "\n") {
			if !slices.Contains(o.Events, reason) {
				return fmt.Sprintf("no event %s among %v", reason, o.Events)
			}
		}
		return ""
	case "order":
		return checkOrder(want, o.Status)
	case "logs":
		return same(strings.TrimRight(o.Logs[container], "\n"), want)
	}
	status, ok := find(o.Status, container)
	if !ok {
		return "no status of the container"
	}
	switch what {
	case "state":
		return checkState(status.State, want)
	case "restarts":
		return checkCount(status.RestartCount, want)
	case "message":
		return checkMessage(status.State, want)
	}
	return "unknown expectation"
}

func same(got, want string) string {
	if got == want {
		return ""
	}
	return fmt.Sprintf("%q, want %q", got, want)
}

func checkState(s v1.ContainerState, want string) string {
	got := stateText(s)
	kind, reason, _ := strings.Cut(want, " ")
	for alternative := range strings.SplitSeq(reason, "|") {
		if got == strings.TrimSpace(kind+" "+alternative) {
			return ""
		}
	}
	return same(got, want)
}

func stateText(s v1.ContainerState) string {
	switch {
	case s.Running != nil:
		return "Running"
	case s.Terminated != nil:
		return fmt.Sprintf("Terminated %d %s", s.Terminated.ExitCode, s.Terminated.Reason)
	case s.Waiting != nil:
		return "Waiting " + s.Waiting.Reason
	}
	return ""
}

func checkCount(got int32, want string) string {
	number, atLeast := strings.CutPrefix(want, ">=")
	n, err := strconv.Atoi(number)
	switch {
	case err != nil:
		return fmt.Sprintf("%q is no number", want)
	case atLeast && int(got) >= n, int(got) == n:
		return ""
	}
	return fmt.Sprintf("%d, want %s", got, want)
}

func checkMessage(s v1.ContainerState, want string) string {
	if s.Terminated == nil {
		return "not terminated"
	}
	got := strings.TrimRight(s.Terminated.Message, "\n")
	pattern, isPattern := strings.CutPrefix(want, "~")
	if !isPattern {
		return same(got, want)
	}
	re, err := regexp.Compile("^(?:" + pattern + ")$")
	switch {
	case err != nil:
		return err.Error()
	case !re.MatchString(got):
		return fmt.Sprintf("%q does not match %q", got, pattern)
	}
	return ""
}

// checkOrder checks lines such as "a.finished + 1s <= b.started".
func checkOrder(lines string, s v1.PodStatus) string {
	for line := range strings.SplitSeq(lines, "\n") {
		left, right, ok := strings.Cut(line, "<=")
		if !ok {
			return fmt.Sprintf("%q is no order", line)
		}
		a, errA := moment(left, s)
		b, errB := moment(right, s)
		switch {
		case errA != nil:
			return errA.Error()
		case errB != nil:
			return errB.Error()
		case a.After(b):
			return fmt.Sprintf("%s does not hold: %s, %s", line, a.Format(time.RFC3339), b.Format(time.RFC3339))
		}
	}
	return ""
}

// moment evaluates "name.started" or "name.finished", optionally with "+ duration".
func moment(text string, s v1.PodStatus) (time.Time, error) {
	text, plus, _ := strings.Cut(text, "+")
	name, what, _ := strings.Cut(strings.TrimSpace(text), ".")
	status, ok := find(s, name)
	if !ok {
		return time.Time{}, fmt.Errorf("no status of container %q", name)
	}
	var at time.Time
	switch state := status.State; {
	case what == "started" && state.Running != nil:
		at = state.Running.StartedAt.Time
	case what == "started" && state.Terminated != nil:
		at = state.Terminated.StartedAt.Time
	case what == "finished" && state.Terminated != nil:
		at = state.Terminated.FinishedAt.Time
	}
	if at.IsZero() {
		return time.Time{}, fmt.Errorf("%s has not %s", name, what)
	}
	if plus == "" {
		return at, nil
	}
	d, err := time.ParseDuration(strings.TrimSpace(plus))
	return at.Add(d), err
}

func find(s v1.PodStatus, name string) (v1.ContainerStatus, bool) {
	for _, list := range [][]v1.ContainerStatus{s.InitContainerStatuses, s.ContainerStatuses, s.EphemeralContainerStatuses} {
		for _, c := range list {
			if c.Name == name {
				return c, true
			}
		}
	}
	return v1.ContainerStatus{}, false
}

func condition(s v1.PodStatus, t v1.PodConditionType) string {
	for _, c := range s.Conditions {
		if c.Type == t {
			return string(c.Status)
		}
	}
	return ""
}
