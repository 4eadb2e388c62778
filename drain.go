package podwright

import (
	"context"
	"errors"
	"fmt"

	"github.com/podwright/podwright/podworkers"
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

// stopPods terminates all pods and removes their remains. The loop has stopped,
// so no new pod appears.
func (e *Engine) stopPods(ctx context.Context, d *drain) error {
	both, cancel := context.WithCancelCause(d.ctx)
	defer cancel(nil)
	defer context.AfterFunc(ctx, func() { cancel(context.Cause(ctx)) })()

	known := e.workers.Snapshot()
	stopErr := e.workers.Stop(both, podworkers.Terminate)
	if stopErr != nil {
		stopErr = fmt.Errorf("not every pod could be stopped: %w", stopErr)
	}
	problems := []error{stopErr}
	for _, p := range known {
		if e.workers.CouldHaveRunningContainers(p.UID) {
			problems = append(problems, fmt.Errorf("pod %s/%s (%s) may still run", p.Namespace, p.Name, p.UID))
			continue
		}
		if err := e.pods.RemovePod(both, p.UID); err != nil {
			problems = append(problems, fmt.Errorf("remove pod %s/%s (%s): %w", p.Namespace, p.Name, p.UID, err))
			continue
		}
		if err := e.pods.RemovePodDir(p.UID); err != nil {
			problems = append(problems, fmt.Errorf("remove the folder of pod %s/%s (%s): %w", p.Namespace, p.Name, p.UID, err))
		}
	}
	return errors.Join(problems...)
}

// flush gives the sinks a moment to take the last statuses.
func (e *Engine) flush(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, flushTimeout)
	defer cancel()
	if err := e.status.Flush(ctx); err != nil {
		e.config.Logger.Info("some statuses did not reach every sink before the end", "error", err.Error())
	}
}
