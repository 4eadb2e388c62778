package node_test

import (
	"testing"
	"testing/synctest"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/podwright/podwright/kube/internal/memoryapi"
	"github.com/podwright/podwright/kube/node"
	"github.com/podwright/podwright/syncloop/nodehooks"
)

// TestStatusOverAWatchThatIsBehind (KN4): the Node shows each status, although its watch, which does not run here, shows it as
// it was before.
func TestStatusOverAWatchThatIsBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := kubernetes.NewForConfigOrDie(&rest.Config{Host: "http://api", Transport: memoryapi.New(nil).Transport("edge-1")})
		registrar, err := node.New(node.Options{Name: "edge-1", Client: client})
		if err != nil {
			t.Fatal(err)
		}
		hooks := registrar.Hooks()
		if err := hooks.Register(t.Context()); err != nil {
			t.Fatal(err)
		}
		publish := func(pressure v1.ConditionStatus) {
			condition := v1.NodeCondition{Type: v1.NodeDiskPressure, Status: pressure, LastHeartbeatTime: metav1.Now(), LastTransitionTime: metav1.Now()}
			if err := hooks.PublishStatus(t.Context(), nodehooks.Status{Conditions: []v1.NodeCondition{condition}}); err != nil {
				t.Fatal(err)
			}
			shown, err := client.CoreV1().Nodes().Get(t.Context(), "edge-1", metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if got := shown.Status.Conditions[0].Status; got != pressure {
				t.Errorf("published %s, the Node shows %s", pressure, got)
			}
		}
		publish(v1.ConditionFalse)
		again, err := node.New(node.Options{Name: "edge-1", Client: client}) // the agent starts again, with a Node that shows False
		if err != nil {
			t.Fatal(err)
		}
		if hooks = again.Hooks(); hooks.Register(t.Context()) != nil {
			t.Fatal("not registered")
		}
		publish(v1.ConditionTrue)
		publish(v1.ConditionFalse)
	})
}
