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
	waiting := w.machine.Waiting()
	if waiting != w.crowded.Load() {
		w.crowded.Store(waiting)
	}
	if w.spilling || !waiting {
		return false
	}
	w.spilling = true
	return true
}

// spill raises the limit while pods are ready and no call ends. It asks no clock: pods must
// not wait for one that stands still. While calls end, it takes no lock that they need.
func (w *Workers) spill() {
	for batch := 1; ; {
		before := w.ended.Load()
		for turn := 0; turn < spillTurns && w.crowded.Load(); turn++ {
			goruntime.Gosched()
		}
		if w.crowded.Load() && w.ended.Load() != before {
			batch = 1
			continue
		}
		w.mu.Lock()
		if !w.machine.Waiting() {
			w.spilling = false
			w.mu.Unlock()
			return
		}
		w.limit = w.machine.Calling() + batch
		w.mu.Unlock()
		batch = min(2*batch, spillMost)
		w.apply(w.event(machine.EventTick), nil) // starts what the limit allows
	}
}
