package elapsed

import "time"

// Reached reports whether a moment has come by at least one of the two clocks, so that credentials never
// outlive their end.
func Reached(moment, now time.Time) bool {
	return !now.Before(moment) || !now.Round(0).Before(moment.Round(0))
}
