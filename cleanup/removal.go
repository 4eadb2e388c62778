package cleanup

import (
	"context"
	"fmt"
	"runtime/debug"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/rule"
	"github.com/podwright/podwright/internal/timing"
)

// Hold keeps a new life of a pod from starting until release is called, which may be called more
// than once. ok is false if a life of the pod is in progress: then nothing of it may be removed.
// held ends with ctx, and also when a new life begins to wait.
type Hold func(ctx context.Context, uid types.UID, reason string) (held context.Context, release func(), ok bool)

// removal is the removal of one object. Its goroutine ends with it, so a removal that hangs delays
// only its own pod (HI12, IN3).
type removal struct {
	action Action
	since  time.Time
	// left is set when a pass has found the removal still running.
	left atomic.Bool

	// The fields below are set before done is closed.
	done chan struct{}
	// denial is the rule that prevented the removal, err how it failed.
	denial Denial
	err    error
	// slow: it took longer than a pass waits.
	slow bool
}

// begin starts a removal that was permitted. It ends with ctx at the latest.
func (h *Housekeeper) begin(ctx context.Context, a Action) *removal {
	r := &removal{action: a, since: h.options.Clock.Now(), done: make(chan struct{})}
	h.removals.Go(func() {
		r.denial, r.err = h.removeHeld(ctx, a)
		r.slow = h.options.Clock.Since(r.since) >= timing.Patience
		close(r.done)
		if r.left.Load() {
			h.again()
		}
	})
	return r
}

// Wait returns when every removal that a pass left running has ended. They end with the context of
// their pass. No pass may begin meanwhile.
func (h *Housekeeper) Wait() { h.removals.Wait() }

// removeHeld makes a removal while no new life of the pod can begin. It asks the guards again: the
// pod may have come back before the hold.
func (h *Housekeeper) removeHeld(ctx context.Context, a Action) (denial Denial, err error) {
	ctx, cancel := timing.WithTimeout(ctx, h.options.Clock, removalTimeout)
	defer cancel()
	held, release, ok := h.hold(ctx, a)
	if !ok {
		return rule.InUse.Because("the pod is alive"), nil
	}
	defer release()
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	if denial := h.guard(a.PodUID); !denial.IsZero() {
		return denial, nil
	}
	err = h.removeOne(held, candidate{a.Step, a.PodUID})
	if err != nil && held.Err() != nil && ctx.Err() == nil { // the pod came back: not a failure
		return rule.Changed.Because("the removal was cut off: " + context.Cause(held).Error()), nil
	}
	return Denial{}, err
}

func (h *Housekeeper) hold(ctx context.Context, a Action) (held context.Context, release func(), ok bool) {
	if h.options.Hold == nil {
		return ctx, func() {}, true
	}
	return h.options.Hold(ctx, a.PodUID, a.Step.String())
}

// takeResults processes the result of each removal that has ended.
func (h *Housekeeper) takeResults(now time.Time) (problems []error) {
	for c, r := range h.underWay {
		if !r.ended() {
			continue
		}
		delete(h.underWay, c)
		if !r.denial.IsZero() {
			h.skip(r.action, r.denial)
			continue
		}
		h.done(r.action, r.err)
		if r.err != nil {
			h.failed(c, r, now)
			problems = append(problems, fmt.Errorf("%s of %s: %w", c.Step, r.action.Object, r.err))
			continue
		}
		delete(h.failures, c)
		if c.Step == StepContent {
			h.content.Delete(c.PodUID)
		}
	}
	return problems
}

// ended reports whether the removal has ended. A removal that has not ended asks for a pass when it does.
func (r *removal) ended() bool {
	for range 2 { // it may end before left is set
		select {
		case <-r.done:
			return true
		default:
			r.left.Store(true)
		}
	}
	return false
}

// goesOn says why an object whose removal is in progress is left alone.
func (r *removal) goesOn() Denial {
	return rule.TryLater.Because("its removal has been under way since " + r.since.Format(time.RFC3339))
}
