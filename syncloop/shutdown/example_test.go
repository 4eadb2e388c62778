package shutdown_test

import (
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/podwright/podwright/syncloop/shutdown"
)

// Ordinary pods stop first; pods that the node needs stop last.
func ExamplePlan_Batches() {
	plan := shutdown.Plan{Groups: []shutdown.Group{
		{Priority: 2_000_000_000, Time: 10 * time.Second},
		{Priority: 0, Time: time.Minute},
	}}
	pod := func(name string, priority int32) *v1.Pod {
		return &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1.PodSpec{Priority: &priority, TerminationGracePeriodSeconds: ptr.To[int64](30)}}
	}
	for _, b := range plan.Batches([]*v1.Pod{pod("dns", 2_000_001_000), pod("web", 0)}) {
		for _, p := range b.Pods {
			fmt.Println(b.Time, p.Name, b.Grace(p), "s")
		}
	}
	// Output:
	// 1m0s web 30 s
	// 10s dns 10 s
}
