//go:build race

package enginetest_test

// raceDetector is true in tests with the race detector, which are several times
// slower.
const raceDetector = true
