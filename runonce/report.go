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

// The outcomes. Succeeded, Running and Stopped are good.
const (
	// Succeeded means that every container has ended as it should.
	Succeeded Outcome = "Succeeded"
	// Running means that the containers that are meant to run without end are ready.
	Running Outcome = "Running"
	// Stopped means that its source dropped the pod, and it was stopped.
	Stopped Outcome = "Stopped"
	// Failed means that the pod has the phase Failed, because a container failed, or because the
	// pod was refused or evicted.
	Failed Outcome = "Failed"
	// CannotRun means that the pod waited too long, crashed too often, or waits for what cannot come.
	CannotRun Outcome = "CannotRun"
	// Unfinished means that the run ended first.
	Unfinished Outcome = "Unfinished"
)

// good reports whether the outcome is one that Err accepts.
func (o Outcome) good() bool { return o == Succeeded || o == Running || o == Stopped }

// Report says what became of the pods of a run. It encodes as JSON.
type Report struct {
	// Started and Ended are the times of the run.
	Started time.Time `json:"started"`
	Ended   time.Time `json:"ended"`
	// Pods are all pods that were desired during the run, sorted by namespace, name and UID.
	Pods []Pod `json:"pods"`
	// Problems are the engine's at the end of the run, before a drain: an unreadable manifest,
	// say, or what a pod that cannot run waits for.
	Problems []podwright.Problem `json:"problems,omitempty"`
}

// Pod is what became of one pod.
type Pod struct {
	Namespace string    `json:"namespace"`
	Name      string    `json:"name"`
	UID       types.UID `json:"uid"`
	Outcome   Outcome   `json:"outcome"`
	// Reason is one word, such as the reason of the pod's status or of a waiting container.
	// Message says more. Both may be empty.
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
	// Containers in the order of the status, init containers first.
	Containers []Container `json:"containers,omitempty"`
}

// Container is what became of one container of a pod.
type Container struct {
	Name string `json:"name"`
	// ExitCode is that of its last end, nil if it has not ended.
	ExitCode *int32 `json:"exitCode,omitempty"`
	// Reason is that of its state, such as Completed or ImagePullBackOff.
	Reason   string `json:"reason,omitempty"`
	Restarts int32  `json:"restarts"`
}

// Err returns nil if the outcome of every pod is good and every source could be read; otherwise it
// returns all failures, joined.
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

// podOf returns the report on a pod with its verdict.
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

// byName sorts the pods of a report.
func byName(pods []Pod) {
	slices.SortFunc(pods, func(a, b Pod) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name), cmp.Compare(a.UID, b.UID))
	})
}
