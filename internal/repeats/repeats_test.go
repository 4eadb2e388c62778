package repeats_test

import (
	"slices"
	"testing"
	"time"

	"go.uber.org/goleak"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/podwright/podwright/internal/repeats"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// told notes n occurrences, one each period, and returns the numbers of those that are due.
func told(t *repeats.Table[string], c *clocktesting.FakeClock, key string, n int, period time.Duration) (due []int) {
	for i := range n {
		if t.Note(key).Due {
			due = append(due, i+1)
		}
		c.Step(period)
	}
	return due
}

func TestDueAtDoublingCounts(t *testing.T) {
	c := clocktesting.NewFakeClock(time.Unix(1000, 0))
	table := repeats.New[string](c, 0)
	if got := told(table, c, "a", 100, time.Second); !slices.Equal(got, []int{1, 2, 4, 8, 16, 32, 64}) {
		t.Errorf("told at %v", got)
	}
	if o := table.Note("a"); o != (repeats.Occurrence{Count: 101, Over: 100 * time.Second}) {
		t.Errorf("%+v", o)
	}
	if o := table.Note("b"); o != (repeats.Occurrence{Count: 1, Due: true}) {
		t.Errorf("another event: %+v", o)
	}
	c.Step(10*time.Minute - time.Second)
	if o := table.Note("a"); o.Count != 102 || o.Due {
		t.Errorf("before it is quiet for 10 min: %+v", o)
	}
	c.Step(10 * time.Minute)
	if o := table.Note("a"); o != (repeats.Occurrence{Count: 1, Due: true}) {
		t.Errorf("after a quiet time: %+v", o)
	}
	table.Note("a")
	table.Note("a")
	table.Forget("a")
	table.Forget("never seen")
	if o := table.Note("a"); o != (repeats.Occurrence{Count: 1, Due: true}) {
		t.Errorf("forgotten: %+v", o)
	}
}

// TestReminder: an event that lasts is never silent for longer than the reminder, and a clock that is set back makes
// it neither new nor due.
func TestReminder(t *testing.T) {
	c := clocktesting.NewFakeClock(time.Unix(1_000_000, 0))
	table := repeats.New[string](c, repeats.Reminder)
	var last time.Time
	n := 0
	for range 24 * 60 * 60 {
		if table.Note("a").Due {
			if silent := c.Since(last); n > 0 && silent > repeats.Reminder {
				t.Fatalf("silent for %v", silent)
			}
			last = c.Now()
			n++
		}
		c.Step(time.Second)
	}
	if n < 48 || n > 17+48 {
		t.Errorf("told %d times in a day", n)
	}
	c.SetTime(c.Now().Add(-2 * time.Hour))
	if o := table.Note("a"); o.Due || o.Count != 24*60*60+1 {
		t.Errorf("after the clock was set back: %+v", o)
	}
}

// TestBounded: what occurred the longest ago makes room, also after some were forgotten.
func TestBounded(t *testing.T) {
	c := clocktesting.NewFakeClock(time.Unix(1000, 0))
	table := repeats.New[int](c, 0)
	for i := range 5000 {
		table.Note(i)
		table.Note(0)
	}
	if o := table.Note(0); o.Count != 5002 {
		t.Errorf("the busiest one: %+v", o)
	}
	for i, want := range map[int]uint64{1: 1, 4999: 2} {
		if o := table.Note(i); o.Count != want {
			t.Errorf("%d: %+v", i, o)
		}
	}
}
