package patience

import (
	"testing"
	"time"

	"k8s.io/utils/clock"

	"github.com/podwright/podwright/internal/timing"
)

// Until polls for what no event tells, and fails the test if it has not come within a minute.
func Until(t testing.TB, what string, ok func() bool) {
	t.Helper()
	machine := clock.RealClock{}
	ticker := machine.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	ctx, cancel := timing.WithTimeout(t.Context(), machine, time.Minute)
	defer cancel()
	for !ok() {
		select {
		case <-ticker.C():
		case <-ctx.Done():
			t.Fatalf("%s: does not happen", what)
		}
	}
}
