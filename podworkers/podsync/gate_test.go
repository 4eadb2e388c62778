package podsync

import (
	"errors"
	"testing"
	"time"

	"github.com/podwright/podwright/podworkers"
	"github.com/podwright/podwright/runtime"
)

// TestClosedGateHoldsSetup: IN13. While the gate is closed nothing of a pod is started,
// its status is published, and it is looked at again after 5 s. A pod that runs goes on.
func TestClosedGateHoldsSetup(t *testing.T) {
	closed := errors.New("the node is shutting down")
	n := newNode(t)
	s := n.syncer(func(o *Options) { o.Gate = func() error { return closed } })
	_, err := s.SyncPod(t.Context(), podworkers.Sync, web(), nil, nothing())
	var retry interface{ RetryAt() time.Time }
	if !errors.Is(err, closed) || !errors.As(err, &retry) || !retry.RetryAt().Equal(n.clock.Now().Add(5*time.Second)) {
		t.Error(err)
	}
	n.want("Syncing", "SetPodStatus", "Observed")
	if _, err := s.SyncPod(t.Context(), podworkers.Sync, web(), nil, viewOf(runtime.Running)); err != nil {
		t.Errorf("a pod that runs: %v", err)
	}
}
