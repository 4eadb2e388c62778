package podwright

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/podwright/podwright/internal/dirlock"
	"github.com/podwright/podwright/internal/lifecycle"
)

// components lists what runs in an engine, in the order in which it starts. Each stage
// stops in the reverse order. A drain stops the pods between the stages Input and Work;
// between Work and Records the last statuses are sent.
func (e *parts) components() []lifecycle.Component {
	const records, work, input = lifecycle.Records, lifecycle.Work, lifecycle.Input
	return []lifecycle.Component{
		{Name: "checkpoint", Run: e.recovery.KeepRecords, Stop: records},
		{Name: "status", Run: e.status.Run, Stop: records},
		{Name: "pleg", Run: e.pleg.Run, Stop: records},
		{Name: "health", Run: e.health.Run, Stop: records},

		{Name: "collection of images", Run: e.images.Run, Stop: work},
		{Name: "removal of cgroups", Run: e.cgroupRemover.Run, Stop: work},
		{Name: "log rotation", Run: e.rotator.Run, Stop: work},
		{Name: "removal of dead containers", Run: e.reaper.Run, Stop: work},
		{Name: "resizing", Run: e.resizer.Run, Stop: work},
		{Name: "deadlines", Run: e.syncer.Run, Stop: work},
		{Name: "mirror pods", Run: e.mirrors.Run, Stop: work},
		{Name: "probe", Run: e.probes.Run, Stop: work},
		{Name: "workers", Run: e.workers.Run, Stop: work},

		{Name: "recovery", Run: e.recovery.Run, Stop: input, End: lifecycle.Fine},
		{Name: "loop", Run: e.loop.Run, Stop: input, End: lifecycle.Done},
		{Name: "eviction", Run: e.evictions.Run, Stop: input},
		{Name: "node hooks", Run: e.hooks.Run, Stop: input},
		{Name: "ready", Run: e.announce, Stop: input, End: lifecycle.Fine},
	}
}

// Run brings the pods to their desired state and keeps them there until ctx
// ends, Drain is called, or every source is closed. It returns when every
// goroutine it started has ended; the pods keep running. It returns nil for an
// end that was asked for, else what went wrong. A second call returns
// [ErrRunning]; a RootDir, or a LogDir outside of it, that another engine has as its own
// gives an error that wraps [ErrInUse].
func (e *Engine) Run(ctx context.Context) error {
	e.mu.Lock()
	if e.started {
		e.mu.Unlock()
		return ErrRunning
	}
	e.started = true
	e.mu.Unlock()
	defer close(e.stopped)

	lock, err := dirlock.Acquire(e.config.RootDir)
	if err != nil {
		return fmt.Errorf("podwright: %w", err)
	}
	defer lock.Release()
	unlockLogs, err := e.lockLogs()
	if err != nil {
		return fmt.Errorf("podwright: %w", err)
	}
	defer unlockLogs()
	defer e.changes.Close()
	if err := e.hooks.Initialise(ctx); err != nil {
		return fmt.Errorf("podwright: %w", err)
	}
	if err := e.resizer.Prepare(); err != nil {
		return fmt.Errorf("podwright: %w", err)
	}
	if err := e.recovery.Load(context.WithoutCancel(ctx)); err != nil {
		e.config.Observe.Logger.Error(err, "no pod is set up")
	}
	return e.serve(ctx)
}

// lockLogs keeps other engines off a folder for logs that is not below RootDir: each
// would take the other's logs for those of gone pods (ND8).
func (e *parts) lockLogs() (unlock func(), err error) {
	if inside, err := filepath.Rel(e.config.RootDir, e.config.Storage.LogDir); err == nil && filepath.IsLocal(inside) {
		return func() {}, nil
	}
	lock, err := dirlock.Acquire(e.config.Storage.LogDir)
	if err != nil {
		return nil, err
	}
	return func() { _ = lock.Release() }, nil
}

// serve runs the components until ctx ends, a drain is asked for, or a component ends
// that should not.
func (e *parts) serve(ctx context.Context) error {
	return lifecycle.Run(ctx, e.components(), e.drains, func(s lifecycle.Stage, d *drain) {
		switch {
		case s == lifecycle.Input && d != nil:
			d.result <- e.stopPods(ctx, d)
		case s == lifecycle.Work:
			e.flush(context.WithoutCancel(ctx))
		}
	})
}

// announce closes ready when the engine is.
func (e *parts) announce(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case <-e.loop.ReadyC():
	}
	select {
	case <-ctx.Done():
		return nil
	case <-e.pleg.SyncedC():
	}
	close(e.ready)
	return nil
}
