package podsync

import (
	"errors"
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/podworkers"
	"github.com/podwright/podwright/runtime"
)

// TestClosedGateHoldsSetup: IN13. While the gate is closed nothing of a pod is started,
// its status is published, and it is woken once the gate opens. A pod that runs goes on.
func TestClosedGateHoldsSetup(t *testing.T) {
	closed := errors.New("the node is shutting down")
	n := newNode(t)
	gate := closed
	var woken []types.UID
	s := n.syncer(func(o *Options) {
		o.Gate, o.Wake = func() error { return gate }, func(uid types.UID) { woken = append(woken, uid) }
	})
	_, err := s.SyncPod(t.Context(), podworkers.Sync, web(), nil, nothing())
	var retry interface{ RetryAt() time.Time }
	if !errors.Is(err, closed) || !errors.As(err, &retry) || !retry.RetryAt().Equal(n.clock.Now().Add(time.Minute)) {
		t.Error(err)
	}
	n.want("Syncing", "SetPodStatus", "Observed")
	s.GateChanged()
	if gate = nil; woken != nil {
		t.Errorf("woken at a closed gate: %v", woken)
	}
	s.GateChanged()
	s.GateChanged()
	if !slices.Equal(woken, []types.UID{web().UID}) {
		t.Errorf("woken: %v", woken)
	}
	gate = closed
	if _, err := s.SyncPod(t.Context(), podworkers.Sync, web(), nil, viewOf(runtime.Running)); err != nil {
		t.Errorf("a pod that runs: %v", err)
	}
	s.held.set(web().UID, true)
	n.view = viewOf(runtime.Exited)
	if err := s.SyncTerminatingPod(t.Context(), web(), nothing(), nil, nil); err != nil {
		t.Fatal(err)
	}
	if left := s.held.take(); left != nil {
		t.Errorf("a pod that ends waits for the gate: %v", left)
	}
}
