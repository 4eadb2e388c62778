package sweep

import (
	"cmp"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/rule"
	"github.com/podwright/podwright/runtime"
)

// unstartedAge keeps containers that were created and are not running yet: they
// may be about to start (spec/cleanup.md CG2).
const unstartedAge = time.Minute

// Policy says what may be removed. A negative limit means no limit.
type Policy struct {
	MinAge time.Duration
	// FinishedAt returns when a container ended, zero if that is not known. Nil:
	// never known.
	FinishedAt func(uid types.UID, id runtime.ContainerID) time.Time
	// NeverRan reports whether an exited container never ran, because its start was aborted. Nil:
	// not known of any.
	NeverRan        func(uid types.UID, id runtime.ContainerID) bool
	MaxPerContainer int
	MaxContainers   int
	// Gone reports whether a pod loses everything that is dead.
	Gone func(uid types.UID) bool
}

// Container is a container that does not run, with the decision about it.
type Container struct {
	Pod *runtime.Pod
	*runtime.Container
	// Reason says why it is removed; Kept is the rule that keeps it. One of them is empty.
	Reason string
	Kept   rule.Denial

	// made is the earliest creation of it and the later runs of its name: the clock may have been
	// set back in between.
	made time.Time
}

// oldestFirst orders containers of all pods.
func oldestFirst(a, b Container) int {
	return cmp.Or(a.made.Compare(b.made), cmp.Compare(a.Attempt, b.Attempt), cmp.Compare(a.ID.ID, b.ID.ID))
}

// Why containers and sandboxes are removed or kept.
const (
	becauseGone  = "nothing of its pod is needed any more"
	becauseMore  = "more of its name are kept than allowed"
	becauseTotal = "more are kept than allowed in total"
	becauseOld   = "a newer sandbox has taken its place"
)

func keptNewest() rule.Denial {
	return rule.LastRecord.Because("the newest of its name tells how it ended")
}

func keptYoung() rule.Denial {
	return rule.WithinLimits.Because("it ended too recently")
}

func keptUnstarted() rule.Denial {
	return rule.NotStartedYet.Because("it may be about to start")
}

func keptUntilNext() rule.Denial {
	return rule.NotStartedYet.Because("it never ran, and the next start of its name takes its place")
}

func keptLimit() rule.Denial {
	return rule.WithinLimits.Because("as many of its name may be kept")
}

func keptReady() rule.Denial { return rule.SandboxReady.Because("it is ready") }

func keptUsed() rule.Denial {
	return rule.SandboxInUse.Because("containers belong to it")
}

func keptNewSandbox() rule.Denial {
	return rule.SandboxInUse.Because("the newest sandbox of a living pod")
}

// Containers returns the containers to remove, oldest first, then those that do not
// run but stay. It never returns a running one.
func Containers(pods []*runtime.Pod, policy Policy, now time.Time) []Container {
	var victims, stay []Container
	var units [][]Container
	for _, pod := range pods {
		of, young := unitsOf(pod, policy, now)
		stay = append(stay, young...)
		if policy.Gone(pod.UID) {
			for _, u := range of {
				victims = append(victims, because(u, becauseGone)...)
			}
			continue
		}
		for _, u := range of {
			var cut []Container
			u, cut = policy.keep(u, policy.MaxPerContainer)
			victims = append(victims, because(cut, becauseMore)...)
			if len(u) > 0 {
				units = append(units, u)
			}
		}
	}
	cut := policy.overTotal(units)
	victims = append(victims, because(cut, becauseTotal)...)
	goes := map[string]bool{}
	for _, c := range cut {
		goes[c.ID.ID] = true
	}
	for _, u := range units {
		told := false
		for _, c := range u {
			switch never := policy.neverRan(c); {
			case never:
				c.Kept = keptUntilNext()
			case told:
				c.Kept = keptLimit()
			default:
				c.Kept, told = keptNewest(), true
			}
			if !goes[c.ID.ID] {
				stay = append(stay, c)
			}
		}
	}
	slices.SortStableFunc(victims, oldestFirst)
	return append(victims, stay...)
}

func because(list []Container, reason string) []Container {
	for i := range list {
		list[i].Reason = reason
	}
	return list
}

// unitsOf groups a pod's candidates by container name, newest first in each, and
// also returns those that are too young.
func unitsOf(pod *runtime.Pod, policy Policy, now time.Time) (units [][]Container, young []Container) {
	index := map[string]int{}
	for _, c := range pod.Containers {
		switch {
		case c.State == runtime.Running:
			continue
		case policy.MinAge > 0 && now.Sub(policy.end(pod, c)) < policy.MinAge:
			// Without a minimum the clock does not matter.
			young = append(young, Container{Pod: pod, Container: c, Kept: keptYoung()})
			continue
		case c.State == runtime.Created && now.Sub(c.CreatedAt) < unstartedAge:
			young = append(young, Container{Pod: pod, Container: c, Kept: keptUnstarted()})
			continue
		}
		i, ok := index[c.Name]
		if !ok {
			i = len(units)
			index[c.Name] = i
			units = append(units, nil)
		}
		made := c.CreatedAt
		if n := len(units[i]); n > 0 && units[i][n-1].made.Before(made) {
			made = units[i][n-1].made
		}
		units[i] = append(units[i], Container{Pod: pod, Container: c, made: made})
	}
	return units, young
}

// end is when a container's age begins: its end, or its creation if its end is not
// known (spec/cleanup.md CG2).
func (p *Policy) end(pod *runtime.Pod, c *runtime.Container) time.Time {
	if p.FinishedAt != nil && c.State == runtime.Exited {
		if end := p.FinishedAt(pod.UID, c.ID); !end.IsZero() {
			return end
		}
	}
	return c.CreatedAt
}

// neverRan reports whether a container was only created.
func (p *Policy) neverRan(c Container) bool {
	return c.State == runtime.Created || c.State == runtime.Exited && p.NeverRan != nil && p.NeverRan(c.Pod.UID, c.ID)
}

// keep splits off what is beyond the newest n; a negative n keeps all. One that never ran does not
// count: it tells nothing of how the run before it ended. The newest of its name stays beside the
// runs, because its start may still be under way, and no other does (spec/cleanup.md CG9).
func (p *Policy) keep(unit []Container, n int) (kept, cut []Container) {
	if n < 0 {
		return unit, nil
	}
	runs := 0
	for i, c := range unit {
		switch never := p.neverRan(c); {
		case never && i == 0 && n > 0:
			kept = append(kept, c)
		case never || runs == n:
			cut = append(cut, c)
		default:
			kept = append(kept, c)
			runs++
		}
	}
	return kept, cut
}

// overTotal cuts every unit to its share of the total and then drops the oldest
// (spec/cleanup.md CG4 c).
func (p *Policy) overTotal(units [][]Container) (victims []Container) {
	count, total := 0, p.MaxContainers
	for _, u := range units {
		count += len(u)
	}
	if total < 0 || count <= total {
		return nil
	}
	share := max(1, total/len(units))
	var rest []Container
	for _, u := range units {
		kept, cut := p.keep(u, share)
		victims = append(victims, cut...)
		rest = append(rest, kept...)
	}
	if len(rest) > total {
		slices.SortFunc(rest, oldestFirst)
		victims = append(victims, rest[:len(rest)-total]...)
	}
	return victims
}

// Sandbox is a sandbox with the decision about it.
type Sandbox struct {
	Pod *runtime.Pod
	*runtime.Sandbox
	// Reason and Kept are as in Container.
	Reason string
	Kept   rule.Denial
}

// Sandboxes returns the decision about each sandbox, given the containers that have been
// removed since the list was read. It keeps a ready one, one that still has a container,
// and the newest of a pod that is not gone (spec/cleanup.md SB1 to SB3).
func Sandboxes(pods []*runtime.Pod, gone func(uid types.UID) bool, removed map[string]bool) []Sandbox {
	var out []Sandbox
	for _, pod := range pods {
		used := map[string]bool{}
		for _, c := range pod.Containers {
			if !removed[c.ID.ID] {
				used[c.SandboxID] = true
			}
		}
		all := gone(pod.UID)
		for i, s := range pod.Sandboxes {
			choice := Sandbox{Pod: pod, Sandbox: s}
			switch newest := i == 0; {
			case s.State == runtime.Running:
				choice.Kept = keptReady()
			case used[s.ID]:
				choice.Kept = keptUsed()
			case newest && !all:
				choice.Kept = keptNewSandbox()
			case all:
				choice.Reason = becauseGone
			default:
				choice.Reason = becauseOld
			}
			out = append(out, choice)
		}
	}
	return out
}
