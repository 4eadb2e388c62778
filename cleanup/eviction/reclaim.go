package eviction

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/podwright/podwright/internal/foreign"
	"github.com/podwright/podwright/internal/problem"
	"github.com/podwright/podwright/internal/timing"
)

const (
	// promptly is how long a pass waits for work beside it that it has just begun.
	promptly = time.Second
	// reclaimWait is how long a limit of a disk waits for a reclaim before a pod is evicted for it.
	reclaimWait = time.Minute
)

// reclaim is the latest call of [Options.Reclaim]. It runs beside the passes: removing many images takes
// minutes, and a removal that hangs takes longer.
type reclaim struct {
	// done is closed when the call has returned; nil before the first.
	done  chan struct{}
	begun time.Time
	// err is what it returned, to be read once done is closed.
	err error
	// fresh: no pass has looked yet at what the call left. That pass evicts a pod or does not need to;
	// the call is not repeated before.
	fresh bool
}

func (r *reclaim) running() bool { return r.done != nil && !timing.Ended(r.done) }

func lowDisk(due []breach) bool {
	return slices.ContainsFunc(due, func(b breach) bool { return b.kind.disk })
}

// beginReclaim begins to free disk space if a disk is low, whatever pods that are being stopped will
// free. After a call that has ended since the last pass, this pass first decides.
func (m *Manager) beginReclaim(ctx context.Context, due []breach) (begun bool) {
	r := &m.reclaim
	if m.options.Reclaim == nil || r.running() {
		return false
	}
	if !lowDisk(due) {
		r.fresh = false
		return false
	}
	if r.fresh {
		return false
	}
	done := make(chan struct{})
	*r = reclaim{done: done, begun: m.options.Clock.Now(), fresh: true}
	m.beside.Go(func() {
		defer close(done)
		call := foreign.Call{Kind: problem.Function, Name: "Eviction.Reclaim", Patience: reclaimWait}
		_, r.err = foreign.Ask(ctx, m.own.calls, call, foreign.Limits{}, func(ctx context.Context) (struct{}, error) {
			return struct{}{}, m.options.Reclaim(ctx)
		})
	})
	return true
}

// reclaimError returns why the latest call did not free all it could, as long as a disk is low.
func (m *Manager) reclaimError(due []breach) error {
	r := &m.reclaim
	if !lowDisk(due) || r.done == nil || r.running() || r.err == nil {
		return nil
	}
	return fmt.Errorf("reclaim: %w", r.err)
}

// withoutWaiting returns the limits for which a pod may be evicted now: those of disks wait for a
// reclaim, for [reclaimWait] at most.
func (m *Manager) withoutWaiting(due []breach) []breach {
	if !m.reclaim.running() || m.options.Clock.Since(m.reclaim.begun) >= reclaimWait {
		return due
	}
	return slices.DeleteFunc(slices.Clone(due), func(b breach) bool { return b.kind.disk })
}

// soon waits briefly for done, and reports whether it is closed.
func (m *Manager) soon(ctx context.Context, done <-chan struct{}) bool {
	timer := m.options.Clock.NewTimer(promptly)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C():
	case <-ctx.Done():
	}
	return timing.Ended(done)
}
