package podsource

import (
	"sync"

	"k8s.io/utils/clock"

	"github.com/podwright/podwright/syncloop"
)

// health records how recent reads of the API server went (KS11).
type health struct {
	clock clock.PassiveClock

	mu  sync.Mutex
	now syncloop.SourceHealth
}

func (h *health) read() syncloop.SourceHealth {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.now
}

// succeeded records that the set is as the API server has it.
func (h *health) succeeded() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.now = syncloop.SourceHealth{LastSuccess: h.clock.Now()}
}

// refused records why the latest attempt failed.
func (h *health) refused(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.now.LastError, h.now.LastErrorAt = err, h.clock.Now()
}
