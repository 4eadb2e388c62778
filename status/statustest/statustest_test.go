package statustest_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"

	"go.uber.org/goleak"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podwright/podwright/status"
	"github.com/podwright/podwright/status/statustest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestMemory runs the whole suite, none of it skipped, on the sink that has every
// ability.
func TestMemory(t *testing.T) {
	statustest.Run(t, func(*testing.T) statustest.Subject {
		var broken, blocked atomic.Bool
		m := &statustest.Memory{Fault: func(ctx context.Context, call string, _ status.PodRef) error {
			if broken.Load() {
				return errors.New("broken")
			}
			if blocked.Load() && call == "Store" {
				<-ctx.Done()
				return ctx.Err()
			}
			return nil
		}}
		return statustest.Subject{
			Sink: m, Stored: m.Statuses, AddPod: m.SetPod,
			Break: broken.Store,
			Block: blocked.Store,
		}
	})
}

// The suite of a sink is one test.
func ExampleRun() {
	_ = func(t *testing.T) { // TestMySink
		statustest.Run(t, func(*testing.T) statustest.Subject {
			sink := &statustest.Memory{} // your sink here
			return statustest.Subject{Sink: sink, Stored: sink.Statuses, AddPod: sink.SetPod}
		})
	}
	fmt.Println("go test -run TestMySink")
	// Output: go test -run TestMySink
}

// Each case is named after the rule that it checks.
func ExampleCases() {
	for _, c := range statustest.Cases()[:3] {
		fmt.Println(c.Name)
	}
	// Output:
	// 8.8 stores a status
	// 8.8 keeps every field
	// 8.7 takes newer versions and gaps between them
}

// A memory sink is an API to test against.
func ExampleMemory() {
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "6f1c"}}
	var api statustest.Memory
	api.SetPod(pod)
	result, err := api.Store(context.Background(), status.Update{
		PodRef: status.PodRef{UID: "6f1c", Namespace: "shop", Name: "web"},
		Status: &v1.PodStatus{Phase: v1.PodRunning},
	})
	fmt.Println(result, err, api.Pod("shop", "web").Status.Phase)
	// Output: stored <nil> Running
}
