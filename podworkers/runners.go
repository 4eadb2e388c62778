package podworkers

import (
	goruntime "runtime"

	"github.com/podwright/podwright/podworkers/internal/machine"
)

const (
	// eagerCalls is how many calls run at once without asking whether one of them soon
	// makes way for the next.
	eagerCalls = 32
	// spillTurns is how often other goroutines get the processor before calls that run and do
	// not end count as waiting for something; spillMost bounds how many start then together.
	spillTurns, spillMost = 1000, 256
)

// A call never waits for the end of another (L4): any number may hang. But while calls are
// quick, a burst of them needs few goroutines, and an update of a pod whose turn is about to
// come is merged, which saves most of what a burst costs. So beyond eagerCalls a ready pod
// waits for moments: until a call ends, or spill finds that none does.

// room is how many calls may run for now. The lock is held.
func (w *Workers) room() int {
	// A limit that was raised for calls that hang stays, so that the next calls beside them
	// start at once.
	w.limit = max(eagerCalls, min(w.limit, w.machine.Calling()+eagerCalls))
	return w.limit
}

// spills reports whether a goroutine has to be started that runs spill. The lock is held.
func (w *Workers) spills() bool {
	if w.spilling || !w.machine.Waiting() {
		return false
	}
	w.spilling = true
	return true
}

// spill raises the limit while pods are ready and no call ends. It asks no clock: pods must
// not wait for one that stands still.
func (w *Workers) spill() {
	batch := 1
	for {
		before := w.ended.Load()
		for turn := 0; turn < spillTurns && w.ended.Load() == before; turn++ {
			goruntime.Gosched()
		}
		w.mu.Lock()
		if !w.machine.Waiting() {
			w.spilling = false
			w.mu.Unlock()
			return
		}
		stuck := w.ended.Load() == before
		if stuck {
			w.limit = w.machine.Calling() + batch
		}
		w.mu.Unlock()
		if !stuck {
			batch = 1
			continue
		}
		batch = min(2*batch, spillMost)
		w.apply(w.event(machine.EventTick), nil) // starts what the limit allows
	}
}
