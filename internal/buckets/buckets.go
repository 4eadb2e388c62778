// Package buckets has the histogram boundaries of the engine's metrics, so that
// what one histogram can tell, its neighbours can too.
package buckets

// Seconds are boundaries for durations from a millisecond to ten minutes. The
// SDK's defaults are meant for milliseconds and would put everything into the
// first bucket.
func Seconds() []float64 {
	return []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600}
}
