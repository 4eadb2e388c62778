package spread_test

import (
	"fmt"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/podwright/podwright/kube/internal/spread"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestPausesSpreadUpwards: equal pauses of many nodes, and those of one node at different moments, fill
// the fifth evenly.
func TestPausesSpreadUpwards(t *testing.T) {
	began := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for name, pause := range map[string]func(i int) time.Duration{
		"nodes":   func(i int) time.Duration { return spread.Out(10*time.Second, fmt.Sprint("edge-", i), began) },
		"moments": func(i int) time.Duration { return spread.Out(10*time.Second, "edge", began.Add(time.Duration(i))) },
	} {
		var tenths [10]int
		for i := range 1000 {
			p := pause(i)
			if p < 10*time.Second || p >= 12*time.Second {
				t.Fatalf("%s: a pause of 10 s takes %v", name, p)
			}
			tenths[(p-10*time.Second)/(200*time.Millisecond)]++
		}
		for i, n := range tenths {
			if n < 60 || n > 140 {
				t.Errorf("%s: %d of 1,000 pauses are in tenth %d", name, n, i)
			}
		}
	}
	if p := spread.Out(0, "edge", began); p != 0 {
		t.Errorf("no pause takes %v", p)
	}
}
