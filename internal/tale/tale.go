package tale

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/runtime"
)

// Tale is what was seen of some pods. Pods are identified by names that are the same in every compared
// life, such as their UIDs. All methods except Join and Differences are safe for concurrent use.
type Tale struct {
	mu sync.Mutex
	// statuses of each pod, without repeats, times, addresses and IDs.
	statuses map[string][]string
	// ends holds the reported exits, by pod, container and restart count.
	ends map[string]string
	// views holds the objects of the runtime, starts how often containers were started.
	views  []string
	starts map[string]int
	// sandbox is the latest report of whether a pod has a working sandbox.
	sandbox map[string]v1.ConditionStatus
	// finished pods, and restart counts by pod and container, as last reported; takenBack holds
	// later reports that must not happen.
	finished  map[string]bool
	restarts  map[string]int32
	takenBack []string
}

// New returns an empty tale.
func New() *Tale {
	return &Tale{
		statuses: map[string][]string{}, ends: map[string]string{}, starts: map[string]int{}, sandbox: map[string]v1.ConditionStatus{},
		finished: map[string]bool{}, restarts: map[string]int32{},
	}
}

// Tell records a status, and whether it is the last one of its pod.
func (t *Tale) Tell(pod string, s *v1.PodStatus, finished bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, c := range s.Conditions {
		if c.Type == v1.PodReadyToStartContainers {
			t.sandbox[pod] = c.Status
		}
	}
	if !restarting(s) { // that moment shows only if an agent dies in it
		t.add(pod, essence(s))
	}
	for _, c := range slices.Concat(s.InitContainerStatuses, s.ContainerStatuses) {
		t.counted(pod, c)
		run := c.RestartCount
		for _, state := range []v1.ContainerState{c.State, c.LastTerminationState} {
			if end := state.Terminated; end != nil {
				key := fmt.Sprintf("%s/%s run %d", pod, c.Name, run)
				value := fmt.Sprintf("%d %s", end.ExitCode, end.Reason)
				if before, ok := t.ends[key]; ok && before != value {
					value = before + ", then " + value
				}
				t.ends[key] = value
			}
			if last := c.LastTerminationState.Terminated; c.State.Waiting == nil || last != nil && last.Reason == "ContainerStatusUnknown" {
				run-- // otherwise it waits after this very run
			}
		}
	}
	if !finished && t.finished[pod] {
		t.takenBack = append(t.takenBack, fmt.Sprintf("%s: finished, and then not", pod))
	}
	t.finished[pod] = finished
}

// Note records something else that is reported, as Tell does for a status.
func (t *Tale) Note(subject, text string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.add(subject, text)
}

func (t *Tale) add(subject, text string) {
	if seen := t.statuses[subject]; len(seen) == 0 || seen[len(seen)-1] != text {
		t.statuses[subject] = append(seen, text)
	}
}

// See records what exists at a quiet moment, such as [Objects].
func (t *Tale) See(lines []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.views = append(t.views, strings.Join(slices.Sorted(slices.Values(lines)), "\n"))
}

// Started records how often a container was started.
func (t *Tale) Started(container string, times int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.starts[container] = times
}

// Objects returns what the runtime has of a pod, without times and IDs.
func Objects(name string, pod *runtime.PodStatus) (lines []string) {
	for _, s := range pod.Sandboxes {
		lines = append(lines, fmt.Sprintf("%s sandbox #%d %s", name, s.Attempt, s.State))
	}
	for _, c := range pod.Containers {
		lines = append(lines, fmt.Sprintf("%s %s #%d %s %d %s", name, c.Name, c.RestartCount, c.State, c.ExitCode, c.Reason))
	}
	return lines
}

// counted records the restart count of a container, which never goes down.
func (t *Tale) counted(pod string, c v1.ContainerStatus) {
	name := pod + "/" + c.Name
	if before := t.restarts[name]; c.RestartCount < before {
		t.takenBack = append(t.takenBack, fmt.Sprintf("%s: restart count %d after %d", name, c.RestartCount, before))
	}
	t.restarts[name] = c.RestartCount
}

// restarting reports whether a container was created for another run but not started, or was stopped
// in order to be started again.
func restarting(s *v1.PodStatus) bool {
	return slices.ContainsFunc(slices.Concat(s.InitContainerStatuses, s.ContainerStatuses), func(c v1.ContainerStatus) bool {
		return c.LastTerminationState.Terminated != nil && c.State.Waiting != nil && slices.Contains([]string{"", "RestartRequested", "Restarting"}, c.State.Waiting.Reason)
	})
}

// essence returns what must not differ between two lives of a pod.
func essence(s *v1.PodStatus) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s;", s.Phase, s.Reason)
	for _, c := range s.Conditions {
		if c.Type == v1.PodReadyToStartContainers {
			continue // it says when a sandbox came and went, which an agent can miss
		}
		fmt.Fprintf(&b, " %s=%s %s", c.Type, c.Status, c.Reason)
	}
	for _, c := range slices.Concat(s.InitContainerStatuses, s.ContainerStatuses) {
		started := c.Started != nil && *c.Started
		fmt.Fprintf(&b, "; %s #%d %s, before %s, started %v ready %v", c.Name, c.RestartCount, stateOf(c.State), stateOf(c.LastTerminationState), started, c.Ready)
	}
	return b.String()
}

func stateOf(s v1.ContainerState) string {
	switch {
	case s.Running != nil:
		return "runs"
	case s.Waiting != nil:
		switch s.Waiting.Reason {
		case "", "ContainerCreating", "PodInitializing": // they all mean that it has not been started yet
			return "waits for its start"
		}
		return "waits: " + s.Waiting.Reason
	case s.Terminated != nil:
		return fmt.Sprintf("ended %d %s", s.Terminated.ExitCode, s.Terminated.Reason)
	}
	return "-"
}

// Differences compares a life in which agents were killed with an undisturbed life. The disturbed
// life may lack a status that passed while no agent was there to see it, but never one that lasts,
// and what was sent is never taken back.
func (t *Tale) Differences(calm *Tale) (all []string) {
	differ := func(format string, args ...any) { all = append(all, fmt.Sprintf(format, args...)) }
	all = append(all, t.takenBack...)
	for subject := range t.statuses {
		if calm.statuses[subject] == nil {
			differ("%s: the undisturbed life reports nothing of it, this one %q", subject, t.statuses[subject])
		}
	}
	for subject, told := range calm.statuses {
		seen := t.statuses[subject]
		if at := strays(seen, told); at >= 0 {
			differ("%s: status %d is not what the undisturbed life told then:\n  %s\nundisturbed:\n  %s", subject, at, strings.Join(seen[max(0, at-2):at+1], "\n  "), strings.Join(told, "\n  "))
		}
		if last := told[len(told)-1]; len(seen) == 0 || seen[len(seen)-1] != last {
			differ("%s does not end as %s, but %q", subject, last, seen)
		}
	}
	if !maps.Equal(t.ends, calm.ends) {
		differ("ends of containers: %v\nundisturbed: %v", t.ends, calm.ends)
	}
	if !maps.Equal(t.sandbox, calm.sandbox) {
		differ("PodReadyToStartContainers in the end: %v\nundisturbed: %v", t.sandbox, calm.sandbox)
	}
	if !maps.Equal(t.starts, calm.starts) {
		differ("starts: %v\nundisturbed: %v", t.starts, calm.starts)
	}
	if len(t.views) != len(calm.views) {
		differ("%d looks at the runtime, undisturbed %d", len(t.views), len(calm.views))
		return all
	}
	for i := range calm.views {
		if t.views[i] != calm.views[i] {
			differ("look %d at the runtime:\n%s\nundisturbed:\n%s", i, t.views[i], calm.views[i])
		}
	}
	return all
}

// Join adds what another undisturbed life reported: two statuses of one moment may reach a sink as
// one.
func (t *Tale) Join(other *Tale) {
	for subject, told := range other.statuses {
		next := 0
		for _, s := range told {
			if found := slices.Index(t.statuses[subject][next:], s); found >= 0 {
				next += found
			} else {
				t.statuses[subject] = slices.Insert(t.statuses[subject], next, s)
			}
			next++
		}
	}
}

// strays returns the index of the first status that is not the next one, or a later one, of the
// undisturbed life; -1 if there is none.
func strays(seen, told []string) int {
	next := 0
	for i, s := range seen {
		found := slices.IndexFunc(told[next:], func(t string) bool { return t == s || precedes(s, t) })
		if found < 0 {
			return i
		}
		next += found
		if told[next] == s {
			next++
		}
	}
	return -1
}

// precedes reports whether a status is the terminal one but for its phase: all containers have
// ended, and the pod is not over yet. Both are published in one moment, and a sink that is quick
// enough gets the first of them too, which the undisturbed lives may never have shown.
func precedes(s, terminal string) bool {
	rest, ok := strings.CutPrefix(s, string(v1.PodRunning))
	return ok && (terminal == string(v1.PodSucceeded)+rest || terminal == string(v1.PodFailed)+rest)
}
