package crashloop_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/podwright/podwright/runtime/pods/internal/crashloop"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const second = time.Second

var (
	usual  = crashloop.Policy{Initial: 10 * second, Factor: 2, Max: 300 * second, Reset: 600 * second}
	policy = crashloop.Policies{usual, usual, usual, usual}
	key    = crashloop.Key{Pod: "u", Container: "c", Definition: "image"}
	start  = time.Unix(1_000_000, 0)
)

// life runs a container that ends after each of the runs and restarts as soon as
// it may, and returns the delays.
func life(t *crashloop.Table, runs ...time.Duration) (delays []time.Duration) {
	now := start
	for i, run := range runs {
		x := crashloop.Exit{ID: fmt.Sprint(i), StartedAt: now, FinishedAt: now.Add(run), RestartCount: i, SameDefinition: true}
		now = now.Add(run)
		until, _ := t.Check(key, x, now)
		delay := time.Duration(0)
		if !until.IsZero() {
			delay = until.Sub(now)
			now = until
			if again, _ := t.Check(key, x, now); !again.IsZero() {
				panic("still waiting at the end of the delay")
			}
		}
		delays = append(delays, delay)
	}
	return delays
}

func TestDelaysGrowWithEveryStart(t *testing.T) {
	for _, tc := range []struct {
		rule string
		runs []time.Duration
		want []time.Duration
	}{
		{"17.5", []time.Duration{1, 1, 1, 1, 1, 1, 1, 1}, []time.Duration{0, 10, 20, 40, 80, 160, 300, 300}},
		{"17.4, edge 25: a run of 601 s", []time.Duration{1, 1, 1, 601, 1}, []time.Duration{0, 10, 20, 0, 10}},
		{"17.4, edge 25: a run of 599 s", []time.Duration{1, 1, 1, 599, 1}, []time.Duration{0, 10, 20, 40, 80}},
	} {
		t.Run(tc.rule, func(t *testing.T) {
			for i := range tc.runs {
				tc.runs[i] *= second
			}
			got := life(crashloop.New(policy), tc.runs...)
			for i := range tc.want {
				if got[i] != tc.want[i]*second {
					t.Errorf("delays %v, want %v s", got, tc.want)
					break
				}
			}
		})
	}
}

// spec/runtime.md 17.6.
func TestDelayIsRebuiltFromTheRecord(t *testing.T) {
	for _, tc := range []struct {
		name  string
		count int
		run   time.Duration
		same  bool
		want  time.Duration
	}{
		{"first run", 0, second, true, 0},
		{"one restart", 1, second, true, 10 * second},
		{"three restarts", 3, second, true, 40 * second},
		{"many restarts", 1000, second, true, 300 * second},
		{"ran long", 3, 601 * second, true, 0},
		{"17.2: another image", 3, second, false, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			x := crashloop.Exit{
				ID: "x", StartedAt: start, FinishedAt: start.Add(tc.run), RestartCount: tc.count, SameDefinition: tc.same,
			}
			table := crashloop.New(policy)
			until, delay := table.Check(key, x, x.FinishedAt)
			if (until.IsZero() && tc.want != 0) || delay != tc.want || (!until.IsZero() && until != x.FinishedAt.Add(tc.want)) {
				t.Errorf("until %v, delay %v; want %v", until, delay, tc.want)
			}
		})
	}
}

// spec/runtime.md 17.2: another definition starts at the first delay, and so does coming back.
func TestNewDefinition(t *testing.T) {
	table := crashloop.New(policy)
	life(table, second, second, second)
	other := key
	other.Definition = "image 2"
	now := start.Add(time.Hour)
	x := crashloop.Exit{ID: "x", StartedAt: now, FinishedAt: now, RestartCount: 3}
	if until, _ := table.Check(other, x, now); !until.IsZero() {
		t.Errorf("wait until %v", until)
	}
	if table.Len() != 1 {
		t.Errorf("%d entries", table.Len())
	}
}

// A finish time in the future, as after the clock was set back, delays from when
// it was seen.
func TestFutureFinish(t *testing.T) {
	table := crashloop.New(policy)
	life(table, second, second)
	now := start.Add(30 * second)
	x := crashloop.Exit{ID: "f", StartedAt: now, FinishedAt: now.Add(time.Hour), RestartCount: 2, SameDefinition: true}
	if until, _ := table.Check(key, x, now); until != now.Add(20*second) {
		t.Errorf("wait %v", until.Sub(now))
	}
	if until, _ := table.Check(key, x, now.Add(20*second)); !until.IsZero() {
		t.Errorf("still waiting for %v", until)
	}
}

// A clock that is set back during a delay does not extend it by the step: without a monotonic reading the
// delay begins again, with one it ends when it would have.
func TestClockSetBackExtendsNoDelay(t *testing.T) {
	for _, monotonic := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			table, now := crashloop.New(policy), start
			if monotonic {
				now = time.Now()
			}
			table.Check(key, crashloop.Exit{ID: "0", StartedAt: now.Round(0), FinishedAt: now.Round(0)}, now)
			ended := now.Round(0)
			if monotonic {
				ended = ended.Add(24 * time.Hour) // its record is from before the clock was set back
			}
			x := crashloop.Exit{ID: "1", StartedAt: ended, FinishedAt: ended, RestartCount: 1, SameDefinition: true}
			if _, delay := table.Check(key, x, now); delay != 10*second {
				t.Fatalf("delay %v, want 10s", delay)
			}
			if !monotonic {
				now = now.Add(-24 * time.Hour)
				if until, _ := table.Check(key, x, now); until != now.Add(10*second) {
					t.Errorf("wait %v, want 10s", until.Sub(now))
				}
			}
			if until, _ := table.Check(key, x, now.Add(10*second)); !until.IsZero() {
				t.Errorf("monotonic %v: still waiting until %v", monotonic, until)
			}
		})
	}
}

// A hold is never longer than the longest delay, even after the clock was set back.
func TestClockSetBackExtendsNoHold(t *testing.T) {
	table, now := crashloop.New(policy), start
	for i := range 2 {
		table.Hold(key, crashloop.Exit{ID: fmt.Sprint(i), StartedAt: now, FinishedAt: now, RestartCount: i, SameDefinition: true}, now)
	}
	now = now.Add(-24 * time.Hour)
	x := crashloop.Exit{ID: "1", StartedAt: start, FinishedAt: start, RestartCount: 1, SameDefinition: true}
	until, _ := table.Hold(key, x, now)
	if until != now.Add(usual.Max) {
		t.Errorf("hold of %v, want %v", until.Sub(now), usual.Max)
	}
	if again, _ := table.Hold(key, x, now.Add(second)); again != until {
		t.Errorf("asked again: %v, before %v", again, until)
	}
}

// spec/runtime.md 17.7: holds grow like delays, and asking twice changes nothing.
func TestHoldGrowsOnceAndRepeatsItsAnswer(t *testing.T) {
	table := crashloop.New(policy)
	now := start
	var got []time.Duration
	for i := range 4 {
		x := crashloop.Exit{ID: fmt.Sprint(i), StartedAt: now, FinishedAt: now, RestartCount: i, SameDefinition: true}
		until, delay := table.Hold(key, x, now)
		if again, same := table.Hold(key, x, now.Add(second)); again != until || same != delay {
			t.Errorf("asked again: %v (%v), before %v (%v)", again, same, until, delay)
		}
		if until.IsZero() {
			until = now
		}
		if got = append(got, until.Sub(now)); delay != got[i] {
			t.Errorf("delay %v, want %v", delay, got[i])
		}
		now = until
	}
	if fmt.Sprint(got) != "[0s 10s 20s 40s]" {
		t.Errorf("holds %v", got)
	}
}

// Pruning never shortens a delay.
func TestPruneNeverShortensADelay(t *testing.T) {
	table := crashloop.New(policy)
	life(table, second, second, second, second, second, second, second)
	table.Prune(start.Add(10 * time.Minute))
	if table.Len() != 1 {
		t.Error("a delay that may still hold is gone")
	}
	table.Prune(start.Add(time.Hour))
	if table.Len() != 0 {
		t.Error("an old delay stays")
	}
	life(table, second)
	table.Forget("u")
	if table.Len() != 0 {
		t.Error("a forgotten pod stays")
	}
}

func ExampleTable_Check() {
	table := crashloop.New(policy)
	now := time.Unix(0, 0)
	_, first := table.Check(key, crashloop.Exit{ID: "1", FinishedAt: now}, now)
	_, second := table.Check(key, crashloop.Exit{ID: "2", FinishedAt: now.Add(time.Second)}, now.Add(time.Second))
	fmt.Println(first, second)
	// Output: 0s 10s
}

// spec/runtime.md 17.1: policies of every kind; a delay never passes its maximum,
// and the initial delay neither.
func TestDelayNeverPassesItsMaximum(t *testing.T) {
	for _, tc := range []struct {
		name   string
		policy crashloop.Policy
		want   []time.Duration
	}{
		{"17.1 default", usual, []time.Duration{10, 20, 40, 80, 160, 300, 300}},
		{"17.1 reduced", crashloop.Policy{Initial: second, Factor: 2, Max: 60 * second}, []time.Duration{1, 2, 4, 8, 16, 32, 60, 60}},
		{"factor 1", crashloop.Policy{Initial: second, Factor: 1, Max: 60 * second}, []time.Duration{1, 1, 1}},
		{"factor 3", crashloop.Policy{Initial: second, Factor: 3, Max: 20 * second}, []time.Duration{1, 3, 9, 20}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			for i, want := range tc.want {
				if got := tc.policy.Delay(i + 1); got != want*second {
					t.Errorf("delay %d is %v, want %v", i+1, got, want*second)
				}
			}
			if got := tc.policy.Delay(1 << 30); got > tc.policy.Max {
				t.Errorf("delay %v", got)
			}
		})
	}
}

// Each class of exits has its delays; how often in a row counts over all of them.
func TestExitClasses(t *testing.T) {
	p := policy
	p[crashloop.Success] = crashloop.Policy{Initial: second, Factor: 2, Max: 3 * second, Reset: 5 * second}
	table := crashloop.New(p)
	now := start
	for i, step := range []struct {
		class crashloop.Class
		run   time.Duration
		want  time.Duration
	}{
		{crashloop.Failure, second, 0},
		{crashloop.Success, second, second},        // the first delay, as this class has it
		{crashloop.Failure, second, 20 * second},   // the second
		{crashloop.Success, second, 3 * second},    // the third, at its maximum
		{crashloop.Success, 6 * second, 0},         // it ran for longer than its reset
		{crashloop.Failure, second, 10 * second},   // so the count starts again
		{crashloop.OOMKilled, second, 20 * second}, // the second, as all other classes have it
	} {
		x := crashloop.Exit{ID: fmt.Sprint(i), StartedAt: now, FinishedAt: now.Add(step.run), RestartCount: i, SameDefinition: true, Class: step.class}
		now = now.Add(step.run)
		until, delay := table.Check(key, x, now)
		if delay != step.want {
			t.Errorf("step %d: delay %v, want %v", i, delay, step.want)
		}
		if !until.IsZero() {
			now = until
			table.Check(key, x, now)
		}
	}
}

// spec/runtime.md 17.6: a container that could never be started has its delay
// again after a restart of the engine.
func TestRebuildWithoutStart(t *testing.T) {
	x := crashloop.Exit{ID: "x", FinishedAt: start, RestartCount: 3, SameDefinition: true}
	if _, delay := crashloop.New(policy).Check(key, x, start.Add(second)); delay != 40*second {
		t.Errorf("delay %v, want 40s", delay)
	}
}

// spec/runtime.md 17.8: the end of a delay has a monotonic reading, although the runtime's times have none: no step of
// the wall clock moves it.
func TestDelayIsMonotonic(t *testing.T) {
	table, now := crashloop.New(policy), time.Now()
	ended := now.Round(0).Add(-3 * second)
	table.Check(key, crashloop.Exit{ID: "0", StartedAt: ended, FinishedAt: ended}, now)
	until, _ := table.Check(key, crashloop.Exit{ID: "1", StartedAt: ended, FinishedAt: ended, RestartCount: 1, SameDefinition: true}, now)
	if until == until.Round(0) || until.Sub(now).Round(second) != 7*second {
		t.Errorf("until %v, %v from now", until, until.Sub(now))
	}
}
