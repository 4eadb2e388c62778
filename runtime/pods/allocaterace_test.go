package pods_test

import (
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/podwright/podwright/runtime/pods"
)

// TestPodAdmittedDuringADecisionCounts: 21.4. A pod that is admitted while the resize of another one is being decided has its
// room: the list of active pods may be older than its admission.
func TestPodAdmittedDuringADecisionCounts(t *testing.T) {
	a1, a2, b := apps("1 1000"), apps("2 1000"), apps("3 1000")
	b.UID, b.Name = "uid-b", "b"
	var a *pods.Allocations
	active, meanwhile := []*v1.Pod{a1}, func() {}
	a, err := pods.NewAllocations(pods.AllocationOptions{
		Store:  memoryStore{},
		Active: func() []*v1.Pod { return active },
		Allocatable: func() v1.ResourceList {
			meanwhile()
			return v1.ResourceList{v1.ResourceCPU: resource.MustParse("4")}
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := a.Allocate(a1); err != nil {
		t.Fatal(err)
	}
	meanwhile = func() { // the loop admits b beside what a was granted, 1 of 4 CPUs
		meanwhile = func() {}
		if got := cpusOf(a.Granted(a2)); got != 1 {
			t.Fatalf("%d CPUs", got)
		}
		a.Admitted(b, time.Time{}, false)
		active = []*v1.Pod{a2, b}
	}
	got, _, err := a.Allocate(a2)
	if err != nil {
		t.Fatal(err)
	}
	if n := cpusOf(got) + cpusOf(a.Granted(b)); n > 4 {
		t.Errorf("pods have %d CPUs of 4", n)
	}
}
