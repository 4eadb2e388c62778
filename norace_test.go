//go:build !race

package podwright_test

// raceDetector is true in tests with the race detector, which are several times
// slower.
const raceDetector = false
