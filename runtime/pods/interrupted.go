package pods

import (
	"context"
	"errors"
	"time"

	"github.com/podwright/podwright/internal/backoff"
	"github.com/podwright/podwright/internal/timing"
	"github.com/podwright/podwright/runtime/pods/internal/poddir"
)

// interruptedMin and interruptedMax bound the pause after an attempt that failed.
const (
	interruptedMin = 5 * time.Second
	interruptedMax = 5 * time.Minute
)

// FinishRemovals finishes removals of volumes that were cut off: by the end of an earlier
// process, and from now on by the end of their context or an error (IN12). What is left of them is out of
// the way of every pod. It returns nil when ctx ends, after the current slice.
func (m *Manager) FinishRemovals(ctx context.Context) error {
	timer := m.options.Clock.NewTimer(interruptedMax)
	defer timer.Stop()
	var pause time.Duration
	for {
		var again <-chan time.Time // nothing is left: wait only for signals
		err := m.dirs.EmptyTrash(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case err == nil:
			pause = 0
		default:
			pause = backoff.Next(interruptedMin, interruptedMax, pause)
			timing.Restart(timer, pause)
			again = timer.C()
			m.options.Logger.Info("What earlier removals left behind cannot be removed", "error", err.Error(), "retryAfter", pause.String())
		}
		select {
		case <-ctx.Done():
			return nil
		case <-m.interrupted:
		case <-again:
		}
	}
}

// noteInterrupted makes FinishRemovals look for what a removal that returned err has left behind.
func (m *Manager) noteInterrupted(err error) {
	if !errors.Is(err, poddir.ErrInTrash) {
		return
	}
	select {
	case m.interrupted <- struct{}{}:
	default:
	}
}
