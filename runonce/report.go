package runonce

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright"
	"github.com/podwright/podwright/internal/problem"
)

// Outcome is what became of a pod in a run.
type Outcome string

// The outcomes. Succeeded, Running and Stopped are as they should be.
const (
	// Succeeded: every container has ended as it should.
	Succeeded Outcome = "Succeeded"
	// Running: the containers that run for good are ready.
	Running Outcome = "Running"
	// Stopped: its source dropped the pod, and it was stopped.
	Stopped Outcome = "Stopped"
	// Failed: the pod has the phase Failed, because a container failed, or because it was
	// refused or evicted.
	Failed Outcome = "Failed"
	// CannotRun: the pod waited too long, crashed too often, or waits for what does not come.
	CannotRun Outcome = "CannotRun"
	// Unfinished: the run ended first.
	Unfinished Outcome = "Unfinished"
)

// good reports whether the outcome is as it should be.
func (o Outcome) good() bool { return o == Succeeded || o == Running || o == Stopped }

// Report says what became of the pods of a run. It encodes as JSON.
type Report struct {
	// Started and Ended are the times of the run.
	Started time.Time `json:"started"`
	Ended   time.Time `json:"ended"`
	// Pods are all that were desired during the run, sorted by namespace, name and UID.
	Pods []Pod `json:"pods"`
	// Problems are those of the engine at the end: unreadable manifests, say, or what a pod
	// that cannot run waits for.
	Problems []podwright.Problem `json:"problems,omitempty"`
}

// Pod is what became of one pod.
type Pod struct {
	Namespace string    `json:"namespace"`
	Name      string    `json:"name"`
	UID       types.UID `json:"uid"`
	Outcome   Outcome   `json:"outcome"`
	// Reason is one word, such as that of the pod's status or of a waiting container, and
	// Message more about it. Both may be empty.
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
	// Containers in the order of the status, init containers first.
	Containers []Container `json:"containers,omitempty"`
}

// Container is what became of one container of a pod.
type Container struct {
	Name string `json:"name"`
	// ExitCode is how it ended, the last time; nil if it has not.
	ExitCode *int32 `json:"exitCode,omitempty"`
	// Reason is that of its state, such as Completed or ImagePullBackOff.
	Reason   string `json:"reason,omitempty"`
	Restarts int32  `json:"restarts"`
}

// Err returns nil if every pod became what it should and every source could be read, otherwise
// everything that did not, joined.
func (r Report) Err() error {
	var all []error
	for i := range r.Pods {
		if p := &r.Pods[i]; !p.Outcome.good() {
			all = append(all, p.err())
		}
	}
	for _, p := range r.Problems {
		if p.Kind == problem.Source {
			all = append(all, p)
		}
	}
	return errors.Join(all...)
}

func (p *Pod) err() error {
	text := fmt.Sprintf("pod %s/%s: %s", p.Namespace, p.Name, p.Outcome)
	for _, more := range []string{p.Reason, p.Message} {
		if more != "" {
			text += ": " + more
		}
	}
	return errors.New(text)
}

// podOf is the report on a pod with its verdict.
func podOf(pod *v1.Pod, v verdict) Pod {
	out := Pod{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID, Outcome: v.outcome, Reason: v.reason, Message: v.message}
	for _, list := range [][]v1.ContainerStatus{pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses} {
		for i := range list {
			out.Containers = append(out.Containers, containerOf(&list[i]))
		}
	}
	return out
}

func containerOf(c *v1.ContainerStatus) Container {
	out := Container{Name: c.Name, Restarts: c.RestartCount}
	last := c.LastTerminationState.Terminated
	switch {
	case c.State.Terminated != nil:
		last = c.State.Terminated
		out.Reason = last.Reason
	case c.State.Waiting != nil:
		out.Reason = c.State.Waiting.Reason
	}
	if last != nil {
		code := last.ExitCode
		out.ExitCode = &code
	}
	return out
}

// byName is the order of pods in a report.
func byName(pods []Pod) {
	slices.SortFunc(pods, func(a, b Pod) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name), cmp.Compare(a.UID, b.UID))
	})
}
