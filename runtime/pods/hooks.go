package pods

import (
	"context"
	"errors"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
)

// hook is a lifecycle hook of one container.
type hook struct {
	handler     *v1.LifecycleHandler
	containerID string
	ports       []v1.ContainerPort
	podIP       string
	// event raises an event on the pod.
	event func(eventtype, reason, format string, args ...any)
}

// runHook runs a lifecycle hook to its end (spec/runtime.md 15).
func (m *Manager) runHook(ctx context.Context, h hook) error {
	switch {
	case h.handler.Exec != nil:
		_, _, err := m.runtime.ExecSync(ctx, h.containerID, h.handler.Exec.Command, 0)
		return err
	case h.handler.HTTPGet != nil:
		return httpHook(ctx, h)
	case h.handler.Sleep != nil:
		return m.sleepHook(ctx, h.handler.Sleep.Seconds)
	}
	return errors.New("the hook has none of exec, httpGet and sleep")
}

// runHookWithin is runHook for at most limit; 0 means no limit. A hook that takes
// longer is cancelled. The caller must call wait, which returns once the hook's
// goroutine has ended.
func (m *Manager) runHookWithin(ctx context.Context, limit time.Duration, h hook) (wait func(), err error) {
	hookCtx, cancel := context.WithCancel(ctx)
	defer cancel()
	ended := make(chan error, 1)
	done := make(chan struct{})
	go func() {
		defer close(done)
		ended <- m.runHook(hookCtx, h)
	}()
	var over <-chan time.Time
	if limit > 0 {
		timer := m.options.Clock.NewTimer(limit)
		defer timer.Stop()
		over = timer.C()
	}
	select {
	case err = <-ended:
	case <-over:
		err = fmt.Errorf("the hook did not end within %s", limit)
	case <-ctx.Done():
		err = ctx.Err()
	}
	return func() { <-done }, err
}

func (m *Manager) sleepHook(ctx context.Context, seconds int64) error {
	if seconds < 0 {
		return fmt.Errorf("sleep of %d s", seconds)
	}
	timer := m.options.Clock.NewTimer(time.Duration(seconds) * time.Second)
	defer timer.Stop()
	select {
	case <-timer.C():
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
