package process

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/podwright/podwright/runtime"
	"github.com/podwright/podwright/runtime/process/internal/launch"
	"github.com/podwright/podwright/runtime/process/internal/osproc"
)

// maxExecOutput is how much of each stream of a command is kept; the rest is
// read and dropped.
const maxExecOutput = 16 << 20

// maxDying is how many commands of a container may have been killed without having ended: where a file system hangs,
// each that a probe starts would add one.
const maxDying = 8

// ExecSync runs cmd with the container's environment, user, root, mounts and working
// directory, in a session of its own, and waits for it. When the time-out is over, ctx
// ends, or the container ends, its session is killed, and what it had written is returned
// with [runtime.ErrDeadline], a context error or [runtime.ErrFailedPrecondition]. Processes
// that cmd leaves in the background or puts into another session run until the container
// ends; their output is not read. At most 16 MiB of each stream are returned. While eight
// killed commands of the container hang in the kernel, another fails at once with [runtime.ErrDeadline].
func (r *Runtime) ExecSync(ctx context.Context, containerID string, cmd []string, timeout time.Duration) (stdout, stderr []byte, err error) {
	leave, err := r.enter(ctx)
	if err != nil {
		return nil, nil, err
	}
	defer leave()
	c := r.container(containerID)
	if c == nil {
		return nil, nil, containerNotFound(containerID)
	}
	if len(cmd) == 0 || cmd[0] == "" {
		return nil, nil, fmt.Errorf("exec in container %s: no command: %w", containerID, runtime.ErrInvalid)
	}
	u, err := r.hold(c)
	if err != nil {
		return nil, nil, fmt.Errorf("exec in container %s: %w", containerID, err)
	}
	if u == nil || u.process == nil {
		return nil, nil, notRunning(containerID)
	}
	var out, errOut capture
	files, err := pipeFiles(&c.record, false, &out, &errOut)
	if err != nil {
		return nil, nil, fmt.Errorf("exec in container %s: %w", containerID, err)
	}
	j, err := r.startJob(c, u, cmd, files)
	if err != nil {
		return nil, nil, fmt.Errorf("exec in container %s: %w", containerID, err)
	}
	var expired <-chan time.Time
	if timeout > 0 {
		timer := r.clock.NewTimer(timeout)
		defer timer.Stop()
		expired = timer.C()
	}
	select {
	case <-j.ended:
		err = j.finish()
	case <-expired:
		r.abort(j)
		err = fmt.Errorf("command %q ran longer than %v: %w", cmd[0], timeout, runtime.ErrDeadline)
	case <-ctx.Done():
		r.abort(j)
		err = ctxError(ctx)
	case <-c.exited:
		r.abort(j)
		err = errContainerEnded()
	case <-r.closing:
		r.abort(j)
		err = errClosed()
	}
	if err != nil {
		err = fmt.Errorf("exec in container %s: %w", containerID, err)
	}
	return out.data, errOut.data, err
}

func notRunning(id string) error {
	return fmt.Errorf("container %s does not run: %w", id, runtime.ErrFailedPrecondition)
}

// job is a command that runs in a container. It belongs to one call.
type job struct {
	container *container
	process   *osproc.Process
	pumps     []*pump
	ended     <-chan struct{}
}

func errContainerEnded() error {
	return fmt.Errorf("the container ended before the command: %w", runtime.ErrFailedPrecondition)
}

// startJob starts cmd. The files are the job's from now on, or closed after an error.
func (r *Runtime) startJob(c *container, u *run, cmd []string, files *jobFiles) (_ *job, err error) {
	defer files.closeTheirs()
	if r.dying(c) >= maxDying {
		files.closeOurs()
		// For a probe that is one more that took too long (spec/probe.md 9.5).
		return nil, fmt.Errorf("%d commands that were killed have not ended, as on a file system that hangs: %w", maxDying, runtime.ErrDeadline)
	}
	spec := launchSpec(&c.record)
	spec.Args, spec.Terminal, spec.Env = cmd, files.terminal, append(spec.Env, commandEnv+"=1")
	if files.terminal {
		spec.Env = withTerm(spec.Env)
	}
	spec.Stdin, spec.Stdout, spec.Stderr = files.stdin, files.stdout, files.stderr
	var pid, fd int
	start := func(container int) (err error) {
		if c.record.privateMounts() {
			spec.MountsOf = container
		}
		pid, fd, err = launch.Start(spec)
		return err
	}
	ended := make(chan struct{})
	j := &job{container: c, ended: ended}
	if err = u.process.WithFD(start); err == nil {
		j.process, err = adoptChild(pid, fd)
	}
	if err != nil {
		files.closeOurs()
		if errors.Is(err, os.ErrProcessDone) {
			err = errors.Join(notRunning(c.record.ID), err)
		}
		return nil, err
	}
	for _, from := range files.output {
		j.pumps = append(j.pumps, startPump(from.file, from.to))
	}
	// The wait refers to no output, which it may outlive.
	if _, err = r.watcher.Watch(j.process, func() { close(ended) }); err != nil {
		_ = j.process.KillTree()
		reap(pid, 0)
		j.release()
		return nil, errors.Join(errClosed(), err)
	}
	return j, nil
}

// finish reaps a command that has exited by itself.
func (j *job) finish() error {
	status, ok := reap(j.process.Identity().PID, unix.WNOHANG)
	j.release()
	switch {
	case !ok:
		return errors.New("the exit code of the command is lost: another part of this program waited for it")
	case status.Signaled():
		select {
		case <-j.container.exited: // it was killed as one of the container's leftovers
			return errContainerEnded()
		default:
		}
		return &runtime.ExitError{Code: codeSignal + int(status.Signal())}
	case status.ExitStatus() != 0:
		return &runtime.ExitError{Code: status.ExitStatus()}
	}
	return nil
}

// abort kills a command's session. What it started in others ends with the container.
func (r *Runtime) abort(j *job) {
	_ = j.process.KillTree()
	// In an uninterruptible system call it may take long to end: the caller does not
	// wait for it, Close does. Nor does it wait for a reader of its output, who may take nothing for hours.
	r.die(j.container, j.process, j.ended)
	j.stopReading()
}

// die reaps a killed command when it has ended. It takes no thread until the runtime is closed.
func (r *Runtime) die(c *container, p *osproc.Process, ended <-chan struct{}) {
	r.addDying(c, 1)
	r.work.Go(func() {
		select {
		case <-ended:
		case <-r.closing: // the watcher is closed, too
		}
		reap(p.Identity().PID, 0)
		p.Close()
		r.addDying(c, -1)
	})
}

// dying is how many killed commands of a container have not ended.
func (r *Runtime) dying(c *container) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return c.dying
}

func (r *Runtime) addDying(c *container, n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c.dying += n
}

// release stops reading output and frees everything.
func (j *job) release() {
	j.stopReading()
	j.process.Close()
}

// stopReading ends once all there is has been read.
func (j *job) stopReading() {
	for _, p := range j.pumps {
		p.stop(true)
	}
}

// capture keeps the start of what is written to it.
type capture struct {
	data []byte
}

func (c *capture) Write(p []byte) (int, error) {
	c.data = append(c.data, p[:min(len(p), maxExecOutput-len(c.data))]...)
	return len(p), nil
}
