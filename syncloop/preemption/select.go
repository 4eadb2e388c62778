package preemption

import (
	"cmp"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/podwright/podwright/internal/podinfo"
)

// Node is the capacity that all pods share.
type Node struct {
	// Allocatable limits the resources it names.
	Allocatable v1.ResourceList
	// MaxPods limits the number of pods. 0: no limit.
	MaxPods int
}

// Pod is an active pod.
type Pod struct {
	Pod *v1.Pod
	// Class is its QoS class.
	Class v1.PodQOSClass
	// Critical pods make room only for a pod of higher priority.
	Critical bool
}

// amounts are quantities by resource, the places of pods included; a positive one is missing.
type amounts map[v1.ResourceName]resource.Quantity

// Select returns the pods that have to go so that the critical pod fits; none if it
// fits already. A pod may go if it is not critical or if its priority is lower. The
// choice has as few Guaranteed pods as possible, then as few Burstable, then as few
// BestEffort ones; among equals it prefers the lowest priority. The order of
// active does not matter. Select changes nothing. An error says that the node has too little
// room even without every pod that may go, and what is missing.
func Select(pod *v1.Pod, active []Pod, node Node) ([]*v1.Pod, error) {
	short := missing(pod, active, node)
	if len(short) == 0 {
		return nil, nil
	}
	var levels [3][]Pod // Guaranteed, Burstable, BestEffort
	for _, p := range active {
		if !p.Critical || priority(p.Pod) < priority(pod) {
			levels[level(p.Class)] = append(levels[level(p.Class)], p)
		}
	}
	if left := without(short, slices.Concat(levels[:]...)); len(left) > 0 {
		return nil, fmt.Errorf("not enough room even without every pod of lower priority: %s is missing", left)
	}
	var chosen []Pod
	for i := range levels {
		// rest is what the later levels and the pods already chosen cannot give.
		rest := without(short, append(slices.Concat(levels[i+1:]...), chosen...))
		chosen = append(chosen, fewest(rest, levels[i])...)
	}
	chosen = needed(short, chosen)
	out := make([]*v1.Pod, len(chosen))
	for i, p := range chosen {
		out[i] = p.Pod
	}
	return out, nil
}

// missing returns what the node has too little of.
func missing(pod *v1.Pod, active []Pod, node Node) amounts {
	used, wanted := amounts{}, requests(pod)
	for name, q := range wanted {
		used.add(name, q)
	}
	for _, p := range active {
		for name, q := range requests(p.Pod) {
			used.add(name, q)
		}
	}
	if node.MaxPods > 0 {
		used.sub(v1.ResourcePods, *resource.NewQuantity(int64(node.MaxPods), resource.DecimalSI))
	} else {
		delete(used, v1.ResourcePods)
	}
	for name := range used {
		if name == v1.ResourcePods {
			continue
		}
		has, limited := node.Allocatable[name]
		if q := wanted[name]; !limited || q.IsZero() {
			delete(used, name)
			continue
		}
		used.sub(name, has)
	}
	return used.short()
}

// requests returns what a pod takes, including its place among the pods.
func requests(pod *v1.Pod) v1.ResourceList {
	out := podinfo.Requests(pod)
	out[v1.ResourcePods] = resource.MustParse("1")
	return out
}

// without returns what is still missing when pods have gone.
func without(short amounts, pods []Pod) amounts {
	left := short.clone()
	for _, p := range pods {
		for name, q := range requests(p.Pod) {
			if _, ok := left[name]; ok {
				left.sub(name, q)
			}
		}
	}
	return left.short()
}

// fewest picks pods until nothing is missing. Each time it picks the pod that leaves the
// smallest shares missing; among equals, the one of lowest priority.
func fewest(short amounts, pods []Pod) []Pod {
	var out []Pod
	pods = slices.Clone(pods)
	for len(short) > 0 && len(pods) > 0 {
		best := slices.MinFunc(pods, func(a, b Pod) int {
			return cmp.Or(
				cmp.Compare(distance(short, a), distance(short, b)),
				cmp.Compare(priority(a.Pod), priority(b.Pod)),
				cmp.Compare(a.Pod.UID, b.Pod.UID),
			)
		})
		out = append(out, best)
		short = without(short, []Pod{best})
		pods = slices.DeleteFunc(pods, func(p Pod) bool { return p.Pod == best.Pod })
	}
	return out
}

// distance is how much is missing after a pod has gone, as a sum of shares.
func distance(short amounts, p Pod) float64 {
	sum := 0.0
	gives := requests(p.Pod)
	for name, want := range short {
		left := want.DeepCopy()
		left.Sub(gives[name])
		if left.Sign() > 0 {
			sum += left.AsApproximateFloat64() / want.AsApproximateFloat64()
		}
	}
	return sum
}

// needed drops pods that others make unnecessary, the most guaranteed first.
func needed(short amounts, chosen []Pod) []Pod {
	for i := 0; i < len(chosen); {
		rest := slices.Delete(slices.Clone(chosen), i, i+1)
		if len(without(short, rest)) == 0 {
			chosen = rest
			continue
		}
		i++
	}
	return chosen
}

func level(class v1.PodQOSClass) int {
	switch class {
	case v1.PodQOSGuaranteed:
		return 0
	case v1.PodQOSBurstable:
		return 1
	}
	return 2
}

func priority(pod *v1.Pod) int32 {
	if pod.Spec.Priority == nil {
		return 0
	}
	return *pod.Spec.Priority
}

func (a amounts) add(name v1.ResourceName, q resource.Quantity) {
	sum := a[name]
	sum.Add(q)
	a[name] = sum
}

func (a amounts) sub(name v1.ResourceName, q resource.Quantity) {
	left := a[name]
	left.Sub(q)
	a[name] = left
}

func (a amounts) clone() amounts {
	out := make(amounts, len(a))
	for name, q := range a {
		out[name] = q.DeepCopy()
	}
	return out
}

// short keeps the positive amounts.
func (a amounts) short() amounts {
	for name, q := range a {
		if q.Sign() <= 0 {
			delete(a, name)
		}
	}
	return a
}

// String lists the amounts by name.
func (a amounts) String() string {
	names := make([]string, 0, len(a))
	for name, q := range a {
		names = append(names, fmt.Sprintf("%s %s", q.String(), name))
	}
	slices.Sort(names)
	return fmt.Sprint(names)
}
