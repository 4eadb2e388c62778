// Package spread lengthens pauses, so that nodes that lost their API server together do not return to
// it together.
//
//	pause, who waits, when ──► Out ──► pause … 1.2 × pause
package spread
