package elapsed_test

import (
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/podwright/podwright/kube/internal/elapsed"
	"github.com/podwright/podwright/kube/internal/elapsed/elapsedtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestReached: a moment has come if either clock says so.
func TestReached(t *testing.T) {
	c := &elapsedtest.Clock{}
	began := c.Now()
	in := began.Add(time.Hour)
	c.Slept = 2 * time.Hour
	woken := c.Now()
	if woken.Sub(began) > time.Minute || woken.Round(0).Sub(began.Round(0)) < c.Slept {
		t.Fatal("the test's clock does not do what it should")
	}
	for name, tc := range map[string]struct {
		moment, now time.Time
		want        bool
	}{
		"before":                  {in, began.Add(59 * time.Minute), false},
		"then":                    {in, in, true},
		"after":                   {in, in.Add(time.Minute), true},
		"while asleep":            {in, woken, true},
		"not while asleep":        {in.Add(2 * time.Hour), woken, false},
		"the wall clock was set":  {woken.Add(time.Hour), began.Add(2 * time.Hour), true},
		"the wall clock only":     {in.Round(0), woken, true},
		"the wall clock only, no": {in.Round(0), began, false},
	} {
		if got := elapsed.Reached(tc.moment, tc.now); got != tc.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}
