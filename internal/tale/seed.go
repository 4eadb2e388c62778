package tale

import (
	"os"
	"strconv"
	"testing"
	"time"
)

// Seed returns the seed of the deaths that a test draws, and logs it: that of PODWRIGHT_CRASH_SEED, or else another one
// each day in a full run, and always the same one in others.
func Seed(t testing.TB, full bool, now time.Time) (seed uint64) {
	t.Helper()
	const variable, day = "PODWRIGHT_CRASH_SEED", 24 * time.Hour
	seed = 1
	text := os.Getenv(variable)
	switch {
	case text != "":
		var err error
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatalf("%s: %v", variable, err)
		}
	case full:
		seed = uint64(now.Unix() / int64(day/time.Second))
	}
	t.Logf("%s=%d", variable, seed)
	return seed
}
