package shutdown

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/internal/podinfo"
)

// Reason and Message of pods that ended because their node shut down.
const (
	Reason  = "Terminated"
	Message = "Pod was terminated in response to imminent node shutdown."
)

// Group is the pods from one priority up to that of the next group.
type Group struct {
	Priority int32
	// Time is what its pods have together, rounded down to whole seconds.
	Time time.Duration
}

// Plan is how a node shuts down. The zero value has one group of all pods, with
// [DefaultTime].
type Plan struct {
	// Groups in any order, each with a priority of its own.
	Groups []Group
}

// DefaultTime is the time of all pods in a plan without groups.
const DefaultTime = 30 * time.Second

// Validate reports every problem of a plan.
func (p Plan) Validate() error {
	var problems []error
	seen := map[int32]bool{}
	for i, g := range p.Groups {
		if g.Time < time.Second {
			problems = append(problems, fmt.Errorf("shutdown: Groups[%d] has %v, want at least a second", i, g.Time))
		}
		if seen[g.Priority] {
			problems = append(problems, fmt.Errorf("shutdown: two groups have priority %d", g.Priority))
		}
		seen[g.Priority] = true
	}
	return errors.Join(problems...)
}

// Batch is the pods of one group.
type Batch struct {
	Group
	Pods []*v1.Pod
}

// Batches sorts pods into the groups, lowest priority first: a pod belongs to the
// group with the highest priority that is not above its own, and to the lowest group if
// its own is below all. Groups without pods are left out, so they cost no time.
func (p Plan) Batches(pods []*v1.Pod) []Batch {
	groups := slices.Clone(p.Groups)
	if len(groups) == 0 {
		groups = []Group{{Time: DefaultTime}}
	}
	slices.SortFunc(groups, func(a, b Group) int { return cmp.Compare(a.Priority, b.Priority) })
	all := make([]Batch, len(groups))
	for _, pod := range pods {
		at := 0
		for i, g := range groups {
			if g.Priority <= podinfo.ClaimedPriority(pod) {
				at = i
			}
		}
		all[at].Pods = append(all[at].Pods, pod)
	}
	var out []Batch
	for i, b := range all {
		if b.Group = groups[i]; len(b.Pods) > 0 {
			out = append(out, b)
		}
	}
	return out
}

// Grace is how many seconds a pod of the group has: its own grace, or the group's time
// if that is less.
func (g Group) Grace(pod *v1.Pod) int64 {
	seconds := int64(g.Time / time.Second)
	if own := pod.Spec.TerminationGracePeriodSeconds; own != nil {
		seconds = min(seconds, *own)
	}
	return seconds
}

// Ended reports whether a pod ended only because its node stopped.
func Ended(s *v1.PodStatus) bool {
	return s.Phase == v1.PodFailed && s.Reason == Reason && s.Message == Message
}

// Amend edits the status of a pod that is stopped: Failed with the reason, unless it
// has succeeded, and with the condition DisruptionTarget in any case. It may be called
// any number of times.
func Amend(s *v1.PodStatus) {
	if s.Phase != v1.PodSucceeded {
		s.Phase, s.Reason, s.Message = v1.PodFailed, Reason, Message
	}
	s.Conditions = append(slices.DeleteFunc(s.Conditions, func(c v1.PodCondition) bool { return c.Type == v1.DisruptionTarget }),
		v1.PodCondition{Type: v1.DisruptionTarget, Status: v1.ConditionTrue, Reason: v1.PodReasonTerminationByKubelet, Message: Message})
}
