package process

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/runtime"
	"github.com/podwright/podwright/runtime/process/internal/crilog"
	"github.com/podwright/podwright/runtime/process/internal/osproc"
)

// StartContainer starts a created container. A failure ends the container, with
// code 128 and reason "StartError". If ctx ends first, the start continues.
func (r *Runtime) StartContainer(ctx context.Context, containerID string) error {
	leave, err := r.enter(ctx)
	if err != nil {
		return err
	}
	defer leave()
	c := r.container(containerID)
	if c == nil {
		return containerNotFound(containerID)
	}
	if err := r.acquire(ctx, c.op); err != nil {
		return err
	}
	done := make(chan struct{})
	var started error
	if !r.spawn(func() {
		defer close(done)
		defer c.op.release()
		started = r.start(c)
	}) {
		c.op.release()
		return errClosed()
	}
	if err := r.wait(ctx, done); err != nil {
		return err
	}
	return started
}

// start starts a container; the caller holds its slot.
func (r *Runtime) start(c *container) error {
	r.mu.Lock()
	known, state := r.containers[c.record.ID] == c, c.state
	s := r.sandboxes[c.record.SandboxID]
	ready := s != nil && !s.record.NotReady
	r.mu.Unlock()
	switch {
	case !known:
		return containerNotFound(c.record.ID)
	case state != runtimeapi.ContainerState_CONTAINER_CREATED:
		return fmt.Errorf("container %s is not in state created but %v: %w", c.record.ID, state, runtime.ErrFailedPrecondition)
	case !ready:
		return fmt.Errorf("sandbox %s of container %s is not ready: %w", c.record.SandboxID, c.record.ID, runtime.ErrFailedPrecondition)
	}
	// From here on the container may run: an agent that finds this file and no
	// record of a process looks for one.
	var u *run
	var started startedRecord
	err := os.WriteFile(filepath.Join(c.dir, startingFile), bytes.Repeat([]byte(" "), exitRoom), 0o600)
	if err == nil {
		u, started, err = r.launch(c)
	}
	if err != nil {
		r.ended(c, startFailed(err, r.clock.Now()))
		return fmt.Errorf("start container %q (%s): %w", c.record.Name, c.record.ID, err)
	}
	r.mu.Lock()
	c.state, c.run, c.started = runtimeapi.ContainerState_CONTAINER_RUNNING, u, started
	r.mu.Unlock()
	r.publish(c.record.SandboxID, c.record.ID, runtimeapi.ContainerEventType_CONTAINER_STARTED_EVENT)
	r.watch(c, u)
	return nil
}

// launch makes the container's process, with a supervisor if the runtime has one.
func (r *Runtime) launch(c *container) (*run, startedRecord, error) {
	var started startedRecord
	if !r.supervisor.enabled() {
		process, output, err := startContainer(c.dir, &c.record, osproc.Identity{}, r.clock)
		if err != nil {
			return nil, started, err
		}
		if _, err := readRecord(c.dir, startedFile, &started); err != nil {
			r.log.Error(err, "Cannot read back what was just recorded", "container", c.record.ID)
		}
		return &run{process: process, child: process.Identity().PID, output: output}, started, nil
	}
	started, supervisor, err := r.supervisor.start(c.dir)
	if err != nil {
		// It may have died after it started the container.
		if ok, _ := readRecord(c.dir, startedFile, &started); ok {
			err = errors.Join(err, osproc.KillSession(started.Process))
		}
		return nil, started, err
	}
	// A container that has ended already leaves no process to hold.
	process, err := osproc.Open(started.Process)
	if err != nil && !errors.Is(err, os.ErrProcessDone) {
		r.log.Error(err, "Cannot hold the process of a container, only its supervisor", "container", c.record.ID)
	}
	return &run{process: process, supervisor: supervisor, child: supervisor.Identity().PID}, started, nil
}

// watch arranges for the end of a container to be noticed.
func (r *Runtime) watch(c *container, u *run) {
	process, then := u.supervisor, r.supervisorEnded
	if process == nil {
		process, then = u.process, r.processEnded
	}
	// Its handle is not closed before it has ended, except by Close.
	watch := func() error {
		_, err := r.watcher.Watch(process, func() { r.spawn(func() { then(c, u) }) })
		return err
	}
	if err := watch(); err != nil && !r.isClosed() {
		r.log.Error(err, "Cannot watch a container: its end is not noticed yet; it is tried again", "container", c.record.ID)
		r.retry(c, watch)
	}
}

// tryAgain is how long after an attempt to watch a container, or to read its output, the next one comes.
const tryAgain = time.Second

// retry tries something that failed for a running container until it succeeds, the container has ended, or the runtime
// is closed.
func (r *Runtime) retry(c *container, try func() error) {
	r.spawn(func() {
		for {
			select {
			case <-r.clock.After(tryAgain):
			case <-c.exited:
				return
			case <-r.closing:
				return
			}
			if try() == nil {
				return
			}
		}
	})
}

func (r *Runtime) isClosed() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.closed
}

// supervisorEnded reads what the supervisor left. If it was killed, the agent takes
// its place as far as it can.
func (r *Runtime) supervisorEnded(c *container, u *run) {
	if u.child != 0 {
		reap(u.child, unix.WNOHANG)
	}
	left, ok := r.awaitLeft(c)
	switch {
	case !ok: // the next agent looks again
		return
	case left.exit != nil:
		r.ended(c, *left.exit)
		return
	}
	r.log.Info("A supervisor was killed, or the disk did not take its record; the agent takes its place, and the exit code of its container will not be known",
		"container", c.record.ID, "supervisorPid", u.supervisor.Identity().PID)
	orphan := &run{process: left.process}
	if orphan.process == nil || !orphan.process.Alive() {
		r.processEnded(c, orphan)
		return
	}
	u.supervisor.Close()
	r.adopt(c, orphan)
}

// adopt copies the output of, and watches, a running process without a supervisor.
func (r *Runtime) adopt(c *container, u *run) {
	output, err := openOutput(c.dir, &c.record, r.clock)
	if err != nil {
		r.log.Error(err, "The log of an adopted container cannot be opened; what it writes until then is lost", "container", c.record.ID)
		// Its output is read all the same: a container does not wait for a disk.
		output, err = copyOutput(c.dir, crilog.Late(c.record.LogDir, c.record.LogName, r.clock))
	}
	u.output = output
	r.mu.Lock()
	c.run = u
	r.mu.Unlock()
	r.watch(c, u)
	if err != nil {
		r.log.Error(err, "The output of an adopted container cannot be read; it is tried again", "container", c.record.ID)
		r.retry(c, func() error { return r.readOutput(c) })
	}
}

// readOutput starts to copy the output of a container that was adopted without it. Nothing else reads it: the container
// would wait as soon as its pipe is full.
func (r *Runtime) readOutput(c *container) error {
	output, err := copyOutput(c.dir, crilog.Late(c.record.LogDir, c.record.LogName, r.clock))
	if err != nil {
		return err
	}
	r.mu.Lock()
	ended := c.run == nil
	if !ended {
		u := *c.run
		u.output = output
		c.run = &u
	}
	r.mu.Unlock()
	if ended {
		output.close(true)
	}
	return nil
}

// processEnded finishes a container without a supervisor whose process has ended.
func (r *Runtime) processEnded(c *container, u *run) {
	if u.process != nil {
		// Until the process is reaped, its group cannot belong to another one.
		if err := u.process.KillTree(); err != nil {
			r.log.Error(err, "Cannot kill what a container left behind", "container", c.record.ID)
		}
	}
	exit := unknownExit("no process that could learn its exit code ran when it ended", r.clock.Now())
	if u.child != 0 {
		if status, ok := reap(u.child, unix.WNOHANG); ok {
			exit = exitOf(status, r.clock.Now())
		}
	}
	if u.output != nil {
		u.output.close(true)
	}
	r.ended(c, exit)
}

// ended records the end of a container and publishes it.
func (r *Runtime) ended(c *container, exit exitRecord) {
	exit, recorded, err := onRecord(c.dir, exit)
	if err == nil && !recorded {
		err = writeExit(c.dir, exit)
	}
	unsaved := err != nil // until then, a later agent would report it as unknown
	if unsaved {
		r.log.Error(err, "Cannot record the end of a container; it is tried again", "container", c.record.ID)
	}
	r.mu.Lock()
	u, timer := c.run, c.timer
	c.run, c.timer, c.unsaved = nil, nil, unsaved
	r.markExited(c, exit)
	r.mu.Unlock()
	if unsaved {
		r.saveLater()
	}
	if timer != nil {
		timer.Stop()
	}
	if u != nil {
		u.release(true)
	}
	r.publish(c.record.SandboxID, c.record.ID, runtimeapi.ContainerEventType_CONTAINER_STOPPED_EVENT)
}

// markExited makes a container one that has ended; the caller holds Runtime.mu.
func (r *Runtime) markExited(c *container, exit exitRecord) {
	c.state, c.exit = runtimeapi.ContainerState_CONTAINER_EXITED, exit
	var since uint64 // unknown: all processes are looked at
	if c.started.Process.BootID == r.bootID {
		since = c.started.Process.StartTime
	}
	c.looked = r.leftovers.add(c.record.ID, since)
	close(c.exited)
}

// running counts the running containers.
func (r *Runtime) running() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := 0
	for _, c := range r.containers {
		if c.state == runtimeapi.ContainerState_CONTAINER_RUNNING {
			n++
		}
	}
	return n
}
