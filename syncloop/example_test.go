package syncloop_test

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/syncloop"
)

// script is a source that wants one set of pods after another.
type script [][]string

func (s script) Name() string { return "script" }

func (s script) Run(ctx context.Context, deliver func(context.Context, []*v1.Pod) error) error {
	for _, names := range s {
		pods := []*v1.Pod{}
		for _, n := range names {
			pods = append(pods, &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: n, Namespace: "default", UID: types.UID("uid-of-" + n)}})
		}
		if err := deliver(ctx, pods); err != nil {
			return err
		}
	}
	return nil // closed: the loop ends once all is handled
}

// A source says what it wants; the loop works out what to do about it.
func Example() {
	dispatch := func(w syncloop.Work) {
		fmt.Println(w.Kind, w.Pod.Name)
	}
	loop, err := syncloop.New(dispatch, syncloop.Options{
		Sources: []syncloop.Source{script{{"web", "db"}, {"web", "db"}, {"web"}}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := loop.Run(context.Background()); err != nil {
		fmt.Println(err)
	}
	fmt.Println("still wanted:", len(loop.Store().Pods()))
	// Output:
	// create db
	// create web
	// kill db
	// still wanted: 1
}
