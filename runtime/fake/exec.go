package fake

import (
	"context"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/runtime"
)

// ExecSync asks the container's script what cmd does and waits that long. cmd is killed if its container ends.
func (f *Runtime) ExecSync(ctx context.Context, id string, cmd []string, timeout time.Duration) (stdout, stderr []byte, err error) {
	cmd = slices.Clone(cmd)
	call := Call{
		Method: ExecSync, ContainerID: id,
		Request: &runtimeapi.ExecSyncRequest{ContainerId: id, Cmd: cmd, Timeout: int64(timeout / time.Second)},
	}
	var c *container
	result, err := do(ctx, f, call, step[ExecResult]{
		effect: func() (ExecResult, error) {
			switch c = f.containers.byID[id]; {
			case c == nil:
				return ExecResult{}, fmt.Errorf("container %q: %w", id, runtime.ErrNotFound)
			case !c.running():
				return ExecResult{}, fmt.Errorf("container %q is in state %v: %w", id, c.state, runtime.ErrFailedPrecondition)
			}
			return ExecResult{}, nil
		},
		after: func(ctx context.Context, _ ExecResult) (ExecResult, error) {
			return f.runCommand(ctx, c, cmd, timeout)
		},
	})
	return []byte(result.Stdout), []byte(result.Stderr), err
}

// runCommand asks the script and waits.
func (f *Runtime) runCommand(ctx context.Context, c *container, cmd []string, timeout time.Duration) (ExecResult, error) {
	var exec Exec
	var begin time.Time
	f.locked(func() {
		begin = f.now
		exec = Exec{PodUID: c.key.pod, Container: c.key.name, Cmd: cmd, Ready: c.ready(f.now), Config: c.config}
	})
	answer := c.script.Exec
	if answer == nil {
		answer = execReady
	}
	result := answer(exec)
	if result.Err != nil {
		return ExecResult{}, result.Err
	}
	end := begin.Add(result.Took)
	late := timeout > 0 && result.Took > timeout
	if late {
		end = begin.Add(timeout)
	}
	killed := false
	err := f.await(ctx, func() (bool, time.Time, <-chan struct{}) {
		// The clock may have stepped over both ends at once.
		if !c.running() && (f.now.Before(end) || c.finished.Before(end) && !c.finished.IsZero()) {
			killed = true
		}
		next := end
		if over := c.nextEnd(); !over.IsZero() && over.Before(end) {
			next = over // the container's own end
		}
		return killed || !f.now.Before(end), next, c.changed
	})
	switch {
	case err != nil:
		return ExecResult{}, err
	case killed:
		return ExecResult{}, &runtime.ExitError{Code: codeKilled}
	case late:
		return ExecResult{}, fmt.Errorf("command did not end within %v: %w", timeout, runtime.ErrDeadline)
	case result.Code != 0:
		return result, &runtime.ExitError{Code: result.Code}
	}
	return result, nil
}

// execReady is a command that succeeds in a ready container.
func execReady(e Exec) ExecResult {
	if e.Ready {
		return ExecResult{}
	}
	return ExecResult{Code: 1, Stderr: "not ready\n"}
}

// ready reports whether the container is ready.
func (c *container) ready(now time.Time) bool {
	return c.running() && !now.Before(c.begun.Add(c.script.ReadyAfter))
}

// Ready reports whether the container of this name runs and its script's
// ReadyAfter has passed.
func (f *Runtime) Ready(podUID types.UID, name string) bool {
	ready := false
	f.locked(func() {
		for _, c := range f.containers.all {
			ready = ready || c.key == containerKey{podUID, name} && c.ready(f.now)
		}
	})
	return ready
}
