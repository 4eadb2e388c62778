package machine

import (
	"testing"

	"k8s.io/apimachinery/pkg/types"
)

// IN2: Each shows every pod, with its call while that is under way or waits for its view.
func TestUnitEachShowsTheCallUnderWay(t *testing.T) {
	config := defaultConfig()
	config.Views = true
	w := newWorld(config, "calls", "waits", "has a view", "idle", "new")
	mustRun(t, w)
	for _, uid := range []types.UID{"calls", "waits", "has a view", "idle", "new"} {
		if _, err := w.update(Update{Type: TypeCreate, Pod: makePod(uid, nil)}); err != nil {
			t.Fatal(err)
		}
		if uid != "new" {
			must(t)(w.take(uid))
		}
	}
	must(t)(w.stale("waits"))
	must(t)(w.stale("has a view"))
	must(t)(w.viewReady("has a view"))
	must(t)(w.done("idle", Result{}))
	shown := map[types.UID]*Call{}
	w.m.Each(func(e Explanation, c *Call) { shown[e.UID] = c })
	want := map[types.UID]*Call{
		"calls": w.life("calls").call, "waits": w.life("waits").call,
		"has a view": nil, "idle": nil, "new": nil, // its slot or its turn comes first
	}
	if len(shown) != len(want) {
		t.Errorf("%d pods are shown, want %d", len(shown), len(want))
	}
	for uid, c := range want {
		if shown[uid] != c {
			t.Errorf("%s: call %v, want %v", uid, shown[uid], c)
		}
	}
}

// IN3: a pod names a removal as the reason for its wait only after its turn came and it had to
// wait. No other pod names that removal.
func TestUnitOnlyAWaitingPodNamesTheRemoval(t *testing.T) {
	w := newWorld(defaultConfig(), "a", "b")
	mustRun(t, w)
	must(t)(w.hold("a"))
	for _, uid := range []types.UID{"a", "b"} {
		if _, err := w.update(Update{Type: TypeCreate, Pod: makePod(uid, nil)}); err != nil {
			t.Fatal(err)
		}
	}
	holds := func(uid types.UID) int {
		e, _ := w.m.Explain(uid)
		return len(e.Holds)
	}
	if holds("a") != 0 {
		t.Error("a pod whose turn has not come waits for a removal")
	}
	must(t)(w.take("a"))
	must(t)(w.take("b"))
	if holds("a") != 1 || holds("b") != 0 {
		t.Errorf("removals: a names %d, b %d; want 1 and 0", holds("a"), holds("b"))
	}
	must(t)(w.unhold("a"))
	if holds("a") != 0 {
		t.Error("a removal that has ended is named")
	}
}
