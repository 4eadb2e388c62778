package server

import (
	"context"
	"io"
	"sync"
	"time"

	"k8s.io/utils/clock"

	"github.com/podwright/podwright/internal/timing"
)

// heartbeatPeriod is how often a client of a WebSocket is sent an empty message, to check that it is there.
const heartbeatPeriod = 5 * time.Second

// heartbeat detects that the client of a WebSocket has left, even while the client's data is not
// read, behind which the end of its connection waits (KH6).
type heartbeat struct {
	clock clock.Clock
	// mu is held by writers: a client that is being written to needs no heartbeat, which must not
	// extend the time that the client has to read (KH9).
	mu sync.Mutex
}

// run writes empty messages to the channel until ctx ends, or one fails: then it ends the stream with gone.
func (h *heartbeat) run(ctx context.Context, to io.Writer, gone context.CancelFunc) {
	timer := h.clock.NewTimer(heartbeatPeriod)
	defer timer.Stop()
	for ; ; timing.Restart(timer, heartbeatPeriod) {
		select {
		case <-timer.C():
		case <-ctx.Done():
			return
		}
		if !h.mu.TryLock() {
			continue
		}
		_, err := to.Write(nil)
		h.mu.Unlock()
		if err != nil {
			gone()
			return
		}
	}
}

// writer returns a channel that takes turns with the heartbeat.
func (h *heartbeat) writer(to io.Writer) io.Writer { return turns{h, to} }

type turns struct {
	*heartbeat
	to io.Writer
}

// Write implements [io.Writer].
func (t turns) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.to.Write(p)
}
