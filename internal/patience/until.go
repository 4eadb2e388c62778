package patience

import (
	"errors"
	"testing"
	"time"

	"k8s.io/utils/clock"

	"github.com/podwright/podwright/internal/timing"
)

// Within polls until check returns nil, and returns how long that took. It fails the test if an idle machine would
// have come so far within limit.
func Within(t testing.TB, limit time.Duration, what string, check func() error) (took time.Duration) {
	t.Helper()
	limit = Of(limit)
	machine := clock.RealClock{}
	ticker := machine.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	ctx, cancel := timing.WithTimeout(t.Context(), machine, limit)
	defer cancel()
	for began := machine.Now(); ; {
		err := check()
		if err == nil {
			return machine.Since(began)
		}
		select {
		case <-ticker.C():
		case <-ctx.Done():
			t.Fatalf("%s: not after %s: %v", what, limit, err)
		}
	}
}

// Until is [Within] a minute, for what has no limit of its own and no reason to tell.
func Until(t testing.TB, what string, ok func() bool) (took time.Duration) {
	t.Helper()
	return Within(t, time.Minute, what, func() error {
		if !ok() {
			return errors.New("it has not happened")
		}
		return nil
	})
}
