// Package sweep chooses the dead containers and sandboxes that garbage collection
// removes (spec/cleanup.md 6, 7). It is pure: the runtime's list and the time
// come in, the choice goes out, and the same input gives the same choice.
//
//	pods, Policy, now ──► Containers ──► removed? ──► Sandboxes
package sweep

import (
	"cmp"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/runtime"
)

// unstartedAge keeps containers that were created and are not running yet: they
// may be about to start (spec/cleanup.md CG2).
const unstartedAge = time.Minute

// Policy is what may go. Negative limits are none.
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

// Container is a container to remove.
type Container struct {
	Pod *runtime.Pod
	*runtime.Container
}

// Containers returns the containers to remove, oldest first. It never returns a
// running one.
func Containers(pods []*runtime.Pod, policy Policy, now time.Time) []Container {
	var victims []Container
	var units [][]Container
	for _, pod := range pods {
		of := unitsOf(pod, policy, now)
		if policy.Gone(pod.UID) {
			for _, u := range of {
				victims = append(victims, u...)
			}
			continue
		}
		for _, u := range of {
			var cut []Container
			u, cut = keep(u, policy.MaxPerContainer)
			victims = append(victims, cut...)
			if len(u) > 0 {
				units = append(units, u)
			}
		}
	}
	victims = append(victims, overTotal(units, policy.MaxContainers)...)
	slices.SortStableFunc(victims, func(a, b Container) int {
		return cmp.Or(a.CreatedAt.Compare(b.CreatedAt), cmp.Compare(a.ID.ID, b.ID.ID))
	})
	return victims
}

// unitsOf groups a pod's candidates by container name, newest first in each.
func unitsOf(pod *runtime.Pod, policy Policy, now time.Time) [][]Container {
	index := map[string]int{}
	var units [][]Container
	for _, c := range pod.Containers {
		switch {
		case c.State == runtime.Running:
			continue
		case policy.MinAge > 0 && now.Sub(policy.end(pod, c)) < policy.MinAge:
			continue // without a minimum it does not matter what the clock says
		case c.State == runtime.Created && now.Sub(c.CreatedAt) < unstartedAge:
			continue
		}
		i, ok := index[c.Name]
		if !ok {
			i = len(units)
			index[c.Name] = i
			units = append(units, nil)
		}
		units[i] = append(units[i], Container{Pod: pod, Container: c})
	}
	return units
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
		slices.SortFunc(rest, func(a, b Container) int {
			return cmp.Or(a.CreatedAt.Compare(b.CreatedAt), cmp.Compare(a.ID.ID, b.ID.ID))
		})
		victims = append(victims, rest[:len(rest)-total]...)
	}
	return victims
}

// Sandboxes returns the sandboxes to remove, given the containers that have been
// removed since the list was read. It never returns a ready one, one that still
// has a container, or the newest of a pod that is not gone (spec/cleanup.md SB1
// to SB3).
func Sandboxes(pods []*runtime.Pod, gone func(uid types.UID) bool, removed map[string]bool) []*runtime.Sandbox {
	var victims []*runtime.Sandbox
	for _, pod := range pods {
		used := map[string]bool{}
		for _, c := range pod.Containers {
			if !removed[c.ID.ID] {
				used[c.SandboxID] = true
			}
		}
		all := gone(pod.UID)
		for i, s := range pod.Sandboxes {
			newest := i == 0
			if s.State == runtime.Running || used[s.ID] || (newest && !all) {
				continue
			}
			victims = append(victims, s)
		}
	}
	return victims
}
