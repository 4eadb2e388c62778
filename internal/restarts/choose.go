package restarts

import (
	"fmt"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/internal/restartpolicy"
	"github.com/podwright/podwright/runtime"
)

// Choose returns the runs to replace for a requested restart of these containers, or of all running
// ones if names is empty. view is what the runtime shows, pending what was requested before: a
// container whose restart is in progress takes part in that. The error says what cannot be
// restarted; its class is runtime.ErrNotFound or runtime.ErrFailedPrecondition.
func Choose(pod *v1.Pod, view *runtime.PodStatus, pending *Asked, names []string) ([]Run, error) {
	var runs []Run
	for _, c := range members(pod) {
		if len(names) > 0 {
			break
		}
		run, ok := runOf(c, view, pending)
		if !ok {
			continue
		}
		if err := mayRestart(pod, c); err != nil {
			return nil, err
		}
		runs = append(runs, run)
	}
	for _, name := range names {
		c := memberOf(pod, name)
		if c == nil {
			return nil, unknown(pod, name)
		}
		if err := mayRestart(pod, c); err != nil {
			return nil, err
		}
		run, ok := runOf(c, view, pending)
		if !ok {
			return nil, fmt.Errorf("container %s is not running; its explanation says what it waits for: %w", name, runtime.ErrFailedPrecondition)
		}
		runs = append(runs, run)
	}
	if len(runs) == 0 {
		return nil, fmt.Errorf("none of its containers is running and can be restarted; their explanation says what they wait for: %w", runtime.ErrFailedPrecondition)
	}
	return runs, nil
}

// runOf returns the run that a restart of the container replaces now, false if nothing of it runs.
func runOf(c *v1.Container, view *runtime.PodStatus, pending *Asked) (Run, bool) {
	record := view.Container(c.Name)
	if record == nil {
		return Run{}, false
	}
	if record.State == runtime.Running {
		return RunOf(record, view), true
	}
	if run, under := pending.of(c.Name); under && !replaced(run, view) {
		return run, true
	}
	return Run{}, false
}

// RunOf returns what to remember of the run that a record is about.
func RunOf(record *runtime.ContainerStatus, view *runtime.PodStatus) Run {
	return Run{Container: record.Name, ID: record.ID.String(), RestartCount: highest(record.Name, view)}
}

// highest returns the highest restart count of a container's runs. That of the one that goes on may be lower than those
// of earlier runs (spec/runtime.md 1.3), which must not count as later ones. What was only created is no run: the next one
// takes its number.
func highest(container string, view *runtime.PodStatus) (n int) {
	for _, c := range view.Containers {
		if c.Name == container && c.State != runtime.Created {
			n = max(n, c.RestartCount)
		}
	}
	return n
}

// mayRestart returns why a container must not run a second time, nil if it may.
func mayRestart(pod *v1.Pod, c *v1.Container) error {
	if restartpolicy.Effective(pod, c) == v1.RestartPolicyNever {
		return fmt.Errorf("container %s must not run twice, its restart policy is Never: %w", c.Name, runtime.ErrFailedPrecondition)
	}
	return nil
}

// unknown says why no container with this name can be requested.
func unknown(pod *v1.Pod, name string) error {
	for i := range pod.Spec.InitContainers {
		if pod.Spec.InitContainers[i].Name == name {
			return fmt.Errorf("%s is an init container, which runs once before the others: %w", name, runtime.ErrFailedPrecondition)
		}
	}
	for i := range pod.Spec.EphemeralContainers {
		if pod.Spec.EphemeralContainers[i].Name == name {
			return fmt.Errorf("%s is an ephemeral container, which never runs twice: %w", name, runtime.ErrFailedPrecondition)
		}
	}
	return fmt.Errorf("it has no container %q: %w", name, runtime.ErrNotFound)
}

// members returns the containers that can be restarted: sidecars, then app containers.
func members(pod *v1.Pod) []*v1.Container {
	var out []*v1.Container
	for i := range pod.Spec.InitContainers {
		if c := &pod.Spec.InitContainers[i]; restartpolicy.IsSidecar(c) {
			out = append(out, c)
		}
	}
	for i := range pod.Spec.Containers {
		out = append(out, &pod.Spec.Containers[i])
	}
	return out
}

func memberOf(pod *v1.Pod, name string) *v1.Container {
	for _, c := range members(pod) {
		if c.Name == name {
			return c
		}
	}
	return nil
}
