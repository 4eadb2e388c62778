package enginetest_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/runtime"
	"github.com/podwright/podwright/runtime/fake"
	"github.com/podwright/podwright/status"
)

// tale is what the world outside saw of a life: the statuses it was told, and what
// the runtime had at the moments it looked.
type tale struct {
	mu sync.Mutex
	// statuses of each pod, repeats left out, without times, addresses and IDs.
	statuses map[types.UID][]string
	// ends are the exits that were told of, by pod, container and restart count.
	ends map[string]string
	// views are the objects of the runtime, starts how often containers were started.
	views []string
	// sandbox is the newest word on whether a pod has one that works.
	sandbox map[types.UID]v1.ConditionStatus
	starts  map[string]int
	// finished pods, and restart counts by pod and container, as told last; takenBack is
	// what was told after that and cannot be.
	finished  map[types.UID]bool
	restarts  map[string]int32
	takenBack []string
}

func newTale() *tale {
	return &tale{statuses: map[types.UID][]string{}, ends: map[string]string{}, starts: map[string]int{}, sandbox: map[types.UID]v1.ConditionStatus{}, finished: map[types.UID]bool{}, restarts: map[string]int32{}}
}

// Store makes a tale the sink of every agent of a life.
func (t *tale) Store(_ context.Context, u status.Update) (status.StoreResult, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, c := range u.Status.Conditions {
		if c.Type == v1.PodReadyToStartContainers {
			t.sandbox[u.UID] = c.Status
		}
	}
	text := essence(u.Status)
	if restarting(u.Status) {
		text = "" // this moment is only told if an agent dies in it
	}
	if seen := t.statuses[u.UID]; text != "" && (len(seen) == 0 || seen[len(seen)-1] != text) {
		t.statuses[u.UID] = append(seen, text)
	}
	for _, c := range slices.Concat(u.Status.InitContainerStatuses, u.Status.ContainerStatuses) {
		t.counted(u.UID, c)
		run := c.RestartCount
		for _, state := range []v1.ContainerState{c.State, c.LastTerminationState} {
			if end := state.Terminated; end != nil {
				key := fmt.Sprintf("%s/%s run %d", u.UID, c.Name, run)
				value := fmt.Sprintf("%d %s", end.ExitCode, end.Reason)
				if before, ok := t.ends[key]; ok && before != value {
					value = before + ", then " + value
				}
				t.ends[key] = value
			}
			if last := c.LastTerminationState.Terminated; c.State.Waiting == nil || last != nil && last.Reason == "ContainerStatusUnknown" {
				run-- // else it waits after this very run
			}
		}
	}
	if !u.Finished && t.finished[u.UID] {
		t.takenBack = append(t.takenBack, fmt.Sprintf("%s: finished, and then not", u.UID))
	}
	t.finished[u.UID] = u.Finished
	return status.Stored, nil
}

// counted notes the restart count of a container, which never goes down.
func (t *tale) counted(uid types.UID, c v1.ContainerStatus) {
	name := string(uid) + "/" + c.Name
	if before := t.restarts[name]; c.RestartCount < before {
		t.takenBack = append(t.takenBack, fmt.Sprintf("%s: restart count %d after %d", name, c.RestartCount, before))
	}
	t.restarts[name] = c.RestartCount
}

// restarting reports whether a container was created for another run and not started.
func restarting(s *v1.PodStatus) bool {
	return slices.ContainsFunc(slices.Concat(s.InitContainerStatuses, s.ContainerStatuses), func(c v1.ContainerStatus) bool {
		return c.LastTerminationState.Terminated != nil && c.State.Waiting != nil && c.State.Waiting.Reason == ""
	})
}

// essence is what must not differ between two lives of a pod.
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
		case "", "ContainerCreating", "PodInitializing": // all say that it was not started yet
			return "waits for its start"
		}
		return "waits: " + s.Waiting.Reason
	case s.Terminated != nil:
		return fmt.Sprintf("ended %d %s", s.Terminated.ExitCode, s.Terminated.Reason)
	}
	return "-"
}

// look takes down what the runtime has of the pods.
func (t *tale) look(ctx context.Context, rt *fake.Runtime, uids []types.UID) error {
	view := runtime.NewView(rt, runtime.ViewOptions{})
	var lines []string
	for _, uid := range uids {
		pod, err := view.Read(ctx, uid)
		if err != nil {
			return err
		}
		for _, s := range pod.Sandboxes {
			lines = append(lines, fmt.Sprintf("%s sandbox #%d %s", uid, s.Attempt, s.State))
		}
		for _, c := range pod.Containers {
			lines = append(lines, fmt.Sprintf("%s %s #%d %s %d %s", uid, c.Name, c.RestartCount, c.State, c.ExitCode, c.Reason))
		}
	}
	slices.Sort(lines)
	t.views = append(t.views, strings.Join(lines, "\n"))
	return nil
}

// count takes down how often each container was started.
func (t *tale) count(rt *fake.Runtime, pods []*v1.Pod) {
	for _, p := range pods {
		for _, c := range slices.Concat(p.Spec.InitContainers, p.Spec.Containers) {
			t.starts[string(p.UID)+"/"+c.Name] = rt.Facts(p.UID, c.Name).Started
		}
	}
}

// differences compares a life in which agents were killed with an undisturbed life. It may have
// missed a status that passed while no agent was there to see it, never one that
// lasts, and what it was told is never taken back.
func (t *tale) differences(calm *tale) (all []string) {
	differ := func(format string, args ...any) { all = append(all, fmt.Sprintf(format, args...)) }
	all = append(all, t.takenBack...)
	for uid, told := range calm.statuses {
		seen := t.statuses[uid]
		if at := strays(seen, told); at >= 0 {
			differ("%s: status %d is not what the undisturbed life told then:\n  %s\nundisturbed:\n  %s", uid, at, strings.Join(seen[max(0, at-2):at+1], "\n  "), strings.Join(told, "\n  "))
		}
		if last := told[len(told)-1]; len(seen) == 0 || seen[len(seen)-1] != last {
			differ("%s does not end as %s, but %q", uid, last, seen)
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
	for i := range calm.views {
		if t.views[i] != calm.views[i] {
			differ("look %d at the runtime:\n%s\nundisturbed:\n%s", i, t.views[i], calm.views[i])
		}
	}
	return all
}

// join takes over what another undisturbed life was told: two statuses of one moment may
// reach a sink as one.
func (t *tale) join(other *tale) {
	for uid, told := range other.statuses {
		next := 0
		for _, s := range told {
			if found := slices.Index(t.statuses[uid][next:], s); found >= 0 {
				next += found
			} else {
				t.statuses[uid] = slices.Insert(t.statuses[uid], next, s)
			}
			next++
		}
	}
}

// strays returns the index of the first status that is not the next one of the undisturbed life, or a
// later one; -1 if there is none.
func strays(seen, told []string) int {
	next := 0
	for i, s := range seen {
		found := slices.Index(told[next:], s)
		if found < 0 {
			return i
		}
		next += found + 1
	}
	return -1
}
