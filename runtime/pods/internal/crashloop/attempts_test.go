package crashloop_test

import (
	"testing"
	"time"

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

// spec/runtime.md 17.5: runs that the runtime loses are a crash loop, too.
func TestLostRunsCount(t *testing.T) {
	table := crashloop.New(policy)
	x := crashloop.Exit{ID: "0", StartedAt: start, FinishedAt: start.Add(second)}
	now := x.FinishedAt
	for _, want := range []time.Duration{0, 10 * second, 20 * second, 40 * second} {
		if _, delay := table.Check(key, x, now); delay != want {
			t.Fatalf("delay %v, want %v", delay, want)
		}
		now = x.FinishedAt.Add(want)
		if until, _ := table.Check(key, x, now); !until.IsZero() {
			t.Fatalf("waits until %v", until)
		}
		table.Started(key.Pod, key.Container)
	}
	table.Started("gone", "c")
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

// spec/runtime.md 17.4, 17.6: a long run that is stopped for the start, as for a failed probe, starts the delays again, although the newest
// exit is the one before it: for an agent that knew that one, for one that has dropped it, and whatever a clock that is set says.
func TestLongRunThatIsStopped(t *testing.T) {
	for _, tc := range []struct {
		name          string
		known, pruned bool
		lasted, shown time.Duration
		want          time.Duration
	}{
		{"restarted agent", false, false, time.Hour, time.Hour, 0},
		{"known", true, false, time.Hour, time.Hour, 0},
		{"pruned", true, true, time.Hour, time.Hour, 0},
		{"too short", true, false, 599 * second, 599 * second, 320 * second},
		{"too short, restarted agent", false, false, 599 * second, 599 * second, 160 * second},
		{"known, and the clock was set ahead", true, false, 100 * second, time.Hour, 320 * second},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p := policy
			p[crashloop.Failure].Max = time.Hour
			table, now := crashloop.New(p), start.Add(5*second)
			x := crashloop.Exit{ID: "E", StartedAt: start, FinishedAt: now, RestartCount: 4, SameDefinition: true}
			if tc.known {
				now, _ = table.Check(key, x, now)
				table.Check(key, x, now)
			}
			began := now
			now = now.Add(tc.lasted)
			if tc.pruned {
				table.Prune(now)
			}
			x.Later, x.Lasted = "R", tc.shown
			if until, _ := table.Check(key, x, now); !until.IsZero() {
				t.Fatalf("waits until %v", until)
			}
			x = crashloop.Exit{ID: "R", StartedAt: began, FinishedAt: now, RestartCount: 5, SameDefinition: true, Later: "S", Lasted: 60 * second}
			if _, delay := table.Check(key, x, now.Add(60*second)); delay != tc.want {
				t.Errorf("delay %v, want %v", delay, tc.want)
			}
		})
	}
}
