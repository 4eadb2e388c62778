package process

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/internal/timing"
)

// StopContainer sends the stop signal to the container's process group, kills its
// tree after timeout seconds (0: at once), and returns when it has ended and what
// commands left behind in it was killed. If ctx
// ends first, the call returns and the stop continues. A later call may shorten the time
// that is left, never lengthen it; the stop signal is sent once per agent. Stopping
// a container that does not run succeeds.
func (r *Runtime) StopContainer(ctx context.Context, containerID string, timeout int64) error {
	leave, err := r.enter(ctx)
	if err != nil {
		return err
	}
	defer leave()
	c := r.container(containerID)
	if c == nil {
		return containerNotFound(containerID)
	}
	if err := r.beginStop(ctx, c, timing.Seconds(max(timeout, 0))); err != nil {
		return err
	}
	return r.awaitStop(ctx, c)
}

// beginStop asks a container to stop and arranges for it to be killed when grace is
// over. It waits for a start under way.
func (r *Runtime) beginStop(ctx context.Context, c *container, grace time.Duration) error {
	if err := r.acquire(ctx, c.op); err != nil {
		return err
	}
	defer c.op.release()
	u, err := r.hold(c)
	if err != nil {
		return fmt.Errorf("stop container %s: %w", c.record.ID, err)
	}
	now := r.clock.Now()
	killAt := now.Add(grace)
	r.mu.Lock()
	old := c.timer
	running := c.state == runtimeapi.ContainerState_CONTAINER_RUNNING
	signal := running && !c.asked && grace > 0
	sooner := c.timer == nil || killAt.Before(c.killAt)
	if signal {
		c.asked = true
	}
	r.mu.Unlock()
	switch {
	case !running || u == nil || u.process == nil:
		return nil // it has ended, or is about to
	case grace == 0:
		return kill(c, u)
	}
	if signal {
		err := u.process.SignalGroup(syscall.Signal(c.record.StopSignal))
		if err != nil && !errors.Is(err, os.ErrProcessDone) {
			return fmt.Errorf("stop container %s: %w", c.record.ID, err)
		}
	}
	if !sooner {
		return nil
	}
	if old != nil {
		old.Stop()
	}
	timer := r.clock.AfterFunc(grace, func() { r.spawn(func() { r.graceOver(c) }) })
	r.mu.Lock()
	late := c.state != runtimeapi.ContainerState_CONTAINER_RUNNING
	if !late {
		c.timer, c.killAt = timer, killAt
	}
	r.mu.Unlock()
	if late {
		timer.Stop()
	}
	return nil
}

// graceOver kills a container that did not stop in time.
func (r *Runtime) graceOver(c *container) {
	r.mu.Lock()
	u := c.run
	r.mu.Unlock()
	if u == nil || u.process == nil {
		return
	}
	if err := kill(c, u); err != nil {
		r.log.Error(err, "Cannot kill a container whose grace period is over", "container", c.record.ID)
	}
}

func kill(c *container, u *run) error {
	if err := u.process.KillTree(); err != nil {
		return fmt.Errorf("kill container %s: %w", c.record.ID, err)
	}
	return nil
}

// awaitStop waits for the end of a container that was asked to stop, and for the first look
// for its leftovers.
func (r *Runtime) awaitStop(ctx context.Context, c *container) error {
	r.mu.Lock()
	ran := c.state != runtimeapi.ContainerState_CONTAINER_CREATED
	r.mu.Unlock()
	if !ran {
		return nil
	}
	if err := r.wait(ctx, c.exited); err != nil {
		return err
	}
	return r.wait(ctx, c.looked)
}
