package node

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/runtime/pods"
)

// Overheads gives pods the overhead of their runtime class, as an API server would when it accepts
// them (spec/runtime.md 3.10, FD3).
type Overheads struct {
	// Classes knows the runtime classes, from [Users.RuntimeClasses]; nil if there are none.
	Classes pods.RuntimeClassGetter
	// Known returns a pod as it was last desired, or nil.
	Known func(uid types.UID) *v1.Pod
}

// Fill returns the pods; those that name a class but no overhead are replaced by copies that have it.
// If a class cannot be read, complete is false: a pod that already had the class's overhead keeps it,
// because running pods need it (KO11), and others stay as they are: their sandbox waits for the class.
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
		if err != nil {
			complete = false
			class.Overhead = o.before(pod.UID, *name)
		}
		if len(class.Overhead) == 0 {
			continue
		}
		withOverhead := *pod
		withOverhead.Spec.Overhead = class.Overhead.DeepCopy()
		out[i] = &withOverhead
	}
	return out, complete
}

// before returns the overhead that a pod of this class has had until now.
func (o Overheads) before(uid types.UID, class string) v1.ResourceList {
	known := o.Known(uid)
	if known == nil || known.Spec.RuntimeClassName == nil || *known.Spec.RuntimeClassName != class {
		return nil
	}
	return known.Spec.Overhead
}
