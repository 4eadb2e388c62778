package node

import (
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/runtime/pods"
)

// Overheads gives pods the overhead of their runtime class, as an API server would when it
// takes them (spec/runtime.md 3.10, FD3).
type Overheads struct {
	// Classes knows the runtime classes, as [Users.RuntimeClasses] has them; nil if there are none.
	Classes pods.RuntimeClassGetter
}

// Fill returns the pods; those that name a class and no overhead are copies that have it. A pod
// whose class cannot be read stays as it is, and complete is false: its sandbox waits for the class.
func (o Overheads) Fill(list []*v1.Pod) (out []*v1.Pod, complete bool) {
	if o.Classes == nil {
		return list, true
	}
	out, complete = slices.Clone(list), true
	for i, pod := range list {
		name := pod.Spec.RuntimeClassName
		if name == nil || *name == "" || len(pod.Spec.Overhead) > 0 {
			continue
		}
		class, err := o.Classes.RuntimeClass(*name)
		complete = complete && err == nil
		if err != nil || len(class.Overhead) == 0 {
			continue
		}
		withOverhead := *pod
		withOverhead.Spec.Overhead = class.Overhead.DeepCopy()
		out[i] = &withOverhead
	}
	return out, complete
}
