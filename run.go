package podwright

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/podwright/podwright/internal/dirlock"
)

// component is a part of an engine that runs on a goroutine of its own.
type component struct {
	name string
	run  func(context.Context) error
	stop stage
	end  meaning
}

// stage says when a component stops. The stages stop in this order.
type stage int

const (
	// stopInput: what brings new work. A drain stops the pods after this stage.
	stopInput stage = iota
	// stopWork: what changes pods and their remains. The last statuses are sent after
	// this stage.
	stopWork
	// stopRecords: what the work reads from and reports to.
	stopRecords

	stages // how many there are
)

// meaning is what the end of a component means that was not told to stop.
type meaning int

const (
	endIsFault meaning = iota // Run ends with an error
	endIsDone                 // Run ends, with the component's error if it has one
	endIsFine                 // the component has done its work
)

// components lists what runs in an engine, in the order in which it starts. Each stage
// stops in the reverse order.
func (e *parts) components() []component {
	return []component{
		{"checkpoint", e.recovery.KeepRecords, stopRecords, endIsFault},
		{"status", e.status.Run, stopRecords, endIsFault},
		{"pleg", e.pleg.Run, stopRecords, endIsFault},
		{"health", e.health.Run, stopRecords, endIsFault},

		{"collection of images", e.runImageGC, stopWork, endIsFault},
		{"removal of cgroups", e.cgroupRemover.Run, stopWork, endIsFault},
		{"log rotation", e.rotator.Run, stopWork, endIsFault},
		{"removal of dead containers", e.reaper.Run, stopWork, endIsFault},
		{"resizing", e.resizer.Run, stopWork, endIsFault},
		{"deadlines", e.syncer.Run, stopWork, endIsFault},
		{"mirror pods", e.mirrors.Run, stopWork, endIsFault},
		{"probe", e.probes.Run, stopWork, endIsFault},
		{"workers", e.workers.Run, stopWork, endIsFault},

		{"recovery", e.recovery.Run, stopInput, endIsFine},
		{"loop", e.loop.Run, stopInput, endIsDone},
		{"eviction", e.runEviction, stopInput, endIsFault},
		{"node hooks", e.hooks.Run, stopInput, endIsFault},
		{"ready", e.announce, stopInput, endIsFine},
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
	return supervise(ctx, e.components(), e.drains, func(s stage, d *drain) {
		switch {
		case s == stopInput && d != nil:
			d.result <- e.stopPods(ctx, d)
		case s == stopWork:
			e.flush(context.WithoutCancel(ctx))
		}
	})
}

// supervise starts the components in their order and, when ctx ends, a drain comes, or a
// component ends that should not, stops them stage by stage. After each stage it calls
// stopped, with the drain if that was the reason.
func supervise(ctx context.Context, list []component, drains <-chan *drain, stopped func(stage, *drain)) error {
	ended := make(chan *started, len(list))
	all := make([]*started, len(list))
	for i, c := range list {
		all[i] = start(context.WithoutCancel(ctx), c, ended)
	}
	var problems []error
	var d *drain
	select {
	case <-ctx.Done():
	case c := <-ended:
		if c.end == endIsFault && c.err == nil {
			problems = append(problems, fmt.Errorf("%s ended unexpectedly", c.name))
		}
	case d = <-drains:
	}
	for s := range stages {
		for _, c := range slices.Backward(all) {
			if c.stop == s {
				problems = append(problems, c.shutDown())
			}
		}
		stopped(s, d)
	}
	return errors.Join(problems...)
}

// started is a component that was started.
type started struct {
	component
	cancel context.CancelFunc
	done   chan struct{}
	err    error // of its end by itself, set before done is closed
}

// start runs a component. Its end by itself goes to ended, which must have room for it,
// unless it has done its work.
func start(ctx context.Context, c component, ended chan<- *started) *started {
	ctx, cancel := context.WithCancel(ctx)
	s := &started{component: c, cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(s.done)
		err := c.run(ctx)
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			s.err = fmt.Errorf("%s: %w", c.name, err)
		}
		if err != nil || c.end != endIsFine {
			ended <- s
		}
	}()
	return s
}

// shutDown ends the component and waits for it. It returns the error it ended with by
// itself, if there is one.
func (s *started) shutDown() error {
	s.cancel()
	<-s.done
	return s.err
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
