package checkpoint

import (
	"reflect"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/podwright/podwright/internal/podinfo"
)

// reasonUnknown is the reason of an end that was not seen, that is, a guess.
const reasonUnknown = "ContainerStatusUnknown"

// reasonRestartAll is the reason of an end caused by a restart of all containers.
const reasonRestartAll = "RestartingAllContainers"

// Observe takes a new status into a record, which must be a [Record.Clone], and returns how soon
// the change has to be on the disk (spec/status.md 9.2): a phase that becomes terminal and a
// restart at once, everything else lazily. It keeps the newest two ends of each container.
func (r *Record) Observe(status *v1.PodStatus, version uint64) Class {
	next := protect(r, status)
	ended := podinfo.Terminal(next.Phase) && !r.Terminal()
	same := r.Status != nil && equality.Semantic.DeepEqual(r.Status, next)
	if same && r.Version == version {
		return Unchanged
	}
	r.Status, r.Version = next, version
	restarted := false
	eachStatus(next, func(cs *v1.ContainerStatus) { restarted = r.observeContainer(cs) || restarted })
	if ended || restarted {
		return Durable
	}
	return Lazy
}

// eachStatus calls f for every container status.
func eachStatus(s *v1.PodStatus, f func(*v1.ContainerStatus)) {
	for _, list := range [...][]v1.ContainerStatus{s.InitContainerStatuses, s.ContainerStatuses, s.EphemeralContainerStatuses} {
		for i := range list {
			f(&list[i])
		}
	}
}

// observeContainer records what a status says of one container, and reports whether the container
// was restarted.
func (r *Record) observeContainer(cs *v1.ContainerStatus) (restarted bool) {
	c, _ := r.Container(cs.Name)
	if c.ID != cs.ContainerID && cs.ContainerID != "" {
		c.ID, c.Probes = cs.ContainerID, nil
	}
	c.Name, c.Ready = cs.Name, cs.Ready
	c.Started = cs.Started != nil && *cs.Started
	restarted = cs.RestartCount > c.RestartCount
	c.RestartCount = max(c.RestartCount, cs.RestartCount)
	if cs.State.Running != nil {
		c.StartedAt = cs.State.Running.StartedAt.Time
	}
	if t := cs.LastTerminationState.Terminated; t != nil {
		c.AddEnd(endOf(t, lastRun(cs)))
	}
	if t := cs.State.Terminated; t != nil {
		c.AddEnd(endOf(t, cs.RestartCount))
	}
	r.SetContainer(c)
	return restarted
}

// lastRun returns the number of the run whose end is the last state: the run before the newest,
// unless the container waits for its next run, which counts only once it runs. A guess, and an end
// caused by a restart of all containers, were counted as soon as they were shown.
func lastRun(cs *v1.ContainerStatus) int32 {
	last := cs.LastTerminationState.Terminated
	if cs.State.Waiting != nil && last.Reason != reasonUnknown && last.Reason != reasonRestartAll {
		return cs.RestartCount
	}
	return max(0, cs.RestartCount-1)
}

func endOf(t *v1.ContainerStateTerminated, count int32) End {
	return End{
		ID: t.ContainerID, ExitCode: t.ExitCode, Signal: t.Signal, Reason: t.Reason, Message: t.Message,
		StartedAt: t.StartedAt.Time, FinishedAt: t.FinishedAt.Time, RestartCount: count,
	}
}

// AddEnd records how a run ended and reports whether the record changed. A guess does not replace a
// known end (spec/status.md 9.4); otherwise the later report of a run counts.
func (c *Container) AddEnd(e End) bool {
	e.Message = cut(e.Message, maxMessage)
	for i := range c.Ends {
		if c.Ends[i].ID != e.ID {
			continue
		}
		if c.Ends[i] == e || e.Guess() && !c.Ends[i].Guess() {
			return false
		}
		if e.Message == "" {
			e.Message = c.Ends[i].Message
		}
		e.RestartCount = max(e.RestartCount, c.Ends[i].RestartCount)
		if reflect.DeepEqual(c.Ends[i], e) {
			return false
		}
		c.Ends = slices.Clone(c.Ends)
		c.Ends[i] = e
		return true
	}
	ends := append([]End{e}, c.Ends...)
	slices.SortStableFunc(ends, newerFirst)
	if len(ends) > 2 {
		ends = ends[:2]
	}
	added := slices.ContainsFunc(ends, func(kept End) bool { return kept.ID == e.ID })
	c.Ends = ends
	return added
}

// newerFirst orders ends by their restart count, then by time.
func newerFirst(a, b End) int {
	switch {
	case a.RestartCount != b.RestartCount:
		return int(b.RestartCount) - int(a.RestartCount)
	default:
		return b.FinishedAt.Compare(a.FinishedAt)
	}
}

// Guess reports whether this end was not seen.
func (e End) Guess() bool { return e.Reason == reasonUnknown }

// EndOf returns the recorded end of a run, given its ID in the form a status uses.
func (r *Record) EndOf(name, id string) (End, bool) {
	c, _ := r.Container(name)
	for _, e := range c.Ends {
		if e.ID == id && id != "" {
			return e, true
		}
	}
	return End{}, false
}
