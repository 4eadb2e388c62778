package pods

import (
	"container/list"

	"k8s.io/apimachinery/pkg/types"
)

// maxReasons bounds the start failures that are remembered (spec/runtime.md 22.2).
const maxReasons = 1000

// reasons has the latest start failure of each container. If there are too many, the
// oldest is dropped. It is guarded by Manager.mu.
type reasons struct {
	pods map[types.UID]map[string]*list.Element
	// order has *reason values, the latest in front.
	order list.List
}

type reason struct {
	pod       types.UID
	container string
	waiting   Waiting
}

// note remembers why a container could not be started.
func (r *reasons) note(pod types.UID, container string, w Waiting) {
	r.clear(pod, container)
	if r.pods == nil {
		r.pods = map[types.UID]map[string]*list.Element{}
	}
	if r.pods[pod] == nil {
		r.pods[pod] = map[string]*list.Element{}
	}
	r.pods[pod][container] = r.order.PushFront(&reason{pod, container, w})
	if r.order.Len() > maxReasons {
		oldest := r.order.Back().Value.(*reason)
		r.clear(oldest.pod, oldest.container)
	}
}

// clear forgets what was noted of a container.
func (r *reasons) clear(pod types.UID, container string) {
	e := r.pods[pod][container]
	if e == nil {
		return
	}
	r.order.Remove(e)
	delete(r.pods[pod], container)
	if len(r.pods[pod]) == 0 {
		delete(r.pods, pod)
	}
}

// forget drops everything about a pod.
func (r *reasons) forget(pod types.UID) {
	for container := range r.pods[pod] {
		r.clear(pod, container)
	}
}

// of returns what is noted of a pod's containers. The map is the caller's.
func (r *reasons) of(pod types.UID) map[string]Waiting {
	out := make(map[string]Waiting, len(r.pods[pod]))
	for container, e := range r.pods[pod] {
		out[container] = e.Value.(*reason).waiting
	}
	return out
}
