package resize

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/podinfo"
)

// Node is what admission knows of the node.
type Node struct {
	// Allocatable is what all pods together may request; a resource that is missing
	// is not checked.
	Allocatable v1.ResourceList
	// StaticCPU and StaticMemory: Guaranteed pods have CPUs or memory of their own.
	StaticCPU, StaticMemory bool
	// Swap: containers may swap.
	Swap bool
	// NoUpdate: the runtime cannot change a running container.
	NoUpdate bool
}

// Verdict says whether a resize may be allocated. The zero Verdict: it may.
type Verdict struct {
	// Reason is [v1.PodReasonDeferred] or [v1.PodReasonInfeasible].
	Reason, Message string
}

// Admit decides about the change from one version of a pod to another (21.4). others is
// what all other pods of the node have been allocated.
func Admit(from, to *v1.Pod, others v1.ResourceList, node Node) Verdict {
	if message := infeasible(from, to, node); message != "" {
		return Verdict{Reason: v1.PodReasonInfeasible, Message: message}
	}
	for _, name := range resizable {
		capacity, ok := node.Allocatable[name]
		before, after := podinfo.Request(from, name), podinfo.Request(to, name)
		if !ok || after.Cmp(before) <= 0 {
			continue // less always fits
		}
		if after.Cmp(capacity) > 0 {
			return Verdict{v1.PodReasonInfeasible, fmt.Sprintf("the node has %s %s for pods, the pod asks for %s", capacity.String(), name, after.String())}
		}
		sum := others[name].DeepCopy()
		sum.Add(after)
		if sum.Cmp(capacity) > 0 {
			taken := others[name]
			return Verdict{v1.PodReasonDeferred, fmt.Sprintf("not enough %s: the pod asks for %s, other pods have %s of %s", name, after.String(), taken.String(), capacity.String())}
		}
	}
	return Verdict{}
}

// infeasible returns why the change can never be made, "" if it can.
func infeasible(from, to *v1.Pod, node Node) string {
	class := podinfo.QoS(from)
	if other := podinfo.QoS(to); other != class {
		return fmt.Sprintf("the QoS class of a pod cannot change, from %s to %s", class, other)
	}
	before, after := Of(from), Of(to)
	if (before.Pod == nil) != (after.Pod == nil) {
		return "resources of the pod as a whole cannot be added or removed"
	}
	if before.Pod != nil {
		if node.NoUpdate && !same(*before.Pod, *after.Pod) {
			return "the runtime cannot change the resources of the pod as a whole"
		}
		if name, gone := removed(*before.Pod, *after.Pod); gone {
			return fmt.Sprintf("the pod's %s cannot be removed", name)
		}
	}
	for _, list := range [][]v1.Container{to.Spec.InitContainers, to.Spec.Containers} {
		for i := range list {
			c := &list[i]
			old, ok := before.Containers[c.Name]
			if !ok {
				continue
			}
			if name, gone := removed(old, after.Containers[c.Name]); gone {
				return fmt.Sprintf("container %s: its %s cannot be removed", c.Name, name)
			}
			if message := forbidden(c, old, after.Containers[c.Name], class, node); message != "" {
				return fmt.Sprintf("container %s: %s", c.Name, message)
			}
		}
	}
	return ""
}

// removed names a request or limit that the pod had and no longer has.
func removed(before, after v1.ResourceRequirements) (string, bool) {
	for _, name := range resizable {
		for _, l := range []struct {
			what          string
			before, after v1.ResourceList
		}{{"request", before.Requests, after.Requests}, {"limit", before.Limits, after.Limits}} {
			_, was := l.before[name]
			if _, is := l.after[name]; was && !is {
				return string(name) + " " + l.what, true
			}
		}
	}
	return "", false
}

// forbidden returns why this node cannot change the container.
func forbidden(c *v1.Container, before, after v1.ResourceRequirements, class v1.PodQOSClass, node Node) string {
	for _, name := range resizable {
		request, limit := differ(before.Requests, after.Requests, name), differ(before.Limits, after.Limits, name)
		if !request && !limit {
			continue
		}
		restarts := slices.ContainsFunc(c.ResizePolicy, func(p v1.ContainerResizePolicy) bool {
			return p.ResourceName == name && p.RestartPolicy == v1.RestartContainer
		})
		switch {
		case class == v1.PodQOSGuaranteed && (node.StaticCPU && name == v1.ResourceCPU || node.StaticMemory && name == v1.ResourceMemory):
			return fmt.Sprintf("Guaranteed pods have %s of their own on this node", name)
		case name == v1.ResourceMemory && request && node.Swap && !restarts:
			return "its memory request cannot change without a restart on a node with swap"
		case node.NoUpdate && !restarts:
			return fmt.Sprintf("the runtime cannot change %s without a restart", name)
		}
	}
	return ""
}

func differ(a, b v1.ResourceList, name v1.ResourceName) bool {
	x, inX := a[name]
	y, inY := b[name]
	return inX != inY || x.Cmp(y) != 0
}

// Request is a resize that waits to be admitted.
type Request struct {
	UID      types.UID
	From, To *v1.Pod
	// Since is when it was first refused, or asked for.
	Since time.Time

	increases, guaranteed bool
}

// NewRequest returns a request.
func NewRequest(from, to *v1.Pod, since time.Time) Request {
	r := Request{UID: to.UID, From: from, To: to, Since: since}
	r.increases, r.guaranteed = increases(r), podinfo.QoS(from) == v1.PodQOSGuaranteed
	return r
}

// Sort orders requests as they are tried (21.4): those that ask for no more than they
// have, then by priority, Guaranteed before Burstable, the longest waiting
// first.
func Sort(list []Request) {
	first := func(a, b bool) int {
		switch {
		case a == b:
			return 0
		case a:
			return -1
		}
		return 1
	}
	slices.SortStableFunc(list, func(a, b Request) int {
		return cmp.Or(
			first(!a.increases, !b.increases),
			cmp.Compare(podinfo.Priority(b.To), podinfo.Priority(a.To)),
			first(a.guaranteed, b.guaranteed),
			a.Since.Compare(b.Since),
			cmp.Compare(a.UID, b.UID),
		)
	})
}

func increases(r Request) bool {
	for _, name := range resizable {
		before, after := podinfo.Request(r.From, name), podinfo.Request(r.To, name)
		if after.Cmp(before) > 0 {
			return true
		}
	}
	return false
}
