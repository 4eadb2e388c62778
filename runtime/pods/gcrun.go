package pods

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/podwright/podwright/runtime/pods/internal/sweep"
)

// removalPatience is how long one removal of a collection holds up the next.
const removalPatience = 50 * time.Millisecond

// gcRun is one collection. It removes one object after the other; a removal that takes
// longer than most goes on beside the next ones, so that a runtime that hangs on some objects
// delays no other (IN1).
type gcRun struct {
	m      *Manager
	policy *GCPolicy
	choice sweep.Policy

	removals sync.WaitGroup
	// turn is held while the policy is asked or told, which may wait for its owner: no
	// mutex is held over that.
	turn     chan struct{}
	mu       sync.Mutex // of what follows
	problems []error
	// removed are the IDs of what went.
	removed map[string]bool
}

// remove makes a removal that the policy permits, or begins it.
func (r *gcRun) remove(ctx context.Context, a GCAction, do func(context.Context) error) {
	if !a.Kept.IsZero() || !r.permits(a) {
		return
	}
	ended := make(chan struct{})
	r.removals.Go(func() {
		defer close(ended)
		r.makeOne(ctx, a, do)
	})
	timer := r.m.options.Clock.NewTimer(removalPatience)
	defer timer.Stop()
	select {
	case <-ended:
	case <-timer.C():
	}
}

// makeOne makes one removal. An object that was chosen because its pod is gone stays if the
// pod has come back (IN3).
func (r *gcRun) makeOne(ctx context.Context, a GCAction, do func(context.Context) error) {
	if r.policy.Hold != nil {
		held, release, ok := r.policy.Hold(ctx, a.PodUID, "remove "+a.kind())
		if !ok && r.choice.Gone(a.PodUID) {
			return
		}
		defer release()
		ctx = held
	}
	err := do(ctx)
	r.done(a, err)
	r.mu.Lock()
	defer r.mu.Unlock()
	if err != nil {
		r.problems = append(r.problems, err)
		return
	}
	r.removed[a.ID] = true
}

func (r *gcRun) permits(a GCAction) bool {
	r.turn <- struct{}{}
	defer func() { <-r.turn }()
	return r.policy.Permits(a)
}

func (r *gcRun) done(a GCAction, err error) {
	r.turn <- struct{}{}
	defer func() { <-r.turn }()
	r.policy.Done(a, err)
}

// gone returns the IDs of what went so far.
func (r *gcRun) gone() map[string]bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := make(map[string]bool, len(r.removed))
	for id := range r.removed {
		out[id] = true
	}
	return out
}

// end waits for the removals that were begun, and returns what failed.
func (r *gcRun) end(more ...error) error {
	r.removals.Wait()
	return errors.Join(append(r.problems, more...)...)
}
