package nodehooks_test

import (
	"context"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/syncloop/nodehooks"
)

// An agent gives its hooks to the engine, as Config.NodeHooks. This example calls them
// directly, as the engine would for a node that is ready.
func ExampleHooks() {
	hooks := nodehooks.Hooks{
		Register: func(context.Context) error {
			fmt.Println("node registered")
			return nil
		},
		PublishStatus: func(_ context.Context, s nodehooks.Status) error {
			for _, c := range s.Conditions {
				fmt.Println(c.Type, c.Status)
			}
			return nil
		},
		RenewLease: func(_ context.Context, d time.Duration) error {
			fmt.Println("lease for", d)
			return nil
		},
	}
	ctx := context.Background()
	_ = hooks.Register(ctx)
	_ = hooks.RenewLease(ctx, nodehooks.LeaseDuration)
	_ = hooks.PublishStatus(ctx, nodehooks.Status{Conditions: []v1.NodeCondition{{Type: v1.NodeReady, Status: v1.ConditionTrue}}})
	// Output:
	// node registered
	// lease for 40s
	// Ready True
}
