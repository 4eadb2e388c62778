package runonce

import (
	"cmp"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/internal/podinfo"
	"github.com/podwright/podwright/internal/restartpolicy"
)

const (
	// releaseLimit is how long the engine may take to release a pod that has ended.
	releaseLimit = 30 * time.Second
	// handTime is how long the engine may take to hold or begin with a pod that its source has delivered.
	handTime = time.Second
	// staleTime is how long a container's waiting reason may still be that of an earlier run.
	staleTime = 5 * time.Second
)

// Reasons of a pod that cannot run, in addition to those of its containers.
const (
	reasonStartLimit = "StartLimitExceeded"
	reasonRestarts   = "TooManyRestarts"
	reasonContainer  = "ContainerFailed"
	reasonNotReady   = "NotReady"
	reasonHeld       = "Held"
)

// forGood are the waiting reasons that time does not cure: the pod or the node's images would
// have to change.
var forGood = map[string]bool{"InvalidImageName": true, "ErrImageNeverPull": true}

// subject is a pod as the latest look saw it, and what earlier looks noted.
type subject struct {
	pod *v1.Pod
	// handed means that the engine has begun with the pod in this process: its status is not that
	// of an earlier life that the engine is about to forget.
	handed bool
	// held is why the engine holds its setup back, empty if it does not.
	held string
	// first is when it was first seen.
	first time.Time
	// released means that the engine has released everything that it held for the pod.
	released bool
	// gone means that the engine no longer has the pod.
	gone bool
	// dropped means that the pod was told to stop before it had ended.
	dropped bool
	// before counts the restarts of each container when the pod was first seen, restarts those of
	// all its containers at the latest look.
	before   map[string]int32
	restarts int32
	// busy means that at the latest look a container ran that is expected to end.
	busy bool
	// moved is when the pod last made progress. ended is since when it has ended, ready since when
	// its containers are ready; zero if it has not, or they are not.
	moved, ended, ready time.Time
}

// verdict is the outcome of a pod at one look.
type verdict struct {
	outcome         Outcome // Unfinished while the run waits for the pod
	reason, message string
	// look is when the verdict may change by the passing of time alone; zero means never.
	look time.Time
}

// note records a new look at the pod. A nil pod means that it is gone.
func (s *subject) note(pod *v1.Pod, released bool, now time.Time) {
	if pod == nil {
		s.gone = true
		return
	}
	if s.pod == nil {
		s.before, s.first, s.moved = map[string]int32{}, now, now
		for c := range containers(&pod.Status) {
			s.before[c.Name] = c.RestartCount
		}
	}
	restarts := int32(0)
	for c := range containers(&pod.Status) {
		restarts += c.RestartCount
	}
	busy := busyWith(pod)
	if busy || s.busy || restarts != s.restarts {
		s.moved = now
	}
	_, ready := readiness(pod)
	switch {
	case !ready:
		s.ready = time.Time{}
	case s.ready.IsZero() || restarts != s.restarts:
		s.ready = now
	}
	if s.dropped && pod.DeletionTimestamp == nil { // it is wanted again
		s.handed, s.first, s.moved = false, now, now
	}
	s.dropped = pod.DeletionTimestamp != nil && (s.dropped || s.ended.IsZero())
	switch {
	case !podinfo.Terminal(pod.Status.Phase):
		s.ended = time.Time{}
	case s.ended.IsZero():
		s.ended = now
	}
	s.pod, s.released, s.gone, s.busy, s.restarts = pod, released, false, busy, restarts
}

// containers yields the statuses of a pod's containers, init containers first.
func containers(status *v1.PodStatus) func(yield func(*v1.ContainerStatus) bool) {
	return func(yield func(*v1.ContainerStatus) bool) {
		for _, list := range [][]v1.ContainerStatus{status.InitContainerStatuses, status.ContainerStatuses} {
			for i := range list {
				if !yield(&list[i]) {
					return
				}
			}
		}
	}
}

// statusOf returns the status of a container, nil if there is none.
func statusOf(list []v1.ContainerStatus, name string) *v1.ContainerStatus {
	for i := range list {
		if list[i].Name == name {
			return &list[i]
		}
	}
	return nil
}

// busyWith reports whether a container of the pod runs that is expected to end.
func busyWith(pod *v1.Pod) bool {
	runs := func(list []v1.ContainerStatus, name string) bool {
		c := statusOf(list, name)
		return c != nil && c.State.Running != nil
	}
	for i := range pod.Spec.InitContainers {
		if c := &pod.Spec.InitContainers[i]; !restartpolicy.IsSidecar(c) && runs(pod.Status.InitContainerStatuses, c.Name) {
			return true
		}
	}
	for i := range pod.Spec.Containers {
		if c := &pod.Spec.Containers[i]; !always(pod, c) && runs(pod.Status.ContainerStatuses, c.Name) {
			return true
		}
	}
	return false
}

// always reports whether a container is meant to run without end.
func always(pod *v1.Pod, c *v1.Container) bool {
	return restartpolicy.Effective(pod, c) == v1.RestartPolicyAlways
}

// readiness reports whether the pod has containers that are meant to run without end, and whether
// these and its sidecars are ready and the others have ended.
func readiness(pod *v1.Pod) (serves, ready bool) {
	ready = true
	for i := range pod.Spec.InitContainers {
		if c := &pod.Spec.InitContainers[i]; restartpolicy.IsSidecar(c) {
			s := statusOf(pod.Status.InitContainerStatuses, c.Name)
			ready = ready && s != nil && s.Ready
		}
	}
	for i := range pod.Spec.Containers {
		c := &pod.Spec.Containers[i]
		s := statusOf(pod.Status.ContainerStatuses, c.Name)
		if always(pod, c) {
			serves = true
			ready = ready && s != nil && s.Ready
			continue
		}
		t := terminated(s)
		ready = ready && t != nil && restartpolicy.OnExit(pod, c, t.ExitCode) == restartpolicy.Stay
	}
	return serves, serves && ready
}

func terminated(s *v1.ContainerStatus) *v1.ContainerStateTerminated {
	if s == nil {
		return nil
	}
	return s.State.Terminated
}

// judge returns the verdict on a pod so far.
func (o *Options) judge(s *subject, now time.Time) verdict {
	status := &s.pod.Status
	switch {
	case podinfo.Terminal(status.Phase) && !s.dropped && (s.handed || s.gone):
		return s.end(now)
	case s.gone:
		return verdict{outcome: Stopped}
	case s.dropped: // it ends and disappears, which no status reports
		return verdict{outcome: Unfinished, look: now.Add(time.Second)}
	}
	if !s.handed {
		v := o.waiting(s, now)
		v.look = earlier(v.look, now.Add(handTime))
		return v
	}
	if v, broken := o.broken(s, now); broken {
		return v
	}
	if !s.ready.IsZero() {
		if due := s.ready.Add(o.MinReady); now.Before(due) {
			return verdict{outcome: Unfinished, look: due}
		}
		return verdict{outcome: Running}
	}
	return o.waiting(s, now)
}

// waiting returns the verdict on a pod that waits, and limits how long it may wait.
func (o *Options) waiting(s *subject, now time.Time) verdict {
	v := verdict{outcome: Unfinished}
	if v.reason, v.message = waits(s.pod); s.held != "" {
		v.reason, v.message = reasonHeld, s.held
	}
	if o.StartLimit < 0 || s.busy {
		return v
	}
	if v.look = s.moved.Add(o.StartLimit); now.Before(v.look) {
		return v
	}
	if v.reason == "" {
		v.reason = reasonStartLimit
	}
	message := fmt.Sprintf("made no progress for %v", o.StartLimit)
	if v.message != "" {
		message += ": " + v.message
	}
	return verdict{outcome: CannotRun, reason: v.reason, message: message}
}

// end returns the verdict on a pod that has ended. It gives the engine time to release the pod
// first: then everything that the pod had in the runtime is stopped.
func (s *subject) end(now time.Time) verdict {
	status := &s.pod.Status
	v := verdict{outcome: Failed, reason: status.Reason, message: status.Message}
	if status.Phase == v1.PodSucceeded {
		v.outcome = Succeeded
	}
	if v.reason == "" && v.outcome == Failed {
		v.reason, v.message = failure(s.pod)
	}
	if due := s.ended.Add(releaseLimit); !s.released && !s.gone && ran(status) && now.Before(due) {
		v.outcome, v.look = Unfinished, due
	}
	return v
}

// ran reports whether the pod had a container.
func ran(status *v1.PodStatus) bool {
	for c := range containers(status) {
		if c.ContainerID != "" {
			return true
		}
	}
	return false
}

// failure says which container failed a pod: an init container before all others, because they have not begun then,
// and no sidecar, because its end fails no pod.
func failure(pod *v1.Pod) (reason, message string) {
	for i := range pod.Spec.InitContainers {
		c := &pod.Spec.InitContainers[i]
		t := terminated(statusOf(pod.Status.InitContainerStatuses, c.Name))
		if t == nil || restartpolicy.IsSidecar(c) || !restartpolicy.InitFailed(t.ExitCode, t.Reason) {
			continue
		}
		if t.ExitCode == 0 {
			return t.Reason, fmt.Sprintf("container %s was killed for lack of memory", c.Name)
		}
		return t.Reason, fmt.Sprintf("container %s ended with code %d", c.Name, t.ExitCode)
	}
	for i := range pod.Status.ContainerStatuses {
		c := &pod.Status.ContainerStatuses[i]
		if t := c.State.Terminated; t != nil && t.ExitCode != 0 {
			return t.Reason, fmt.Sprintf("container %s ended with code %d", c.Name, t.ExitCode)
		}
	}
	return "", ""
}

// broken returns the verdict on a pod that cannot run any more, however long the run waits.
func (o *Options) broken(s *subject, now time.Time) (verdict, bool) {
	pod := s.pod
	for c := range containers(&pod.Status) {
		w := c.State.Waiting
		if w == nil {
			w = &v1.ContainerStateWaiting{}
		}
		if forGood[w.Reason] {
			if due := s.first.Add(staleTime); now.Before(due) {
				return verdict{outcome: Unfinished, look: due}, true
			}
			return verdict{outcome: CannotRun, reason: w.Reason, message: w.Message}, true
		}
		// A restart that no back-off delayed is seen only by its count: by then the container runs again, or has ended.
		n := int(c.RestartCount - s.before[c.Name])
		if o.MaxRestarts >= 0 && (n > o.MaxRestarts || n == o.MaxRestarts && w.Reason == "CrashLoopBackOff") {
			return verdict{outcome: CannotRun, reason: reasonRestarts, message: fmt.Sprintf("container %s was restarted %d times and ended again", c.Name, o.MaxRestarts)}, true
		}
	}
	if serves, _ := readiness(pod); !serves {
		return verdict{}, false // its phase will say how it ends
	}
	for i := range pod.Spec.Containers {
		c := &pod.Spec.Containers[i]
		t := terminated(statusOf(pod.Status.ContainerStatuses, c.Name))
		if t != nil && t.ExitCode != 0 && restartpolicy.OnExit(pod, c, t.ExitCode) == restartpolicy.Stay {
			return verdict{outcome: CannotRun, reason: reasonContainer, message: fmt.Sprintf("container %s ended with code %d", c.Name, t.ExitCode)}, true
		}
	}
	return verdict{}, false
}

// waits returns what a pod waits for, as far as its status says.
func waits(pod *v1.Pod) (reason, message string) {
	status, creating := &pod.Status, ""
	for c := range containers(status) {
		switch w := c.State.Waiting; {
		case w == nil:
		case w.Reason == "ContainerCreating", w.Reason == "PodInitializing":
			creating = cmp.Or(creating, w.Message) // of a pull or a volume
		default:
			return w.Reason, w.Message
		}
	}
	if serves, _ := readiness(pod); serves && status.Phase == v1.PodRunning {
		return reasonNotReady, "its containers are running but not ready"
	}
	return status.Reason, cmp.Or(status.Message, creating)
}
