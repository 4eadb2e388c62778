package podsync

import (
	"errors"
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/podworkers"
	"github.com/podwright/podwright/runtime"
	"github.com/podwright/podwright/syncloop/admission"
)

// TestClosedGateHoldsSetup: IN13. While the gate is closed nothing of a pod is started, but
// its status is published, and it is woken once the gate opens. A running pod is not held.
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
	s.held.add(web(), n.clock.Now())
	n.view = viewOf(runtime.Exited)
	if err := s.SyncTerminatingPod(t.Context(), web(), nothing(), nil, nil); err != nil {
		t.Fatal(err)
	}
	if left := s.held.take(); left != nil {
		t.Errorf("a pod that ends waits for the gate: %v", left)
	}
}

// TestPodAtTheGateIsAProblem: IN2, IN13. A pod that has waited for the gate for 30 s is listed,
// since it began to wait, until the gate opens or the pod waits for something else.
func TestPodAtTheGateIsAProblem(t *testing.T) {
	n := newNode(t)
	closed := errors.New("the runtime is down")
	gate := closed
	refuses := false
	s := n.syncer(func(o *Options) {
		o.Gate = func() error { return gate }
		o.Admission.Handlers = []admission.Handler{admission.HandlerFunc(func(admission.Request) admission.Verdict {
			if refuses {
				return admission.Refuse("No", "not now")
			}
			return admission.Verdict{}
		})}
	})
	began := n.clock.Now()
	sync := func() { _, _ = s.SyncPod(t.Context(), podworkers.Sync, web(), nil, nothing()) }
	sync()
	n.clock.Step(30*time.Second - 1)
	sync()
	if p := s.Problems(); p != nil {
		t.Errorf("too soon: %v", p)
	}
	n.clock.Step(1)
	p := s.Problems()
	if len(p) != 1 || p[0].UID != web().UID || p[0].Name != "default/web" || !p[0].Since.Equal(began) || !errors.Is(p[0], closed) {
		t.Fatalf("listed: %v", p)
	}
	gate = nil
	if p := s.Problems(); p != nil {
		t.Errorf("the gate is open: %v", p)
	}
	gate, refuses = closed, true
	if sync(); s.Problems() != nil {
		t.Errorf("the pod waits for its admission: %v", s.Problems())
	}
}
