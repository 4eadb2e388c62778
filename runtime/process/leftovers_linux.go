package process

import (
	"maps"
	"time"
)

// scanAgain is how long after the first look for leftovers the second one comes. One look misses
// a process that is just starting another program, and a child that was forked too late.
const scanAgain = time.Second

// maxRepeated bounds the containers whose looks failed twice and are repeated.
const maxRepeated = 1000

// leftovers are what commands left behind in containers that have ended: processes in the
// background, and commands whose agent was killed. They are in no session of their container, so
// all processes are looked at: once for all containers that end meanwhile.
type leftovers struct {
	more chan struct{} // holds one: a container was added to next
	next *batch        // guarded by Runtime.mu
	// kill is osproc.KillByEnv, except in tests.
	kill func(variable string, since map[string]uint64) error
}

// batch is the containers of one look.
type batch struct {
	since  map[string]uint64 // by container ID: when its process started, in clock ticks since boot
	looked chan struct{}     // closed after the first look; one that failed must not keep a pod
}

func newBatch() *batch { return &batch{since: map[string]uint64{}, looked: make(chan struct{})} }

// add notes a container that has ended; the caller holds Runtime.mu. The channel is closed
// after the first look for its leftovers.
func (l *leftovers) add(id string, since uint64) <-chan struct{} {
	l.next.since[id] = since
	select {
	case l.more <- struct{}{}:
	default:
	}
	return l.next.looked
}

// killLeftovers kills what is left of containers that have ended, until the runtime is closed.
// A second look comes at least scanAgain after the first one.
func (r *Runtime) killLeftovers() {
	again, later := map[string]uint64{}, map[string]uint64{}
	var due <-chan time.Time
	for {
		select {
		case <-r.leftovers.more:
			r.mu.Lock()
			b := r.leftovers.next
			r.leftovers.next = newBatch()
			r.mu.Unlock()
			r.killLeftoversOf(b.since)
			close(b.looked)
			maps.Copy(later, b.since)
		case <-due:
			due = nil
			if !r.killLeftoversOf(again) && len(again) <= maxRepeated {
				r.mu.Lock()
				maps.Copy(r.leftovers.next.since, again) // until another container ends
				r.mu.Unlock()
			}
		case <-r.closing:
			return
		}
		if due == nil && len(later) > 0 {
			again, later, due = later, map[string]uint64{}, r.clock.After(scanAgain)
		}
	}
}

func (r *Runtime) killLeftoversOf(since map[string]uint64) (ok bool) {
	err := r.leftovers.kill(containerEnv, since)
	if err != nil {
		r.log.Error(err, "Cannot kill all that commands left behind in containers that have ended; it is tried again")
	}
	return err == nil
}
