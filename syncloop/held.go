package syncloop

import (
	"context"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/podinfo"
	"github.com/podwright/podwright/internal/problem"
)

// held dispatches work, and keeps the work that must wait: setup while the gate is
// closed (B2), and any work after a panic (B9). It is bounded by the number of pods:
// for each at most a kill and the setup that follows it.
//
// All methods but uids, has and problems are called with the loop's fence held.
type held struct {
	loop *Loop

	mu   sync.Mutex // guards what follows for readers; the loop alone changes it
	work map[types.UID][]Work
	// since is when the work of each pod began to wait.
	since map[types.UID]time.Time
	// shut is why the gate is closed, nil while it is open.
	shut error

	closedSince time.Time // zero while the gate is open
}

func newHeld(l *Loop) *held {
	return &held{loop: l, work: map[types.UID][]Work{}, since: map[types.UID]time.Time{}}
}

func (h *held) empty() bool { return len(h.work) == 0 }

func (h *held) uids() []types.UID {
	h.mu.Lock()
	defer h.mu.Unlock()
	return sortedUIDs(h.work)
}

func (h *held) has(uid types.UID) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.work[uid]) > 0
}

// idle reports whether nothing waits and the gate was open when last asked.
func (h *held) idle() bool { return h.empty() && h.closedSince.IsZero() }

// submit dispatches w now, after waiting work of the same pod, or keeps it.
func (h *held) submit(ctx context.Context, w Work) {
	waiting := h.work[w.Pod.UID]
	switch {
	case len(waiting) > 0:
		h.try(ctx, w.Pod.UID, enqueue(waiting, w))
	case !h.send(ctx, w):
		h.keep(w.Pod.UID, []Work{w})
	}
}

// flush tries to dispatch all waiting work.
func (h *held) flush(ctx context.Context) {
	for _, uid := range sortedUIDs(h.work) {
		h.try(ctx, uid, h.work[uid])
	}
	if h.empty() {
		h.gate(ctx) // notice that it has opened
	}
}

// try dispatches queue in order and keeps what could not be dispatched.
func (h *held) try(ctx context.Context, uid types.UID, queue []Work) {
	for len(queue) > 0 {
		if !h.send(ctx, queue[0]) {
			break
		}
		queue = queue[1:]
	}
	h.keep(uid, queue)
}

func (h *held) keep(uid types.UID, queue []Work) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(queue) == 0 {
		delete(h.work, uid)
		delete(h.since, uid)
		return
	}
	if _, known := h.since[uid]; !known {
		h.since[uid] = h.loop.options.Clock.Now()
	}
	h.work[uid] = queue
}

// send dispatches w unless it must wait, and reports whether it did.
func (h *held) send(ctx context.Context, w Work) bool {
	if isSetup(w) && h.gate(ctx) != nil {
		return false
	}
	return h.dispatch(ctx, w)
}

// enqueue adds w to the waiting work of its pod. Only the latest work counts: newer setup
// replaces older setup, and a kill replaces everything.
func enqueue(queue []Work, w Work) []Work {
	if w.Kind == WorkKill || len(queue) == 0 {
		return []Work{w}
	}
	last := len(queue) - 1
	if queue[last].Kind == WorkKill {
		return append(queue[:last+1:last+1], w)
	}
	w.Kind = max(w.Kind, queue[last].Kind) // create before update before sync
	w.StartTime = queue[last].StartTime
	return append(queue[:last:last], w)
}

// isSetup reports whether w asks for containers to run. A terminating pod is never
// held back.
func isSetup(w Work) bool {
	return w.Kind != WorkKill && !podinfo.ShowsEnd(w.Pod)
}

// gate returns why setup must wait, and counts the time it waits.
func (h *held) gate(ctx context.Context) (err error) {
	o := &h.loop.options
	if o.Gate == nil {
		return nil
	}
	defer func() {
		if p := recover(); p != nil {
			h.loop.metrics.panicked(ctx, "gate")
			err = fmt.Errorf("the gate panicked: %v", p)
		}
	}()
	err = o.Gate()
	now := o.Clock.Now()
	h.mu.Lock()
	h.shut = err
	h.mu.Unlock()
	switch {
	case err == nil && !h.closedSince.IsZero():
		h.loop.metrics.gateClosed.Add(ctx, now.Sub(h.closedSince).Seconds())
		o.Logger.Info("Setup of pods goes on", "held", now.Sub(h.closedSince))
		h.closedSince = time.Time{}
		h.loop.schedule.retryAt, h.loop.schedule.retryDelay = now, 0 // the rest goes at once
	case err != nil && h.closedSince.IsZero():
		o.Logger.Info("Setup of pods is held back", "reason", err.Error())
		h.closedSince = now
	case err != nil:
		h.loop.metrics.gateClosed.Add(ctx, now.Sub(h.closedSince).Seconds())
		h.closedSince = now
	}
	return err
}

// problems returns the pods that have waited too long for the gate: new pods, and pods whose
// spec has changed. A pod that keeps running unchanged waits for nothing.
func (h *held) problems(now time.Time) (out []problem.Problem) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.shut == nil {
		return nil
	}
	for uid, queue := range h.work {
		since, last := h.since[uid], queue[len(queue)-1]
		if last.Kind != WorkSync && isSetup(last) && now.Sub(since) >= problem.GateLimit {
			out = append(out, problem.AtGate(last.Pod.Namespace, last.Pod.Name, uid, since, h.shut))
		}
	}
	return out
}

// dispatch hands w over and reports whether that succeeded.
func (h *held) dispatch(ctx context.Context, w Work) (taken bool) {
	defer func() {
		if p := recover(); p != nil {
			h.loop.metrics.panicked(ctx, "dispatcher")
			h.loop.options.Logger.Error(fmt.Errorf("panic: %v", p), "Dispatcher panicked, the pod is tried again",
				"namespace", w.Pod.Namespace, "name", w.Pod.Name, "uid", w.Pod.UID, "kind", w.Kind.String(),
				"stack", string(debug.Stack()))
		}
	}()
	h.loop.dispatch(w)
	return true
}
