package guide_test

import (
	"context"
	"fmt"
	"sync"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/podworkers"
	"github.com/podwright/podwright/podworkers/syncertest"
	"github.com/podwright/podwright/runtime"
)

// lamps runs pods as lamps: a pod that is up has its lamp on.
type lamps struct {
	podworkers.PodSyncerFuncs // the methods that lamps does not need

	mu sync.Mutex
	on map[types.UID]bool
}

func (l *lamps) SyncPod(_ context.Context, _ podworkers.UpdateType, pod, _ *v1.Pod, _ *runtime.PodStatus) (podworkers.SyncResult, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	acted := !l.on[pod.UID]
	l.on[pod.UID] = true
	return podworkers.SyncResult{Acted: acted}, nil
}

func (l *lamps) SyncTerminatingPod(_ context.Context, pod *v1.Pod, _ *runtime.PodStatus, _ *int64, _ podworkers.PodStatusFunc) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.on, pod.UID)
	return nil
}

func (l *lamps) lit(uid types.UID) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.on[uid] {
		return 1
	}
	return 0
}

// The workers call a syncer of your own; they need no runtime.
func Example_ownSyncer() {
	l := &lamps{on: map[types.UID]bool{}}
	w := podworkers.New(l, podworkers.Options{})
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- w.Run(ctx) }()

	porch := newPod("porch")
	fmt.Println(w.UpdatePod(podworkers.UpdateOptions{Type: podworkers.Create, Pod: porch}))
	err := w.KillPod(ctx, porch, podworkers.KillOptions{})
	fmt.Println(err, "lit:", l.lit(porch.UID))
	fmt.Println(w.WaitFinished(ctx, porch.UID), "known:", w.IsPodKnown(porch.UID))
	w.SyncKnownPods(nil) // nothing is desired any more
	fmt.Println("known:", w.IsPodKnown(porch.UID))
	cancel()
	fmt.Println(<-ended)
	// Output:
	// queued
	// <nil> lit: 0
	// <nil> known: true
	// known: false
	// <nil>
}

func TestLamps(t *testing.T) {
	syncertest.Run(t, func(*testing.T) syncertest.Subject {
		l := &lamps{on: map[types.UID]bool{}}
		return syncertest.Subject{Syncer: l, Pod: newPod, Running: l.lit}
	})
}
