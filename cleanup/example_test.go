package cleanup_test

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/cleanup"
	"github.com/podwright/podwright/runtime"
)

// node wants the pod web, has no workers yet, and an old pod runs on it.
type node struct{ cleanup.Workers }

func (node) web() *v1.Pod {
	return &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "uid-web"}}
}

func (n node) Pods() []*v1.Pod  { return []*v1.Pod{n.web()} }
func (node) Mirrors() []*v1.Pod { return nil }

func (n node) Get(uid types.UID) (*v1.Pod, bool) { return n.web(), uid == n.web().UID }

func (node) ListRunning(context.Context) ([]*runtime.Pod, error) {
	return []*runtime.Pod{{UID: "uid-old", Namespace: "default", Name: "old"}}, nil
}

func (node) Known() map[types.UID]cleanup.Worker { return nil }

// A plan is a value: what a pass would do, and what keeps it from doing more.
func ExampleHousekeeper_Plan() {
	n := node{}
	housekeeper, err := cleanup.New(n, n, n, cleanup.Options{
		Undecided: func() error { return fmt.Errorf("a manifest cannot be read") },
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	plan, err := housekeeper.Plan(context.Background())
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, a := range plan.Actions {
		fmt.Printf("%s %s: %s\n", a.Step, a.Object, a.Reason)
		if !a.Allowed() {
			fmt.Println(" but", a.Forbidden)
		}
	}
	// Output:
	// restart default/web: desired, but without a worker
	// kill orphan default/old: is running but not known
	//  but ND2: the pod may be wanted by a source that cannot name it yet: a manifest cannot be read
}
