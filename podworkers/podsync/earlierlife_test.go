package podsync

import (
	"errors"
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/podworkers"
	"github.com/podwright/podwright/runtime"
)

// TestEndsOfAnEarlierLifeDoNotCount: S5: what an earlier life of the UID left is removed before
// the pod's first status is generated, and only once.
func TestEndsOfAnEarlierLifeDoNotCount(t *testing.T) {
	n := newNode(t)
	n.earlier, n.view = true, nothing()
	s := n.syncer()
	result, err := s.SyncPod(t.Context(), podworkers.Create, web(), nil, viewOf(runtime.Exited))
	if err != nil || result.Terminal {
		t.Errorf("%+v, %v", result, err)
	}
	if first := n.published[0].Phase; first != v1.PodPending {
		t.Errorf("published %s of containers that are not the pod's", first)
	}
	if want := []string{"Syncing", "RemovePod", "ReadNow", "EarlierLifeGone", "SetPodStatus"}; !slices.Equal(n.calls[:len(want)], want) {
		t.Errorf("calls: %q, want first %q", n.calls, want)
	}
	n.calls = nil
	if _, err := s.SyncPod(t.Context(), podworkers.Sync, web(), nil, viewOf(runtime.Running)); err != nil || slices.Contains(n.calls, "RemovePod") {
		t.Errorf("the pod itself is removed: %v, %q", err, n.calls)
	}
}

// TestNothingIsRemovedOfAnEarlierLifeThatLeftNothing: running containers are not removed either.
func TestNothingIsRemovedOfAnEarlierLifeThatLeftNothing(t *testing.T) {
	for name, view := range map[string]*runtime.PodStatus{"unknown": nil, "nothing left": nothing(), "it runs": viewOf(runtime.Running)} {
		n := newNode(t)
		n.earlier = true
		got, err := n.syncer().removeEarlierLife(t.Context(), "u", view)
		if err != nil || got != view {
			t.Errorf("%s: %v, %v", name, got, err)
		}
		n.want("EarlierLifeGone")
	}
}

// TestPodWaitsForTheEndOfItsEarlierLife: each call that fails ends the step there.
func TestPodWaitsForTheEndOfItsEarlierLife(t *testing.T) {
	for _, call := range []string{"RemovePod", "ReadNow", "EarlierLifeGone"} {
		n := newNode(t)
		n.earlier, n.view, n.fail[call] = true, nothing(), true
		_, err := n.syncer().SyncPod(t.Context(), podworkers.Create, web(), nil, viewOf(runtime.Exited))
		if !errors.Is(err, errFake) || n.calls[len(n.calls)-1] != call || len(n.published) > 0 {
			t.Errorf("%s: %v, %q", call, err, n.calls)
		}
	}
}
