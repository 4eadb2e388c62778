package crashloop_test

import (
	"testing"

	"github.com/podwright/podwright/runtime/pods/internal/crashloop"
)

// spec/runtime.md 17.3, 17.5: an exit counts once, however often the start after it is tried.
func TestAttemptsAreNoCrashes(t *testing.T) {
	table := crashloop.New(policy)
	x := crashloop.Exit{ID: "0", StartedAt: start, FinishedAt: start.Add(second)}
	now := x.FinishedAt
	for i := range 80 {
		if until, _ := table.Check(key, x, now); !until.IsZero() {
			t.Fatalf("attempt %d waits until %v", i, until)
		}
		table.Prune(now)
		now = now.Add(10 * second)
	}
	x = crashloop.Exit{ID: "1", StartedAt: now, FinishedAt: now.Add(second), RestartCount: 1, SameDefinition: true}
	until, delay := table.Check(key, x, x.FinishedAt)
	if delay != 10*second {
		t.Fatalf("delay %v, want 10s", delay)
	}
	for range 3 { // its delay has passed
		if again, _ := table.Check(key, x, until); !again.IsZero() {
			t.Errorf("waits until %v", again)
		}
		until = until.Add(10 * second)
	}
	next := crashloop.Exit{ID: "2", StartedAt: until, FinishedAt: until.Add(second), RestartCount: 2, SameDefinition: true}
	if _, delay := table.Check(key, next, next.FinishedAt); delay != 20*second {
		t.Errorf("delay %v, want 20s", delay)
	}
}

// spec/runtime.md 17.3: a run that is stopped for the start counts, although the newest exit is the one before it; the next attempt,
// which finds its exit, does not count again.
func TestStoppedRunsCountOnce(t *testing.T) {
	table := crashloop.New(policy)
	x := crashloop.Exit{ID: "0", StartedAt: start, FinishedAt: start.Add(second)}
	table.Check(key, x, x.FinishedAt)
	now := start.Add(60 * second)
	x.Later = "1"
	if until, _ := table.Check(key, x, now); !until.IsZero() {
		t.Fatalf("waits until %v", until)
	}
	stopped := crashloop.Exit{ID: "1", StartedAt: start.Add(second), FinishedAt: now, RestartCount: 1, SameDefinition: true}
	if until, _ := table.Check(key, stopped, now.Add(second)); !until.IsZero() {
		t.Errorf("the start is tried again: waits until %v", until)
	}
	now = now.Add(2 * second)
	next := crashloop.Exit{ID: "2", StartedAt: now, FinishedAt: now, RestartCount: 2, SameDefinition: true}
	if _, delay := table.Check(key, next, now); delay != 20*second {
		t.Errorf("delay %v, want 20s", delay)
	}
}
