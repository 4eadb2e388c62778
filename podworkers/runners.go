package podworkers

import (
	"time"

	"github.com/podwright/podwright/podworkers/internal/machine"
)

// A call never waits for another one to end (L4): any number may hang. But while calls are
// quick, a burst of them needs few goroutines, and updates of a pod whose turn is about to
// come are merged, which saves most of the cost of a burst. Go's scheduler tells the two cases
// apart: one goroutine at a time is on its way to begin (see spawn). It gets a processor once
// one is free, because earlier calls have ended or wait for something, and first starts the
// next call.

// dispatchReady starts ready calls, as far as there is room. goesOn: the calling goroutine has
// ended a call and continues with another one. The lock is held.
func (w *Workers) dispatchReady(b *batch, now time.Duration, goesOn bool) {
	room, onTheWay := w.machine.Calling(), w.starting.Load() > 0
	if goesOn {
		room++
	}
	if !onTheWay {
		room++
	}
	w.dispatchUpTo(b, now, room)
	waiting := w.machine.Waiting()
	if waiting != w.crowded.Load() {
		w.crowded.Store(waiting)
	}
	if waiting && onTheWay && w.starting.Load() == 0 { // it began before crowded was set
		w.dispatchUpTo(b, now, w.machine.Calling()+1)
	}
}

func (w *Workers) dispatchUpTo(b *batch, now time.Duration, room int) {
	if room == 0 { // to the machine that is no limit
		return
	}
	w.dispatch.Limit = room
	b.effects = w.machine.Apply(&w.dispatch, now, w.options.Rand, b.effects)
}

// spawn makes the call on a goroutine of its own.
func (w *Workers) spawn(c *call) {
	if c == nil {
		return
	}
	w.calls.Add(1)
	w.starting.Add(1)
	go w.work(c)
}

// begun is called by a goroutine that was on its way and has begun.
func (w *Workers) begun() {
	w.starting.Add(-1)
	if w.crowded.Load() {
		w.apply(w.event(machine.EventTick), nil)
	}
}
