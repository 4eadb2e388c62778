package guide_test

import (
	"context"
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/syncloop/source/sourcetest"
)

// fleet is a source whose pods come from elsewhere, as full sets.
type fleet struct{ updates chan []*v1.Pod }

func (f fleet) Name() string { return "fleet" }

func (f fleet) Run(ctx context.Context, deliver func(context.Context, []*v1.Pod) error) error {
	for {
		select {
		case pods := <-f.updates:
			if err := deliver(ctx, pods); err != nil {
				return err
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// A source delivers the full set of desired pods each time.
func Example_ownSource() {
	f := fleet{make(chan []*v1.Pod)}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() {
		ended <- f.Run(ctx, func(_ context.Context, pods []*v1.Pod) error { // an engine has its own
			for _, pod := range pods {
				fmt.Print(pod.Name, " ")
			}
			fmt.Println(len(pods))
			return nil
		})
	}()
	f.updates <- []*v1.Pod{newPod("web"), newPod("db")}
	f.updates <- []*v1.Pod{newPod("web")} // db is stopped
	cancel()
	fmt.Println(<-ended)
	// Output:
	// web db 2
	// web 1
	// context canceled
}

func TestFleet(t *testing.T) {
	sourcetest.Run(t, func(*testing.T) sourcetest.Subject {
		f := fleet{make(chan []*v1.Pod)}
		return sourcetest.Subject{Source: f, Set: func(ctx context.Context, pods ...*v1.Pod) error {
			select {
			case f.updates <- pods:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}}
	})
}
