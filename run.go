package podwright

import (
	"context"
	"errors"
	"fmt"

	"github.com/podwright/podwright/internal/dirlock"
	"github.com/podwright/podwright/internal/lifecycle"
)

// components lists what runs in an engine, in the order in which it starts. Each stage
// stops in the reverse order. A drain stops the pods between the stages Input and Work;
// between Work and Records the last statuses are sent.
func (p *parts) components() []lifecycle.Component {
	const records, work, input = lifecycle.Records, lifecycle.Work, lifecycle.Input
	return []lifecycle.Component{
		{Name: "checkpoint", Run: p.recovery.KeepRecords, Stop: records},
		{Name: "status", Run: p.status.Run, Stop: records},
		{Name: "pleg", Run: p.pleg.Run, Stop: records},
		{Name: "OOM kills", Run: p.kills.Run, Stop: records},
		{Name: "health", Run: p.health.Run, Stop: records},
		{Name: "problems", Run: p.problems.Run, Stop: records},

		{Name: "objects", Run: p.objects.Run, Stop: work},
		{Name: "collection of images", Run: p.images.Run, Stop: work},
		{Name: "removals", Run: p.awaitRemovals, Stop: work},
		{Name: "interrupted removals", Run: p.pods.FinishRemovals, Stop: work},
		{Name: "log rotation", Run: p.rotator.Run, Stop: work},
		{Name: "removal of dead containers", Run: p.reaper.Run, Stop: work},
		{Name: "resizing", Run: p.resizer.Run, Stop: work},
		{Name: "deadlines", Run: p.syncer.Run, Stop: work},
		{Name: "mirror pods", Run: p.mirrors.Run, Stop: work},
		{Name: "probe", Run: p.probes.Run, Stop: work},
		{Name: "calls of the runtime", Run: p.calls.Run, Stop: work},
		{Name: "workers", Run: p.workers.Run, Stop: work},

		{Name: "recovery", Run: p.recovery.Run, Stop: work, End: lifecycle.Fine},
		{Name: "loop", Run: p.loop.Run, Stop: input, End: lifecycle.Done},
		{Name: "eviction", Run: p.evictions.Run, Stop: input},
		{Name: "return of static pods", Run: p.returns.Run, Stop: input},
		{Name: "node hooks", Run: p.hooks.Run, Stop: input},
		{Name: "ready", Run: p.announce, Stop: input, End: lifecycle.Fine},
	}
}

// Run brings the pods to their desired state and keeps them there until ctx ends, Drain is called, or
// every source is closed. It returns when every goroutine it started has ended; the pods keep running. If a function
// of [Config], a source or a sink, or a call about a volume's files, still runs 5 s after its context has ended, Run logs it and does not wait for it. Run returns nil
// for an end that was requested, otherwise what went wrong. A second call returns
// [ErrRunning]. If another engine uses the RootDir, or a LogDir outside of it, the error wraps
// [ErrInUse]; if another engine runs pods with the same OwnerID at the same runtime, it wraps
// [ErrSameOwner]; if the RootDir holds pods of another OwnerID, [ErrOtherOwner].
func (e *Engine) Run(ctx context.Context) error {
	if !e.started.CompareAndSwap(false, true) {
		return ErrRunning
	}
	defer close(e.stopped)
	defer lifecycle.Skip(ctx, e.status.Run, e.loop.Run) // unless they have run

	lock, err := dirlock.AcquireRoot(e.config.RootDir, e.config.Node.OwnerID)
	if err != nil {
		return fmt.Errorf("podwright: %w", err)
	}
	defer lock.Release()
	logs, err := dirlock.AcquireOutside(e.config.RootDir, e.config.Storage.LogDir, e.config.Node.OwnerID) // (ND8)
	if err != nil {
		return fmt.Errorf("podwright: %w", err)
	}
	defer logs.Release()
	defer e.changes.Close()
	if err := e.hooks.Initialise(ctx); err != nil {
		return fmt.Errorf("podwright: %w", err)
	}
	if err := errors.Join(e.resizer.Prepare(), e.pods.LoadUserRanges()); err != nil {
		return fmt.Errorf("podwright: %w", err)
	}
	e.recovery.Start(ctx)
	return e.serve(ctx)
}

// serve runs the components until ctx ends, a drain is asked for, or a component ends
// that should not.
func (p *parts) serve(ctx context.Context) error {
	defer func() { p.traces.End(); p.events.Leave(); p.pods.Leave(); p.users().Leave(p.config.Observe.Logger) }()
	return lifecycle.Run(ctx, p.components(), p.drains, p.users().Stopping, func(s lifecycle.Stage, d *drain) {
		switch {
		case s == lifecycle.Input && d != nil:
			d.result <- p.stopPods(ctx, d)
		case s == lifecycle.Work:
			p.flush(context.WithoutCancel(ctx))
		}
	})
}

// announce closes ready once the engine is ready.
func (p *parts) announce(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case <-p.loop.ReadyC():
	}
	select {
	case <-ctx.Done():
		return nil
	case <-p.pleg.SyncedC():
	}
	close(p.ready)
	return nil
}
