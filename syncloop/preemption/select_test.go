package preemption_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/syncloop/preemption"
)

// pod returns a pod that requests CPU and memory; "" means none.
func pod(name, cpu, memory string, priority int32) *v1.Pod {
	list := v1.ResourceList{}
	for resourceName, text := range map[v1.ResourceName]string{v1.ResourceCPU: cpu, v1.ResourceMemory: memory} {
		if text != "" {
			list[resourceName] = resource.MustParse(text)
		}
	}
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name)},
		Spec:       v1.PodSpec{Priority: &priority, Containers: []v1.Container{{Resources: v1.ResourceRequirements{Requests: list}}}},
	}
}

func be(name string) preemption.Pod {
	return preemption.Pod{Pod: pod(name, "", "", 0), Class: v1.PodQOSBestEffort}
}

func bu(name, cpu, memory string, priority ...int32) preemption.Pod {
	return preemption.Pod{Pod: pod(name, cpu, memory, slices.Max(append(priority, 0))), Class: v1.PodQOSBurstable}
}

func gu(name, cpu, memory string) preemption.Pod {
	return preemption.Pod{Pod: pod(name, cpu, memory, 0), Class: v1.PodQOSGuaranteed}
}

func critical(p preemption.Pod, priority int32) preemption.Pod {
	p.Pod.Spec.Priority, p.Critical = &priority, true
	return p
}

// ofClass returns a pod whose priority is that of its class.
func ofClass(p *v1.Pod, class string) *v1.Pod {
	p.Spec.Priority, p.Spec.PriorityClassName = nil, class
	return p
}

// asking returns a pod that wants one of a resource.
func asking(name v1.ResourceName) *v1.Pod {
	p := pod("p", "", "", 0)
	p.Spec.Containers[0].Resources.Requests[name] = resource.MustParse("1")
	return p
}

const most = 2_000_001_000

// TestSelectLooksAtEachPodOnce: the loop waits meanwhile, so what a pod requests is worked out once
// and not for each comparison.
func TestSelectLooksAtEachPodOnce(t *testing.T) {
	const count = 400
	var active []preemption.Pod
	for i := range count {
		active = append(active, bu(fmt.Sprint("p", i), "100m", "10Mi"))
	}
	node := preemption.Node{Allocatable: v1.ResourceList{v1.ResourceCPU: resource.MustParse("40"), v1.ResourceMemory: resource.MustParse("1Ti")}}
	critical := pod("c", "32", "", most)
	allocs := testing.AllocsPerRun(1, func() {
		if victims, err := preemption.Select(critical, active, node); err != nil || len(victims) != count*8/10 {
			t.Error(len(victims), err)
		}
	})
	if perPod := allocs / count; perPod > 100 {
		t.Errorf("%.0f allocations per pod", perPod)
	}
}

// TestSelect: section 16, preemption; AD7.
func TestSelect(t *testing.T) {
	four := preemption.Node{Allocatable: v1.ResourceList{v1.ResourceCPU: resource.MustParse("4"), v1.ResourceMemory: resource.MustParse("4Gi")}}
	places := preemption.Node{MaxPods: 3}
	device := preemption.Node{Allocatable: v1.ResourceList{"example.com/device": resource.MustParse("1")}}
	tests := []struct {
		name   string
		pod    *v1.Pod
		active []preemption.Pod
		node   preemption.Node
		want   string // names, or "no room: " and what is missing
	}{
		{"there is room", pod("c", "1", "", most), []preemption.Pod{bu("a", "3", "")}, four, ""},
		{"one is enough", pod("c", "1", "", most), []preemption.Pod{bu("a", "2", ""), bu("b", "2", "")}, four, "a"},
		{"the fewest", pod("c", "2", "", most), []preemption.Pod{bu("a", "1", ""), bu("b", "1", ""), bu("c1", "2", "")}, four, "c1"},
		{"Burstable before Guaranteed, though more", pod("c", "2", "", most), []preemption.Pod{gu("g", "2", ""), bu("a", "1", ""), bu("b", "1", "")}, four, "a b"},
		{"Guaranteed if there is no other way", pod("c", "3", "", most), []preemption.Pod{gu("g", "2", ""), bu("a", "1", ""), bu("b", "1", "")}, four, "a g"},
		{"BestEffort gives no resources", pod("c", "1", "", most), []preemption.Pod{be("x"), bu("a", "4", "")}, four, "a"},
		{"BestEffort gives a place", pod("c", "", "", most), []preemption.Pod{be("x"), bu("a", "", "1Gi"), gu("g", "1", "1Gi")}, places, "x"},
		{"both resources", pod("c", "1", "1Gi", most), []preemption.Pod{bu("cpu", "3", "1Gi"), bu("memory", "1", "3Gi")}, four, "cpu"},
		{"one pod that gives both", pod("c", "1", "1Gi", most), []preemption.Pod{bu("cpu", "2", ""), bu("memory", "", "2Gi"), bu("both", "2", "2Gi")}, four, "both"},
		{"lowest priority among equals", pod("c", "1", "", most), []preemption.Pod{bu("a", "2", "", 10), bu("b", "2", "", 5)}, four, "b"},
		{"critical pods stay", pod("c", "1", "", 2_000_000_000), []preemption.Pod{critical(bu("a", "4", ""), 2_000_000_000)}, four, "no room: [1 cpu]"},
		{"a more critical one", pod("c", "1", "", most), []preemption.Pod{critical(bu("a", "4", ""), 2_000_000_000)}, four, "a"},
		{"a class counts as its priority", ofClass(pod("c", "1", "", 0), "system-node-critical"), []preemption.Pod{critical(bu("a", "4", ""), 2_000_000_000)}, four, "a"},
		{"a pod of a class stays", pod("c", "1", "", 2_000_000_000), []preemption.Pod{{Pod: ofClass(pod("a", "4", "", 0), "system-node-critical"), Critical: true}}, four, "no room: [1 cpu]"},
		{"a device that the node has", asking("example.com/device"), []preemption.Pod{{Pod: asking("example.com/device")}}, device, "p"},
		{"a device that no node has", asking("example.com/other"), []preemption.Pod{be("x")}, device, "no room: [1 example.com/other]"},
		{"never enough", pod("c", "5", "", most), []preemption.Pod{bu("a", "4", "")}, four, "no room: [1 cpu]"},
		{"an overcommitted resource it does not want", pod("c", "", "1Gi", most), []preemption.Pod{bu("a", "9", "")}, four, ""},
		{"no limit", pod("c", "5", "", most), []preemption.Pod{bu("a", "4", "")}, preemption.Node{}, ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			for range 2 {
				victims, err := preemption.Select(test.pod, test.active, test.node)
				got := names(victims)
				if err != nil {
					_, what, _ := strings.Cut(err.Error(), "priority: ")
					got = "no room: " + strings.TrimSuffix(what, " is missing")
				}
				if got != test.want {
					t.Errorf("chose %q (%v), want %q", got, err, test.want)
				}
				slices.Reverse(test.active) // the order does not matter
			}
		})
	}
}

func names(pods []*v1.Pod) string {
	var out []string
	for _, p := range pods {
		out = append(out, p.Name)
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}

// TestSelectIsMinimal: the chosen pods make room, and none of them is dispensable.
func TestSelectIsMinimal(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	chosen := 0
	for round := range 2000 {
		node := preemption.Node{Allocatable: v1.ResourceList{v1.ResourceCPU: resource.MustParse("6"), v1.ResourceMemory: resource.MustParse("6Gi")}}
		var active []preemption.Pod
		for i := range r.IntN(8) {
			p := bu(fmt.Sprint("p", i), fmt.Sprint(r.IntN(3)), fmt.Sprintf("%dGi", r.IntN(3)))
			p.Class = []v1.PodQOSClass{v1.PodQOSBestEffort, v1.PodQOSBurstable, v1.PodQOSGuaranteed}[r.IntN(3)]
			active = append(active, p)
		}
		c := pod("c", fmt.Sprint(1+r.IntN(5)), fmt.Sprintf("%dGi", 1+r.IntN(5)), most)
		victims, err := preemption.Select(c, active, node)
		if err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
		chosen += len(victims)
		fits := func(gone []*v1.Pod) bool {
			left := slices.DeleteFunc(slices.Clone(active), func(p preemption.Pod) bool { return slices.Contains(gone, p.Pod) })
			more, err := preemption.Select(c, left, node)
			return err == nil && len(more) == 0
		}
		if !fits(victims) {
			t.Fatalf("round %d: no room without %s", round, names(victims))
		}
		for i := range victims {
			if fewer := slices.Delete(slices.Clone(victims), i, i+1); fits(fewer) {
				t.Fatalf("round %d: %s is chosen, %s would do", round, names(victims), names(fewer))
			}
		}
	}
	if chosen == 0 {
		t.Error("nothing was ever chosen")
	}
}
