package eviction_test

import (
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podwright/podwright/cleanup/eviction"
)

// A node with 60Mi left of 1Gi evicts the pod that uses more than it asked for.
func Example() {
	thresholds, err := eviction.Text{Hard: "memory.available<10%"}.Parse()
	if err != nil {
		fmt.Println(err)
		return
	}
	readings := map[eviction.Signal]eviction.Observation{eviction.MemoryAvailable: {Available: 60 << 20, Capacity: 1 << 30}}
	verdict := eviction.Assess(eviction.Policy{Thresholds: thresholds}, eviction.State{}, readings, time.Unix(0, 0))
	fmt.Println(verdict.Conditions, "due:", len(verdict.Due))

	pod := func(name string) *v1.Pod { return &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}} }
	pods := []eviction.Candidate{
		{Pod: pod("database"), Class: v1.PodQOSGuaranteed},
		{Pod: pod("hog"), Class: v1.PodQOSBestEffort, Usage: eviction.Usage{Memory: 700 << 20}},
	}
	eviction.Rank(verdict.Due[0].Signal, pods)
	fmt.Println("first:", pods[0].Pod.Name)
	// Output:
	// [MemoryPressure] due: 1
	// first: hog
}
