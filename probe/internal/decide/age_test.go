package decide_test

import (
	"testing"
	"time"

	"github.com/podwright/podwright/probe/internal/decide"
)

func TestRecordCountsForTwoPeriods(t *testing.T) { // 8.6
	record := func(age time.Duration) *decide.Record {
		r := &decide.Record{Started: true}
		r.Facts[decide.Readiness] = decide.Fact{Stored: decide.Success, Last: decide.Success, Run: 1, At: now.Add(-age)}
		return r
	}
	for _, c := range []struct {
		period, age time.Duration
		want        decide.Result
	}{
		{10 * time.Minute, 9 * time.Minute, decide.Success},
		{10 * time.Minute, 21 * time.Minute, decide.Failure},
		{10 * time.Second, 4 * time.Minute, decide.Success},
		{10 * time.Second, 6 * time.Minute, decide.Failure},
	} {
		rules := decide.Rules{Kind: decide.Readiness, Period: c.period, Failure: 3, MaxAge: 5 * time.Minute}
		if got := decide.Restore(rules, record(c.age), now).Result; got != c.want {
			t.Errorf("period %v, %v old: %v", c.period, c.age, got)
		}
	}
}

// TestInitialDelayEndsAlthoughTheClockWasSetBack is row 8 with 9.7.
func TestInitialDelayEndsAlthoughTheClockWasSetBack(t *testing.T) {
	look := decide.Look{Kind: decide.Readiness, Known: true, InitialDelay: 5 * time.Second, Container: live("1", true, -24*time.Hour), Now: now}
	look.At = time.Hour
	out := decide.Tick(decide.State{}, look)
	if out.Step != decide.Wait || out.After != 5*time.Second {
		t.Errorf("when first seen: %+v", out)
	}
	look.At += 2 * time.Second
	if out = decide.Tick(out.State, look); out.Step != decide.Wait || out.After != 3*time.Second {
		t.Errorf("after 2 s: %+v", out)
	}
	look.At += 3 * time.Second
	if out = decide.Tick(out.State, look); out.Step != decide.Execute {
		t.Errorf("after 5 s: %+v", out)
	}
	look.Container = &decide.Container{ID: id("2")}
	out = decide.Tick(out.State, look)
	look.At += time.Hour // created, and started only now: no look came in between
	look.Container = live("2", true, -24*time.Hour)
	if out = decide.Tick(out.State, look); out.Step != decide.Wait || out.After != 5*time.Second {
		t.Errorf("a container that did not run before: %+v", out)
	}
}
