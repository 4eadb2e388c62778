package podwright

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/backoff"
	"github.com/podwright/podwright/internal/timing"
	"github.com/podwright/podwright/podworkers"
	"github.com/podwright/podwright/runtime"
)

// drainRetryMin and drainRetryMax bound the pauses in which a drain asks a runtime
// that does not answer.
const (
	drainRetryMin = 100 * time.Millisecond
	drainRetryMax = 5 * time.Second
)

// drain is one request to stop all pods.
type drain struct {
	ctx    context.Context
	result chan error // takes one value
}

// Drain stops every pod, each with its own grace period, removes what is left of
// them from the runtime, and ends Run. It returns when Run has returned, nil if
// every pod is gone. If ctx ends first, or Run's context does, the rest of the
// pods is left as it is, and the error says which ones. Without a Run under way it
// returns [ErrNotRunning].
func (e *Engine) Drain(ctx context.Context) error {
	e.mu.Lock()
	started := e.started
	e.mu.Unlock()
	if !started {
		return ErrNotRunning
	}
	d := &drain{ctx: ctx, result: make(chan error, 1)}
	select {
	case e.drains <- d:
	case <-e.stopped:
		return ErrNotRunning
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	<-e.stopped
	return <-d.result
}

// stopPods terminates all pods and removes their remains: those the workers know,
// and those only the runtime knows, because no source has been heard yet. The
// loop has stopped, so no new pod appears.
func (e *parts) stopPods(ctx context.Context, d *drain) error {
	both, cancel := context.WithCancelCause(d.ctx)
	defer cancel(nil)
	defer context.AfterFunc(ctx, func() { cancel(context.Cause(ctx)) })()

	known := e.workers.Snapshot()
	var problems []error
	if err := e.workers.Stop(both, podworkers.Terminate); err != nil {
		problems = append(problems, fmt.Errorf("not every pod could be stopped: %w", err))
	}
	remains := map[types.UID]*runtime.Pod{}
	for _, p := range known {
		remains[p.UID] = &runtime.Pod{UID: p.UID, Namespace: p.Namespace, Name: p.Name}
	}
	listed, err := e.listPods(both)
	if err != nil {
		problems = append(problems, fmt.Errorf("look for pods that still run: %w", err))
	}
	for _, p := range listed {
		remains[p.UID] = p
	}
	for _, uid := range slices.Sorted(maps.Keys(remains)) {
		p := remains[uid]
		if err := e.removePod(both, p); err != nil {
			problems = append(problems, fmt.Errorf("pod %s/%s (%s): %w", p.Namespace, p.Name, uid, err))
		}
	}
	return errors.Join(problems...)
}

// listPods asks what the runtime has until it answers or ctx ends: one that is down
// may still run pods that nobody has seen yet.
func (e *parts) listPods(ctx context.Context) ([]*runtime.Pod, error) {
	view := runtime.NewView(e.config.Runtime, runtime.ViewOptions{OwnerID: e.config.Node.OwnerID, Clock: e.config.Clock})
	for pause := drainRetryMin; ; pause = backoff.Next(drainRetryMin, drainRetryMax, pause) {
		listed, err := view.ListPods(ctx)
		if err == nil || ctx.Err() != nil {
			return listed, err
		}
		timer := e.config.Clock.NewTimer(pause)
		select {
		case <-timer.C():
		case <-ctx.Done():
			timer.Stop()
			return nil, err
		}
	}
}

// removePod removes what is left of a pod the workers are done with. What still
// runs has never been theirs, or they failed to stop it; it is stopped as its
// annotations ask.
func (e *parts) removePod(ctx context.Context, p *runtime.Pod) error {
	if p.Running() {
		status, err := e.pleg.ReadNow(ctx, p.UID)
		if err != nil {
			return err
		}
		if err := e.pods.KillPod(ctx, nil, status, nil); err != nil {
			return fmt.Errorf("stop: %w", err)
		}
	}
	if err := e.pods.RemovePod(ctx, p.UID); err != nil {
		return fmt.Errorf("remove from the runtime: %w", err)
	}
	if err := e.pods.RemovePodDir(ctx, p.UID); err != nil {
		return fmt.Errorf("remove its folder: %w", err)
	}
	e.journal.Drained(p.UID)
	return nil
}

// flush gives the sinks a moment to take the last statuses.
func (e *parts) flush(ctx context.Context) {
	ctx, cancel := timing.WithTimeout(ctx, e.config.Clock, flushTimeout)
	defer cancel()
	if err := e.status.Flush(ctx); err != nil {
		e.config.Observe.Logger.Info("some statuses did not reach every sink before the end", "error", err.Error())
	}
}

// flushTimeout is how long the end of a run waits for the sinks.
const flushTimeout = 5 * time.Second
