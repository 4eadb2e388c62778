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
	FinishedAt      func(uid types.UID, id runtime.ContainerID) time.Time
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
			u, cut = keep(u, policy.MaxPerContainer)
			victims = append(victims, because(cut, becauseMore)...)
			if len(u) > 0 {
				units = append(units, u)
			}
		}
	}
	cut := overTotal(units, policy.MaxContainers)
	victims = append(victims, because(cut, becauseTotal)...)
	goes := map[string]bool{}
	for _, c := range cut {
		goes[c.ID.ID] = true
	}
	for _, u := range units {
		for i, c := range u {
			if c.Kept = keptLimit(); i == 0 {
				c.Kept = keptNewest()
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

// keep splits off what is beyond the newest n; a negative n keeps all.
func keep(unit []Container, n int) (kept, cut []Container) {
	if n < 0 || len(unit) <= n {
		return unit, nil
	}
	return unit[:n], unit[n:]
}

// overTotal cuts every unit to its share of the total and then drops the oldest
// (spec/cleanup.md CG4 c).
func overTotal(units [][]Container, total int) (victims []Container) {
	count := 0
	for _, u := range units {
		count += len(u)
	}
	if total < 0 || count <= total {
		return nil
	}
	share := max(1, total/len(units))
	var rest []Container
	for _, u := range units {
		kept, cut := keep(u, share)
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
