package preemption

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/podwright/podwright/internal/podinfo"
)

// Node is the capacity that all pods share.
type Node struct {
	// Allocatable limits the resources it names. The node has none of an extended resource, or of
	// huge pages, that it does not name.
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
// BestEffort ones; among equals it prefers the lowest priority. Where several resources
// are missing, it is only close to that. The order of active does not matter. Select changes nothing. An error says that the node has too little
// room even without every pod that may go, and what is missing.
func Select(pod *v1.Pod, active []Pod, node Node) ([]*v1.Pod, error) {
	short := missing(pod, active, node)
	if len(short) == 0 {
		return nil, nil
	}
	var levels [3][]candidate // Guaranteed, Burstable, BestEffort
	for _, p := range active {
		if !p.Critical || podinfo.ClaimedPriority(p.Pod) < podinfo.ClaimedPriority(pod) {
			levels[level(p.Class)] = append(levels[level(p.Class)], candidateOf(p.Pod, short))
		}
	}
	if left := without(short, slices.Concat(levels[:]...)); len(left) > 0 {
		return nil, fmt.Errorf("not enough room even without every pod of lower priority: %s is missing", left)
	}
	var chosen []candidate
	for i := range levels {
		// rest is what the later levels and the pods already chosen cannot give.
		rest := without(short, append(slices.Concat(levels[i+1:]...), chosen...))
		chosen = append(chosen, fewest(rest, without(short, chosen), levels[i])...)
	}
	chosen = needed(short, chosen)
	for i := range levels {
		chosen = lowest(short, chosen, levels[i])
	}
	out := make([]*v1.Pod, len(chosen))
	for i, c := range chosen {
		out[i] = c.pod
	}
	return out, nil
}

// candidate is a pod that may go.
type candidate struct {
	pod *v1.Pod
	// gives is what it has of what is missing.
	gives amounts
}

func candidateOf(pod *v1.Pod, short amounts) candidate {
	gives := amounts(requests(pod))
	maps.DeleteFunc(gives, func(name v1.ResourceName, _ resource.Quantity) bool { _, missing := short[name]; return !missing })
	return candidate{pod, gives}
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
		if q := wanted[name]; !limited && !podinfo.Scarce(name) || q.IsZero() {
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

// without returns what is still missing when candidates have gone.
func without(short amounts, gone []candidate) amounts { return balance(short, gone).short() }

// balance returns what is missing, or left over if negative, when candidates have gone.
func balance(short amounts, gone []candidate) amounts {
	left := short.clone()
	for _, c := range gone {
		for name, q := range c.gives {
			if _, ok := left[name]; ok {
				left.sub(name, q)
			}
		}
	}
	return left
}

// fewest picks candidates until nothing of rest is missing. Each time it picks the one that leaves the
// smallest shares of it missing; among equals, the one that leaves least of all that is short, so that
// later levels have less to give; among equals of these, the one of lowest priority.
func fewest(rest, short amounts, from []candidate) []candidate {
	var out []candidate
	from = slices.Clone(from)
	for len(rest) > 0 && len(from) > 0 {
		best, least, leastShort := 0, distance(rest, from[0]), distance(short, from[0])
		for i := 1; i < len(from); i++ {
			d, s := distance(rest, from[i]), distance(short, from[i])
			if cmp.Or(cmp.Compare(d, least), cmp.Compare(s, leastShort), byPriority(from[i].pod, from[best].pod)) < 0 {
				best, least, leastShort = i, d, s
			}
		}
		out = append(out, from[best])
		rest, short = without(rest, from[best:best+1]), without(short, from[best:best+1])
		from = slices.Delete(from, best, best+1)
	}
	return out
}

// lowest replaces chosen candidates by others of the same level that have a lower priority and do as well.
func lowest(short amounts, chosen, level []candidate) []candidate {
	left := balance(short, chosen)
	in := map[*v1.Pod]bool{}
	for _, c := range chosen {
		in[c.pod] = true
	}
	byPriority := func(a, b candidate) int { return byPriority(a.pod, b.pod) }
	others := slices.SortedFunc(slices.Values(level), byPriority)
	for _, c := range slices.Backward(others) { // the highest priority first
		if !in[c.pod] {
			continue
		}
		for _, other := range others {
			if byPriority(other, c) >= 0 {
				break
			}
			if in[other.pod] || !replaces(left, c, other) {
				continue
			}
			chosen[slices.IndexFunc(chosen, func(x candidate) bool { return x.pod == c.pod })] = other
			left = balance(short, chosen)
			in[c.pod], in[other.pod] = false, true
			break
		}
	}
	return chosen
}

// replaces reports whether nothing is missing if one candidate stays and another goes instead.
func replaces(left amounts, stays, goes candidate) bool {
	for name, q := range left {
		q = q.DeepCopy()
		q.Add(stays.gives[name])
		q.Sub(goes.gives[name])
		if q.Sign() > 0 {
			return false
		}
	}
	return true
}

// byPriority orders pods, lowest priority first.
func byPriority(a, b *v1.Pod) int {
	return cmp.Or(cmp.Compare(podinfo.ClaimedPriority(a), podinfo.ClaimedPriority(b)), cmp.Compare(a.UID, b.UID))
}

// distance is how much is missing after a candidate has gone, as a sum of shares.
func distance(short amounts, c candidate) float64 {
	sum := 0.0
	for name, want := range short {
		left := want.DeepCopy()
		left.Sub(c.gives[name])
		if left.Sign() > 0 {
			sum += left.AsApproximateFloat64() / want.AsApproximateFloat64()
		}
	}
	return sum
}

// needed drops candidates that others make unnecessary, the most guaranteed first.
func needed(short amounts, chosen []candidate) []candidate {
	left := balance(short, chosen)
	return slices.DeleteFunc(chosen, func(c candidate) bool {
		kept := left.clone()
		for name, q := range c.gives {
			kept.add(name, q)
		}
		for _, q := range kept {
			if q.Sign() > 0 {
				return false
			}
		}
		left = kept
		return true
	})
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
