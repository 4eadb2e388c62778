package pods

import "testing"

// TestRefreshesReachWhoHears: IN15. A pod is told once of a change since it began to listen; others are not,
// and nothing is kept for a pod that has stopped listening.
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
