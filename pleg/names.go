package pleg

import (
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/runtime"
)

// RunningAs returns the pods with this namespace and name that have a running container or a ready
// sandbox in the cache, sorted by UID, without waiting. Several pods of one name run if a pod was
// replaced while no agent ran (spec/podworkers.md N6). It takes time in proportion to the number of
// pods with that name.
func (g *Generator) RunningAs(namespace, name string) []*runtime.Pod {
	return g.cache.runningAs(types.NamespacedName{Namespace: namespace, Name: name})
}

// runningAs implements RunningAs.
func (c *cache) runningAs(name types.NamespacedName) []*runtime.Pod {
	c.mu.RLock()
	var found []*runtime.PodStatus
	for _, uid := range c.names[name] {
		found = append(found, c.entries[uid].status)
	}
	c.mu.RUnlock()
	var pods []*runtime.Pod
	for _, status := range found {
		if pod := status.Listed(); pod.Running() {
			pods = append(pods, pod)
		}
	}
	return pods
}

// rename updates the index of names when the status of a pod changes; either status may be nil.
func (c *cache) rename(uid types.UID, before, after *runtime.PodStatus) {
	from, to := nameOf(before), nameOf(after)
	if from == to {
		return
	}
	if from != (types.NamespacedName{}) {
		left := slices.DeleteFunc(c.names[from], func(other types.UID) bool { return other == uid })
		if len(left) > 0 {
			c.names[from] = left
		} else {
			delete(c.names, from)
		}
	}
	if to != (types.NamespacedName{}) {
		at, _ := slices.BinarySearch(c.names[to], uid)
		c.names[to] = slices.Insert(c.names[to], at, uid)
	}
}

func nameOf(status *runtime.PodStatus) types.NamespacedName {
	if status == nil {
		return types.NamespacedName{}
	}
	return types.NamespacedName{Namespace: status.Namespace, Name: status.Name}
}
