package elapsed

import "time"

// Reached reports whether a moment has come by either clock. Credentials must not outlive their end, so
// in doubt it has.
func Reached(moment, now time.Time) bool {
	return !now.Before(moment) || !now.Round(0).Before(moment.Round(0))
}
