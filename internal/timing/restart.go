package timing

import (
	"time"

	"k8s.io/utils/clock"
)

// Restart makes a timer fire once d has passed from now, and no more at the time it had before. Only the one goroutine
// that reads its channel may call it.
//
// Reset alone is not enough: a fake clock's timer that fires a second time before its channel is read holds up the
// clock, and with it whoever asks for the time.
func Restart(timer clock.Timer, d time.Duration) {
	timer.Stop()
	select {
	case <-timer.C():
	default:
	}
	timer.Reset(d)
}
