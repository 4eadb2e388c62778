package cleanup_test

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/cleanup"
	"github.com/podwright/podwright/runtime"
)

// A plan is a value: what a pass would do, and what keeps it from doing more.
func ExampleMakePlan() {
	web := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "uid-web"}}
	plan := cleanup.MakePlan(cleanup.Input{
		SourcesReady: true,
		Explain:      true,
		Desired:      []*v1.Pod{web},
		Running:      []*runtime.Pod{{UID: "uid-old", Namespace: "default", Name: "old"}},
		PodDirs:      []types.UID{"uid-gone", "uid-web"},
	})
	for _, a := range plan.Actions {
		fmt.Printf("%s %s: %s", a.Step, a.Object, a.Reason)
		if !a.Allowed() {
			fmt.Printf(" (forbidden by %s)", a.Forbidden)
		}
		fmt.Println()
	}
	// Output:
	// remove pod folder uid-gone: no pod has this folder
	// remove pod folder uid-web: no pod has this folder (forbidden by ND2: the pod is desired)
	// restart default/web: desired, but without a worker
	// kill orphan default/old: runs, but is not known
}
