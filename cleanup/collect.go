package cleanup

import (
	"context"
	"fmt"
	"runtime/debug"
	"slices"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/timing"
)

// collection is one run of the collector. It has its own goroutine, which asks the passes for
// permission: a removal that hangs delays no pass (IN1), and a pass answers when it gets to it.
//
//	pass:        begin ── answer ── answer ── leave      answer ── end
//	                        ▲  │      ▲                    ▲  │     ▲
//	                        │  ▼      │                    │  ▼     │
//	collector:           permits ── done ── a removal that hangs ───┘
type collection struct {
	questions chan question
	// left: the last pass did not wait for the end of the run.
	left atomic.Bool
	// skipped: something has to wait for another run. Guarded by the turn.
	skipped bool

	// err is set before ended is closed.
	err   error
	ended chan struct{}
}

// question is what a run asks a pass, or reports to it.
type question struct {
	action  Action
	done    bool // the removal has been made
	err     error
	allowed chan bool
}

// collect lets the collector make its run, at most once per period. The same guard as for other
// removals protects each pod (SG2, SG3).
func (h *Housekeeper) collect(ctx context.Context, runningErr error, now time.Time) []error {
	if runningErr != nil || h.options.Collector == nil {
		return nil // the runtime does not answer: left to the next pass (ND11)
	}
	if h.collection == nil {
		if now.Before(h.collectAt) {
			return nil
		}
		h.collectAt = now.Add(h.options.CollectPeriod)
		if now.Sub(h.collectBegan) >= h.options.CollectPeriod {
			h.collectBegan = now
			clear(h.tried) // otherwise a veto could keep a run from ever being complete
		}
		h.collection = h.beginCollection(ctx)
	}
	c := h.collection
	if !h.answer(ctx, c) {
		return nil // the run continues beside the passes
	}
	h.collection = nil
	if c.skipped {
		h.collectAt = now // the next pass continues
	} else {
		clear(h.tried)
	}
	if c.err != nil {
		return []error{fmt.Errorf("collect dead containers: %w", c.err)}
	}
	return nil
}

func (h *Housekeeper) beginCollection(ctx context.Context) *collection {
	c := &collection{questions: make(chan question), ended: make(chan struct{})}
	h.removals.Go(func() {
		defer func() {
			if p := recover(); p != nil {
				c.err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
			}
			close(c.ended)
			if c.left.Load() {
				h.again()
			}
		}()
		permits := func(a Action) bool { return h.ask(ctx, c, question{action: a}) }
		done := func(a Action, err error) { h.ask(ctx, c, question{action: a, done: true, err: err}) }
		c.err = h.options.Collector.Collect(ctx, h.contentGoes, permits, done)
	})
	return c
}

// ask puts a question to the current pass, or to the next one, and returns the answer.
func (h *Housekeeper) ask(ctx context.Context, c *collection, q question) bool {
	q.allowed, q.action.Kind = make(chan bool, 1), q.action.Step.kind()
	soon, cancel := timing.WithTimeout(ctx, h.options.Clock, timing.Patience)
	defer cancel()
	select {
	case c.questions <- q:
		return <-q.allowed
	case <-soon.Done():
		h.again()
	}
	select {
	case c.questions <- q:
		return <-q.allowed
	case <-ctx.Done():
		return false
	}
}

// answer answers a run until the run ends, in which case it returns true, or has asked nothing for
// a while.
func (h *Housekeeper) answer(ctx context.Context, c *collection) (ended bool) {
	c.left.Store(false)
	start, acted, more := h.options.Clock.Now(), 0, false
	defer func() {
		if more {
			h.again()
		}
	}()
	for {
		timer := h.options.Clock.NewTimer(removalBudget)
		select {
		case q := <-c.questions:
			timer.Stop()
			late := acted > 0 && h.options.Clock.Since(start) > removalBudget
			if q.done {
				acted++
			}
			more = h.reply(c, q, late) || more
		case <-c.ended:
			timer.Stop()
			return true
		case <-timer.C():
			c.left.Store(true)
			return false
		case <-ctx.Done():
			timer.Stop()
			return false
		}
	}
}

// reply answers one question; late says that the pass has no time left for it. It reports whether another pass has to make time.
func (h *Housekeeper) reply(c *collection, q question, late bool) (more bool) {
	allowed, answered := false, false
	defer func() { // also if the host panics: otherwise the run would never end
		c.skipped = c.skipped || !answered
		q.allowed <- allowed
	}()
	if q.done {
		h.collected(q)
		answered = true
		return false
	}
	held := len(h.outcomes)
	switch {
	case !h.mayCollect(q.action):
	case late:
		h.skip(q.action, passTooLong())
		more = true
	default:
		allowed = h.permits(q.action)
	}
	answered = true
	c.skipped = c.skipped || slices.ContainsFunc(h.outcomes[held:], func(o outcome) bool { return o.Result == skipped })
	return more
}

// mayCollect reports whether the collector may remove something, provided that the rates and the
// host permit it.
func (h *Housekeeper) mayCollect(a Action) bool {
	switch {
	case h.tried[object{a.Step, a.Object}]:
		return false // it failed once in this run; others go first (HI12)
	case h.contentHangs(a.PodUID):
		return false // it would hang here too (IN1)
	}
	return h.MaybeWanted(a.PodUID).IsZero() // this may last, so it is no reason to ask for another pass soon
}

// collected records how a removal of the collector went.
func (h *Housekeeper) collected(q question) {
	a := q.action
	if q.err != nil {
		h.tried[object{a.Step, a.Object}] = true
	}
	h.done(a, q.err)
}

// contentHangs reports whether the removal of everything that the runtime has of a pod is in
// progress, or took long and failed. If it failed at once, the collector gets its turn: it may be
// able to remove what the removal as a whole cannot (HI12).
func (h *Housekeeper) contentHangs(uid types.UID) bool {
	c := candidate{StepContent, uid}
	f := h.failures[c]
	return h.underWay[c] != nil || f != nil && f.slow
}

// contentGoes reports whether nothing of a pod is needed any more.
func (h *Housekeeper) contentGoes(uid types.UID) bool {
	return h.allows(uid) && h.workers.ContentShouldBeRemoved(uid)
}
