package preemption_test

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/podwright/podwright/syncloop/preemption"
)

// TestSelectTakesTheFewest compares with all possible choices: where only one resource is short, no choice has fewer
// Guaranteed pods, then fewer Burstable, then fewer BestEffort ones, and none of the chosen pods can be replaced by one
// of its class with a lower priority.
func TestSelectTakesTheFewest(t *testing.T) {
	classes := []v1.PodQOSClass{v1.PodQOSGuaranteed, v1.PodQOSBurstable, v1.PodQOSBestEffort}
	node := preemption.Node{Allocatable: v1.ResourceList{v1.ResourceCPU: resource.MustParse("10")}}
	r := rand.New(rand.NewPCG(1, 2))
	for round := range 5000 {
		sizes, level := make([]int, r.IntN(9)), map[string]int{}
		var active []preemption.Pod
		used := 0
		for i := range sizes {
			sizes[i] = r.IntN(4)
			used += sizes[i]
			p := bu(fmt.Sprint(i), fmt.Sprint(sizes[i]), "", int32(r.IntN(3)))
			level[p.Pod.Name] = r.IntN(3)
			p.Class = classes[level[p.Pod.Name]]
			active = append(active, p)
		}
		wants := 1 + r.IntN(9)
		victims, err := preemption.Select(pod("c", fmt.Sprint(wants), "", most), active, node)
		if err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
		count := func(mask int) (n [3]int, short int) {
			short = used + wants - 10
			for i, p := range active {
				if mask&(1<<i) != 0 {
					n[level[p.Pod.Name]]++
					short -= sizes[i]
				}
			}
			return n, short
		}
		chosen := 0
		for i, p := range active {
			if slices.Contains(victims, p.Pod) {
				chosen |= 1 << i
			}
		}
		got, _ := count(chosen)
		for mask := range 1 << len(active) {
			if n, short := count(mask); short <= 0 && slices.Compare(n[:], got[:]) < 0 {
				t.Fatalf("round %d: %v pods by class were chosen, %v would do: %s", round, got, n, names(victims))
			}
		}
		for i, p := range active {
			for k, q := range active {
				if chosen&(1<<i) == 0 || chosen&(1<<k) != 0 || level[p.Pod.Name] != level[q.Pod.Name] || cmp.Compare(*q.Pod.Spec.Priority, *p.Pod.Spec.Priority) >= 0 {
					continue
				}
				if _, short := count(chosen&^(1<<i) | 1<<k); short <= 0 {
					t.Fatalf("round %d: %s was chosen of %s, and %s has a lower priority", round, p.Pod.Name, names(victims), q.Pod.Name)
				}
			}
		}
	}
}
