package pods

import (
	"context"
	"errors"
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/timing"
	"github.com/podwright/podwright/runtime/pods/internal/sweep"
)

// gcRun is one collection. It removes one object after the other; a removal that takes
// unusually long continues alongside the next ones, so that a runtime that hangs on some
// objects does not delay the others (IN1).
type gcRun struct {
	m      *Manager
	policy *GCPolicy
	choice sweep.Policy

	// gonePods are the pods that counted as gone when their objects were chosen. Only
	// the run's goroutine uses it.
	gonePods map[types.UID]bool

	removals sync.WaitGroup
	begun    timing.Batch // of the goroutine of the run
	// turn is held while the policy's functions run. It is not a mutex because they
	// may wait.
	turn     chan struct{}
	mu       sync.Mutex // of what follows
	problems []error
	// removed are the IDs of the objects that were removed.
	removed map[string]bool
}

// remove performs, or at least begins, a removal that the policy permits.
func (r *gcRun) remove(ctx context.Context, a GCAction, do func(context.Context) error) {
	if !a.Kept.IsZero() || !r.permits(a) {
		return
	}
	gone, ended := r.gonePods[a.PodUID], make(chan struct{})
	r.removals.Go(func() {
		defer close(ended)
		r.makeOne(ctx, a, gone, do)
	})
	r.begun.Add(ctx, ended)
}

// makeOne performs one removal and reports the outcome to the policy, in its turn.
func (r *gcRun) makeOne(ctx context.Context, a GCAction, gone bool, do func(context.Context) error) {
	made, err := r.removeHeld(ctx, a, gone, do)
	if !made {
		return
	}
	r.done(a, err)
	r.mu.Lock()
	defer r.mu.Unlock()
	if err != nil {
		r.problems = append(r.problems, err)
		return
	}
	r.removed[a.ID] = true
}

// removeHeld performs a removal. If the reason is that the pod is gone, it holds the pod, and
// does nothing if the pod has come back (IN3). What a living pod no longer needs is removed
// alongside its life: that takes no hold, and a life that begins does not cut it off.
func (r *gcRun) removeHeld(ctx context.Context, a GCAction, gone bool, do func(context.Context) error) (made bool, err error) {
	if gone && r.policy.Hold != nil {
		held, release, ok := r.policy.Hold(ctx, a.PodUID, "remove "+a.kind())
		defer release()
		if !ok || !r.choice.Gone(a.PodUID) {
			return false, nil
		}
		ctx = held
	}
	return true, do(ctx)
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

// chosenAsGone answers whether a pod is gone while objects are chosen, and notes the answer.
func (r *gcRun) chosenAsGone(uid types.UID) bool {
	gone := r.choice.Gone(uid)
	r.gonePods[uid] = r.gonePods[uid] || gone
	return gone
}

// gone returns the IDs of the objects removed so far.
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
