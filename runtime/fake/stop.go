package fake

import (
	"context"
	"fmt"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/internal/timing"
	"github.com/podwright/podwright/runtime"
)

// pendingStop is what a StopContainer call began.
type pendingStop struct {
	c *container
	// withdraw takes back this call's SIGKILL. Nil if there is none.
	withdraw func()
}

// StopContainer sends SIGTERM, which the script follows or ignores, and SIGKILL
// after timeout seconds on the clock; a timeout of 0 or less is SIGKILL at once.
// Several calls may be under way: each has its own SIGKILL, the earliest wins.
// See Options.AbandonStopOnCancel for a context that ends first.
func (f *Runtime) StopContainer(ctx context.Context, id string, timeout int64) error {
	call := Call{
		Method: StopContainer, ContainerID: id,
		Request: &runtimeapi.StopContainerRequest{ContainerId: id, Timeout: timeout},
	}
	_, err := do(ctx, f, call, step[pendingStop]{
		effect: func() (pendingStop, error) {
			c := f.containers.byID[id]
			if c == nil {
				return pendingStop{}, fmt.Errorf("container %q: %w", id, runtime.ErrNotFound)
			}
			return f.beginStop(c, timing.Seconds(timeout)), nil
		},
		after: func(ctx context.Context, stop pendingStop) (pendingStop, error) {
			err := f.await(ctx, func() (bool, time.Time, <-chan struct{}) {
				return !stop.c.running(), stop.c.nextEnd(), stop.c.changed
			})
			if contextError(ctx) != nil && err != nil && f.options.AbandonStopOnCancel && stop.withdraw != nil {
				f.locked(stop.withdraw)
			}
			return stop, err
		},
	})
	return err
}

// beginStop sends the signals, now or scheduled. The lock must be held.
func (f *Runtime) beginStop(c *container, grace time.Duration) pendingStop {
	stop := pendingStop{c: c}
	// The state of an unknown container cannot be known: waiting is useless.
	if grace <= 0 || c.state == runtimeapi.ContainerState_CONTAINER_UNKNOWN {
		f.kill(c)
	}
	if !c.running() {
		return stop
	}
	// A second SIGTERM ends nothing sooner than the first.
	if !c.script.IgnoreTERM {
		f.endAt(c, f.now.Add(c.script.OnTERM.After), c.script.OnTERM)
	}
	stop.withdraw = f.endAt(c, f.now.Add(grace), Exit{Code: codeKilled})
	f.runDue()
	return stop
}
