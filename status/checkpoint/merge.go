package checkpoint

import (
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podwright/podwright/internal/restartpolicy"
)

const exitUnknown = 137

// protect returns the status that a record may keep, given a new one (spec/status.md 9.4): a
// terminal phase never changes, and a known end never turns into a guess. The result may share
// memory with both.
func protect(r *Record, next *v1.PodStatus) *v1.PodStatus {
	out := *next
	if r.Terminal() && next.Phase != r.Status.Phase {
		out.Phase, out.Reason, out.Message = r.Status.Phase, r.Status.Reason, r.Status.Message
	}
	eachList(&out, r.restoreEnds)
	return &out
}

// eachList lets edit change container statuses and copies a list before its first change: edit
// works on a copy and reports whether it changed that.
func eachList(s *v1.PodStatus, edit func(*v1.ContainerStatus) bool) {
	for _, list := range [...]*[]v1.ContainerStatus{&s.InitContainerStatuses, &s.ContainerStatuses, &s.EphemeralContainerStatuses} {
		copied := false
		for i := range *list {
			cs := (*list)[i]
			if !edit(&cs) {
				continue
			}
			if !copied {
				*list, copied = append([]v1.ContainerStatus(nil), *list...), true
			}
			(*list)[i] = cs
		}
	}
}

// restoreEnds replaces the guesses in a container's status by recorded ends, and reports whether it
// replaced any.
func (r *Record) restoreEnds(cs *v1.ContainerStatus) bool {
	now, last := r.restoreEnd(cs.Name, &cs.State), r.restoreEnd(cs.Name, &cs.LastTerminationState)
	return now || last
}

// WithEnds returns the status with the recorded ends of the runs that it shows as running or whose
// end it guesses: a container may end and be removed between two looks at it (spec/status.md 9.4).
// If there are none it returns the status itself.
func (r *Record) WithEnds(status *v1.PodStatus) *v1.PodStatus {
	ended := false
	for i := range r.Containers {
		ended = ended || len(r.Containers[i].Ends) > 0
	}
	if !ended {
		return status // the usual case
	}
	out, changed := *status, false
	eachList(&out, func(cs *v1.ContainerStatus) bool {
		did := r.restoreEnds(cs)
		if end, ok := r.EndOf(cs.Name, cs.ContainerID); ok && cs.State.Running != nil && !end.Guess() {
			no := false
			cs.State, cs.Ready, cs.Started, did = end.state(), false, &no, true
		}
		changed = changed || did
		return did
	})
	if !changed {
		return status
	}
	return &out
}

// restoreEnd replaces a guess by what is recorded of that run.
func (r *Record) restoreEnd(name string, state *v1.ContainerState) bool {
	if state.Terminated == nil || state.Terminated.Reason != reasonUnknown {
		return false
	}
	end, ok := r.EndOf(name, state.Terminated.ContainerID)
	if !ok || end.Guess() {
		return false
	}
	state.Terminated = end.state().Terminated
	return true
}

// state returns the end in the form a status shows.
func (e End) state() v1.ContainerState {
	return v1.ContainerState{Terminated: &v1.ContainerStateTerminated{
		ExitCode: e.ExitCode, Signal: e.Signal, Reason: e.Reason, Message: e.Message, ContainerID: e.ID,
		StartedAt: metav1.NewTime(e.StartedAt), FinishedAt: metav1.NewTime(e.FinishedAt),
	}}
}

// Remembered returns the status to continue from after a restart, nil if there is none: the
// recorded status plus the ends recorded later (spec/status.md 9.6: for one run an end beats any
// other state). rebooted means that the machine has been restarted since; then no container is
// ready or started (9.7).
func (r *Record) Remembered(rebooted bool) *v1.PodStatus {
	if r.Status == nil {
		return nil
	}
	out := *r.Status
	eachList(&out, func(cs *v1.ContainerStatus) bool {
		changed := false
		c, _ := r.Container(cs.Name)
		if c.endedAfter(cs) {
			c.showEnds(cs)
			changed = true
		}
		if c.RestartCount > cs.RestartCount {
			cs.RestartCount, changed = c.RestartCount, true
		}
		changed = r.restoreEnds(cs) || changed
		if (rebooted || cs.State.Terminated != nil) && (cs.Ready || cs.Started != nil && *cs.Started) && cs.State.Waiting == nil {
			if cs.State.Running != nil || changed {
				no := false
				cs.Ready, cs.Started, changed = false, &no, true
			}
		}
		return changed
	})
	return &out
}

// endedAfter reports whether the newest recorded end is later than what the status shows.
func (c *Container) endedAfter(cs *v1.ContainerStatus) bool {
	if len(c.Ends) == 0 {
		return false
	}
	end, last := &c.Ends[0], cs.LastTerminationState.Terminated
	switch {
	case end.RestartCount > cs.RestartCount: // an end of a run the status never showed
		return end.ID != cs.ContainerID || cs.State.Terminated == nil
	case end.ID == "" || cs.State.Terminated != nil:
		return false
	case cs.State.Running != nil:
		return end.ID == cs.ContainerID
	}
	// The end is of the run that the status waits for and already counts.
	return end.RestartCount == cs.RestartCount && end.ID != cs.ContainerID && (last == nil || last.ContainerID != end.ID)
}

// showEnds puts the newest recorded ends into the status.
func (c *Container) showEnds(cs *v1.ContainerStatus) {
	end := &c.Ends[0]
	switch {
	case len(c.Ends) > 1:
		cs.LastTerminationState = c.Ends[1].state()
	case cs.State.Terminated != nil:
		cs.LastTerminationState = cs.State
	}
	cs.State, cs.ContainerID = end.state(), end.ID
	cs.RestartCount = max(cs.RestartCount, end.RestartCount)
}

// Interrupted returns the status to continue from for a pod whose containers were started and have
// all vanished from the runtime: after a reboot, or because the runtime lost its state (CK5).
// Containers with policy Never and no known end get exit code 137 and the reason
// ContainerStatusUnknown, and do not run again; what may run again is left to the rules of
// generation (spec/status.md 3.4).
func Interrupted(pod *v1.Pod, status *v1.PodStatus) *v1.PodStatus {
	out := *status
	if len(out.ContainerStatuses) == 0 {
		out.ContainerStatuses = waitingStatuses(pod.Spec.Containers)
	}
	if len(out.InitContainerStatuses) == 0 {
		out.InitContainerStatuses = waitingStatuses(pod.Spec.InitContainers)
	}
	initialized := true
	for i := range out.InitContainerStatuses {
		initialized = initialized && over(&out.InitContainerStatuses[i], specOf(pod.Spec.InitContainers, out.InitContainerStatuses[i].Name))
	}
	lose := func(cs *v1.ContainerStatus, c *v1.Container, may bool) bool {
		if c == nil || restartpolicy.Effective(pod, c) != v1.RestartPolicyNever || cs.State.Terminated != nil || !may && cs.State.Running == nil {
			return false
		}
		no := false
		cs.Ready, cs.Started = false, &no
		cs.State = v1.ContainerState{Terminated: &v1.ContainerStateTerminated{
			ExitCode: exitUnknown, Reason: reasonUnknown, ContainerID: cs.ContainerID,
			Message: "The container was started and the runtime does not have it any more",
		}}
		return true
	}
	first := true // only the first init container that is not done may have been running
	apps := out
	apps.InitContainerStatuses = nil
	eachList(&apps, func(cs *v1.ContainerStatus) bool {
		return lose(cs, specOf(pod.Spec.Containers, cs.Name), initialized)
	})
	inits := v1.PodStatus{InitContainerStatuses: out.InitContainerStatuses}
	eachList(&inits, func(cs *v1.ContainerStatus) bool {
		c := specOf(pod.Spec.InitContainers, cs.Name)
		may := first && c != nil && !over(cs, c)
		if may {
			first = false
		}
		return lose(cs, c, may)
	})
	apps.InitContainerStatuses = inits.InitContainerStatuses
	return &apps
}

// over reports whether an init container lets the next one start.
func over(cs *v1.ContainerStatus, c *v1.Container) bool {
	if c != nil && restartpolicy.IsSidecar(c) {
		return cs.State.Waiting == nil || cs.LastTerminationState.Terminated != nil
	}
	return restartpolicy.InitDone(&cs.State) || restartpolicy.InitDone(&cs.LastTerminationState)
}

func specOf(list []v1.Container, name string) *v1.Container {
	for i := range list {
		if list[i].Name == name {
			return &list[i]
		}
	}
	return nil
}

func waitingStatuses(list []v1.Container) []v1.ContainerStatus {
	var out []v1.ContainerStatus
	for i := range list {
		out = append(out, v1.ContainerStatus{
			Name: list[i].Name, Image: list[i].Image,
			State: v1.ContainerState{Waiting: &v1.ContainerStateWaiting{Reason: "ContainerCreating"}},
		})
	}
	return out
}

// RemainingGrace returns what is left of a termination's grace period, in seconds and at least 1
// (CK6); 0 if the grace is not known.
func (t *Termination) RemainingGrace(now time.Time) int64 {
	if t.GracePeriodSeconds <= 0 {
		return 0
	}
	passed := max(0, now.Sub(t.RequestedAt))
	return max(1, t.GracePeriodSeconds-int64(passed/time.Second))
}
