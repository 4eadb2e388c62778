package process

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/internal/durable"
	"github.com/podwright/podwright/runtime/process/internal/osproc"
)

// How long New waits for a supervisor that is just starting its container, and for one that it has
// killed, and how often it looks.
const (
	startingWait = 10 * time.Second
	killedWait   = time.Second
	startingPoll = 10 * time.Millisecond
)

// recover reads all records and finds what still runs. A record that cannot be
// read costs one container or sandbox, not the runtime.
func (r *Runtime) recover() error {
	switch err := in(r.path(sandboxesDir), durable.Sweep); {
	case durable.DiskFault(err): // an agent starts on a read-only disk
		r.log.Error(err, "Cannot remove what a crash left among the records of sandboxes")
	case err != nil:
		return err
	}
	if err := r.readSandboxes(); err != nil {
		return err
	}
	starting, err := r.readContainers()
	if err == nil && len(starting) > 0 {
		err = r.findStarting(starting)
	}
	return err
}

func (r *Runtime) readSandboxes() error {
	entries, err := os.ReadDir(r.path(sandboxesDir))
	if err != nil {
		return err
	}
	for _, e := range entries {
		s := &sandbox{op: newSlot(), stopped: make(chan struct{})}
		id := strings.TrimSuffix(e.Name(), ".json")
		_, err := readRecord(r.path(sandboxesDir), e.Name(), &s.record)
		if durable.Scarce(err) {
			return err
		}
		if err == nil && s.record.ID != id {
			err = fmt.Errorf("record %s is of sandbox %q", e.Name(), s.record.ID)
		}
		if err != nil {
			r.log.Error(err, "Skipping a sandbox: its record cannot be read", "file", e.Name())
			continue
		}
		if s.record.BootID != r.bootID {
			s.record.NotReady = true // the machine went down in between
		}
		if s.record.NotReady {
			close(s.stopped)
		}
		r.sandboxes[id], r.names[s.key()] = s, id
	}
	return nil
}

// readContainers reads all containers. It returns, by ID, those that an agent was
// about to start when it was killed.
func (r *Runtime) readContainers() (starting map[string]*container, err error) {
	entries, err := os.ReadDir(r.path(containersDir))
	if err != nil {
		return nil, err
	}
	starting = map[string]*container{}
	for _, e := range entries {
		dir, record := r.path(containersDir, e.Name()), &containerRecord{}
		ok, err := readRecord(dir, containerFile, record)
		switch {
		case durable.Scarce(err):
			return nil, err
		case err == nil && !ok: // creation or removal was interrupted
			if err := os.RemoveAll(dir); err != nil {
				r.log.Error(err, "Cannot remove the rest of a container", "folder", dir)
			}
			continue
		case err == nil && record.ID != e.Name(): // a copy: the process it names is that of the other folder
			r.log.Error(fmt.Errorf("its record is of container %q", record.ID), "Skipping a container's folder", "folder", dir)
			continue
		}
		if err != nil {
			r.log.Error(err, "Skipping a container: its record cannot be read; what runs of it is killed", "folder", dir)
			if err := r.killUnreadable(e.Name()); durable.Scarce(err) {
				return nil, err
			} else if err != nil {
				r.log.Error(err, "Cannot kill what runs of a container whose record cannot be read", "folder", dir)
			}
			continue
		}
		c := newContainer(record, dir)
		c.visible = true
		r.mu.Lock() // the ends of the ones before may be waiting for room on the disk
		r.containers[record.ID], r.names[c.key()] = c, record.ID
		r.mu.Unlock()
		unknown, err := r.restore(c)
		if err != nil {
			return nil, err
		}
		if unknown {
			starting[record.ID] = c
		}
	}
	return starting, nil
}

// killUnreadable kills what runs of a container whose record cannot be read. Such a container is not shown, so its pod
// gets another one, and neither a stop nor a removal reaches it.
func (r *Runtime) killUnreadable(id string) error {
	c := newContainer(&containerRecord{ID: id}, r.path(containersDir, id))
	if exited, err := readRecord(c.dir, exitFile, &exitRecord{}); exited || durable.Scarce(err) {
		return err
	}
	var started startedRecord
	known, err := readRecord(c.dir, startedFile, &started)
	if durable.Scarce(err) {
		return err
	}
	if !known {
		if _, err := os.Stat(filepath.Join(c.dir, startingFile)); errors.Is(err, os.ErrNotExist) {
			return nil // it was never started
		}
		// Its supervisor may be about to start it.
		err := killSupervisors(func(container string) bool { return container == id })
		return errors.Join(err, osproc.KillByEnv(containerEnv, map[string]uint64{id: 0}))
	}
	if started.Process.BootID != r.bootID {
		return nil
	}
	// A supervisor that lives kills the rest of the tree, and ends.
	process, err := osproc.Open(started.Process)
	switch {
	case err == nil:
		err = process.KillTree()
		process.Close()
	case errors.Is(err, os.ErrProcessDone):
		err = osproc.KillSessionOf(started.Process, c.outputOf())
	}
	for _, child := range []int{childPID(started.Process), childPID(started.Supervisor)} {
		if child != 0 {
			r.spawn(func() { reap(child, 0) })
		}
	}
	return errors.Join(err, osproc.KillByEnv(containerEnv, map[string]uint64{id: started.Process.StartTime}))
}

// killSupervisors kills the supervisors of the containers whose ID matches.
func killSupervisors(match func(id string) bool) error {
	return osproc.KillByArgs(func(args []string) bool {
		return len(args) == 2 && args[0] == shimName && match(filepath.Base(args[1]))
	})
}

// restore finds the state of a container. It returns true if the state is unknown: a
// start was begun and there is no record of a process. It fails if it cannot tell what runs
// because the agent is short of something: the container may be healthy.
func (r *Runtime) restore(c *container) (starting bool, err error) {
	var started startedRecord
	known, err := readRecord(c.dir, startedFile, &started)
	if durable.Scarce(err) {
		return false, err
	}
	if err != nil {
		r.log.Error(err, "Cannot tell which process a container is", "container", c.record.ID)
		started = startedRecord{}
	}
	c.started = started
	if exited, err := r.restoreExit(c); err != nil {
		return false, err
	} else if exited {
		if child := childPID(started.Supervisor); child != 0 {
			// It has nothing left to do: it is dead, or about to end.
			r.spawn(func() { reap(child, 0) })
		}
		return false, nil
	}
	if !known {
		_, err := os.Stat(filepath.Join(c.dir, startingFile))
		return err == nil, nil
	}
	c.state = runtimeapi.ContainerState_CONTAINER_RUNNING
	if started.Supervisor.IsZero() {
		return false, r.restoreProcess(c, started)
	}
	return false, r.restoreSupervisor(c, started)
}

// restoreSupervisor restores a container that has, or had, a supervisor.
func (r *Runtime) restoreSupervisor(c *container, started startedRecord) error {
	child := childPID(started.Supervisor)
	supervisor, err := osproc.Open(started.Supervisor)
	if err == nil {
		process, err := osproc.Open(started.Process)
		if err != nil && !errors.Is(err, os.ErrProcessDone) {
			r.log.Error(err, "Cannot hold the process of a container, only its supervisor", "container", c.record.ID)
		}
		c.run = &run{process: process, supervisor: supervisor, child: child}
		r.watch(c, c.run)
		return nil
	}
	if durable.Scarce(err) {
		return err
	}
	if child != 0 {
		reap(child, unix.WNOHANG)
	}
	// It may have ended properly since the first look.
	if exited, err := r.restoreExit(c); exited || err != nil {
		return err
	}
	return r.restoreProcess(c, started)
}

// restoreProcess restores a container without a supervisor.
func (r *Runtime) restoreProcess(c *container, started startedRecord) error {
	child := childPID(started.Process)
	process, err := osproc.Open(started.Process)
	if err == nil {
		r.adopt(c, &run{process: process, child: child})
		return nil
	}
	if durable.Scarce(err) {
		return err
	}
	if err := osproc.KillSessionOf(started.Process, c.outputOf()); err != nil {
		r.log.Error(err, "Cannot kill what a container left behind", "container", c.record.ID)
	}
	exit := unknownExit("it ended while no process that could learn its exit code ran", r.clock.Now())
	if started.Process.BootID != r.bootID {
		exit.Message = "the machine was restarted"
	}
	if child != 0 {
		if status, ok := reap(child, unix.WNOHANG); ok {
			exit = exitOf(status, r.clock.Now())
		}
	}
	r.ended(c, exit)
	return nil
}

// childPID returns the pid of a process that is a child of this one, otherwise 0. It is
// a child if an earlier Runtime of this same program started it.
func childPID(id osproc.Identity) int {
	if id.IsChild() {
		return id.PID
	}
	return 0
}

// restoreExit reads how a container ended, if it has.
func (r *Runtime) restoreExit(c *container) (exited bool, err error) {
	var exit exitRecord
	ok, err := readRecord(c.dir, exitFile, &exit)
	if durable.Scarce(err) {
		return false, err
	}
	if err != nil {
		r.log.Error(err, "Cannot read how a container ended", "container", c.record.ID)
		exit, ok = unknownExit("the record of its end cannot be read", r.clock.Now()), true
		if errors.Is(err, errDamaged) { // so that the next agent does not find that it has just ended
			if err := writeExit(c.dir, exit); err != nil {
				r.log.Error(err, "Cannot replace the damaged record of an end", "container", c.record.ID)
			}
		}
	}
	if !ok {
		return false, nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.markExited(c, exit)
	return true, nil
}

// findStarting finds out about containers whose start was under way when the agent was
// killed: their supervisor is about to record them, they run without a record, or they
// do not run.
func (r *Runtime) findStarting(starting map[string]*container) error {
	if err := r.awaitSupervisors(starting); err != nil {
		return err
	}
	lost := map[string]bool{}
	for id, c := range starting {
		unknown, err := r.restore(c)
		if err != nil {
			return err
		}
		if unknown {
			lost[id] = true
		}
	}
	if len(lost) == 0 {
		return nil
	}
	found, err := osproc.FindByEnv(containerEnv, commandEnv, lost)
	if err != nil {
		return fmt.Errorf("look for containers without a record: %w", err)
	}
	for id := range lost {
		c := starting[id]
		identity, ok := found[id]
		if !ok {
			r.ended(c, unknownExit("the agent was killed while it started the container", r.clock.Now()))
			continue
		}
		c.started = startedRecord{Process: identity, StartedAt: c.record.CreatedAt}
		switch err := writeRecord(c.dir, startedFile, c.started); {
		case durable.DiskFault(err): // an agent starts on a full disk
			r.log.Error(err, "Cannot record which process a container is; the next agent will look for it again", "container", id)
		case err != nil:
			return err
		}
		c.state = runtimeapi.ContainerState_CONTAINER_RUNNING
		if err := r.restoreProcess(c, c.started); err != nil {
			return err
		}
	}
	return nil
}

// awaitSupervisors waits until each supervisor of these containers has recorded
// what it started, or has ended. One that does neither in time is killed: it could start its
// container once that was reported as ended, or copy its output along with the agent. After that
// the process table shows what it started.
func (r *Runtime) awaitSupervisors(starting map[string]*container) error {
	slow, err := r.stillStarting(starting, startingWait)
	if len(slow) == 0 || err != nil {
		return err
	}
	for id := range slow {
		r.log.Info("A supervisor has been starting its container for long, for an earlier agent; it is killed", "container", id)
	}
	err = killSupervisors(func(container string) bool { return slow[container] != nil })
	if err != nil {
		return fmt.Errorf("kill supervisors that do not finish a start: %w", err)
	}
	// One that hangs in the kernel does nothing more once it is killed.
	alive, err := r.stillStarting(slow, killedWait)
	for id := range alive {
		r.log.Info("The killed supervisor of a container has not ended, or something else holds its lock", "container", id)
	}
	return err
}

// stillStarting waits until no supervisor is starting any of these containers, and returns those that still have one
// when the time is over. It fails if that cannot be told even then, for want of open files or memory.
func (r *Runtime) stillStarting(starting map[string]*container, wait time.Duration) (map[string]*container, error) {
	give := r.clock.Now().Add(wait)
	left := map[string]*container{}
	for id, c := range starting {
		for {
			lives, err := c.beingStarted()
			if !lives && err == nil {
				break
			}
			if !r.clock.Now().Before(give) {
				if err != nil {
					return nil, fmt.Errorf("container %s: %w", id, err)
				}
				left[id] = c
				break
			}
			<-r.clock.After(startingPoll)
		}
	}
	return left, nil
}

// beingStarted reports whether a supervisor lives that has not recorded what it started. It fails if open files or
// memory have run out.
func (c *container) beingStarted() (bool, error) {
	ok, err := readRecord(c.dir, startedFile, &startedRecord{})
	if ok || durable.Scarce(err) {
		return false, err
	}
	lock, err := lockFile(filepath.Join(c.dir, lockName))
	if err == nil {
		lock.Close()
	}
	if durable.Scarce(err) {
		return false, err
	}
	return errors.Is(err, unix.EWOULDBLOCK), nil
}
