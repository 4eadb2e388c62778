package process

import (
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/podwright/podwright/runtime/process/internal/osproc"
)

// hold returns what the agent holds of a running container, nil if it does not run. An agent that lacked something when
// it was to hold the container's process tries again: otherwise the container could not be stopped any more.
func (r *Runtime) hold(c *container) (*run, error) {
	r.mu.Lock()
	u, id := c.run, c.started.Process
	r.mu.Unlock()
	if u == nil || u.process != nil {
		return u, nil
	}
	process, err := osproc.Open(id)
	if errors.Is(err, os.ErrProcessDone) {
		return u, nil
	}
	if err != nil {
		return nil, fmt.Errorf("hold its process: %w", err)
	}
	r.mu.Lock()
	now := c.run
	if now == u {
		held := *u
		held.process = process
		c.run = &held
		now = c.run
	}
	r.mu.Unlock()
	if now == nil || now.process != process { // another call was faster, or the container has ended
		process.Close()
	}
	return now, nil
}

// How long after a look for what a supervisor left, that failed, the next one comes, and how many there are at most: as
// long as its end is not known, a container counts as running.
const (
	lookAgain = time.Second
	lookTimes = 60
)

// left is what a supervisor left: how its container ended, or else the process if it may run.
type left struct {
	exit    *exitRecord
	process *osproc.Process
}

// awaitLeft looks for what a supervisor left until a look succeeds. If none does, that is the process that the agent
// holds, of which it knows whether it runs. ok is false if the runtime is closed.
func (r *Runtime) awaitLeft(c *container) (l left, ok bool) {
	for n := 1; ; n++ {
		l, err := r.leftBy(c)
		if err == nil {
			return l, true
		}
		if n == 1 || n == lookTimes {
			r.log.Error(err, "Cannot tell what the supervisor of a container left", "container", c.record.ID, "looks", n, "limit", lookTimes)
		}
		if n == lookTimes {
			return r.held(c), true
		}
		select {
		case <-r.clock.After(lookAgain):
		case <-r.closing:
			return left{}, false
		}
	}
}

// held is what is known without a look.
func (r *Runtime) held(c *container) left {
	r.mu.Lock()
	defer r.mu.Unlock()
	if c.run == nil {
		return left{}
	}
	return left{process: c.run.process}
}

// leftBy is one look for what a supervisor left.
func (r *Runtime) leftBy(c *container) (left, error) {
	var exit exitRecord
	switch ok, err := readRecord(c.dir, exitFile, &exit); {
	case ok:
		return left{exit: &exit}, nil
	case errors.Is(err, errDamaged):
		r.log.Error(err, "Cannot read the exit record of a container", "container", c.record.ID)
	case err != nil:
		return left{}, err
	}
	u, err := r.hold(c)
	if u == nil || err != nil {
		return left{}, err
	}
	return left{process: u.process}, nil
}
