package pods

import "testing"

// TestRefreshesReachWhoHears: IN15. A pod hears of a change that was told since it began to, once; others do not,
// and nothing is kept of a pod that has stopped hearing.
func TestRefreshesReachWhoHears(t *testing.T) {
	var r refreshes
	told := func(c <-chan struct{}) bool {
		select {
		case <-c:
			return true
		default:
			return false
		}
	}
	r.tell("a")
	a, doneA := r.hear("a")
	b, doneB := r.hear("b")
	if told(a) {
		t.Error("a hears of what was told before")
	}
	r.tell("a")
	r.tell("a")
	r.tell("c")
	if !told(a) || told(a) || told(b) {
		t.Error("a must hear once, b not at all")
	}
	doneA()
	r.tell("a")
	if told(a) {
		t.Error("a hears after its end")
	}
	doneB()
	if len(r.hearers) != 0 {
		t.Errorf("%d are kept", len(r.hearers))
	}
}
