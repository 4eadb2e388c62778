package toyruntime

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"slices"
	"syscall"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/runtime"
)

// StartContainer starts the container's process, which outlives ctx.
func (r *Runtime) StartContainer(_ context.Context, id string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	c, err := find(r.containers, "container", id)
	if err != nil {
		return err
	}
	if c.State != runtimeapi.ContainerState_CONTAINER_CREATED || r.sandboxes[c.sandbox].GetState() != runtimeapi.PodSandboxState_SANDBOX_READY {
		return fmt.Errorf("container %s has been started already, or its sandbox is stopped: %w", id, runtime.ErrFailedPrecondition)
	}
	log, err := os.OpenFile(c.LogPath, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	cmd := c.command(context.Background(), slices.Concat(c.config.GetCommand(), c.config.GetArgs()))
	cmd.Stdout, cmd.Stderr = logStream{log, "stdout"}, logStream{log, "stderr"}
	if err := cmd.Start(); err != nil {
		return errors.Join(err, log.Close())
	}
	c.process, c.State, c.StartedAt = cmd.Process, runtimeapi.ContainerState_CONTAINER_RUNNING, time.Now().UnixNano()
	go r.await(c, cmd, log) // ends with the process, which StopContainer ends
	return nil
}

// await records the end of a container.
func (r *Runtime) await(c *container, cmd *exec.Cmd, log *os.File) {
	_ = cmd.Wait() // cmd.ProcessState says how it ended
	_ = log.Close()
	r.mu.Lock()
	defer r.mu.Unlock()
	c.State, c.FinishedAt, c.ExitCode = runtimeapi.ContainerState_CONTAINER_EXITED, time.Now().UnixNano(), exitCode(cmd.ProcessState)
	close(c.ended)
}

// StopContainer asks the process to end, kills it when its grace period is over, and returns once it has ended.
func (r *Runtime) StopContainer(ctx context.Context, id string, seconds int64) error {
	c, err := r.running(id)
	if err != nil {
		return nil // not running, so already stopped
	}
	kill := time.NewTimer(min(time.Duration(seconds), math.MaxInt64/time.Second) * time.Second)
	defer kill.Stop()
	if seconds > 0 {
		_ = c.process.Signal(syscall.SIGTERM) // fails only if it has ended
	}
	for {
		select {
		case <-c.ended:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		case <-kill.C:
			_ = syscall.Kill(-c.process.Pid, syscall.SIGKILL)
		}
	}
}

// ExecSync runs a command beside the container's process.
func (r *Runtime) ExecSync(ctx context.Context, id string, argv []string, timeout time.Duration) (stdout, stderr []byte, _ error) {
	c, err := r.running(id)
	if err != nil {
		return nil, nil, err
	}
	if len(argv) == 0 {
		return nil, nil, fmt.Errorf("no command to run in container %s: %w", id, runtime.ErrInvalid)
	}
	if timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, timeout)
		defer cancel()
	}
	var out, errOut bytes.Buffer
	cmd := c.command(ctx, argv)
	cmd.Stdout, cmd.Stderr = &out, &errOut
	err = cmd.Run()
	var exit *exec.ExitError
	if ctx.Err() != nil {
		err = ctx.Err()
	} else if errors.As(err, &exit) {
		err = &runtime.ExitError{Code: int(exitCode(exit.ProcessState))}
	}
	return out.Bytes(), errOut.Bytes(), err
}

// running returns a running container, or an error that says why there is none.
func (r *Runtime) running(id string) (*container, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c, err := find(r.containers, "container", id)
	if err == nil && c.State != runtimeapi.ContainerState_CONTAINER_RUNNING {
		err = fmt.Errorf("container %s does not run: %w", id, runtime.ErrFailedPrecondition)
	}
	return c, err
}

// command returns argv as a command with the container's folder and environment, in its own process
// group: when it is killed, so are its children.
func (c *container) command(ctx context.Context, argv []string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Dir, cmd.Env = c.config.GetWorkingDir(), []string{"PATH=" + os.Getenv("PATH")}
	for _, v := range c.config.GetEnvs() {
		cmd.Env = append(cmd.Env, v.GetKey()+"="+string(v.GetValue()))
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second // a child that left the group may keep the output open
	return cmd
}

// exitCode is the code that a shell reports: 128 plus the signal for a process that a signal ended.
func exitCode(p *os.ProcessState) int32 {
	if how, ok := p.Sys().(syscall.WaitStatus); ok && how.Signaled() {
		return 128 + int32(how.Signal())
	}
	return int32(p.ExitCode())
}
