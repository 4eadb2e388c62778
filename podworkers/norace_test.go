//go:build !race

package podworkers_test

// raceDetector is true in tests with the race detector, which are several times
// slower.
const raceDetector = false
