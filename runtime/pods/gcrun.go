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
// longer than most goes on beside the next ones, so that a runtime that hangs on some objects
// delays no other (IN1).
type gcRun struct {
	m      *Manager
	policy *GCPolicy
	choice sweep.Policy

	// gonePods are those that counted as gone when their objects were chosen. Only the
	// goroutine of the run uses it.
	gonePods map[types.UID]bool

	removals sync.WaitGroup
	begun    timing.Batch // of the goroutine of the run
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
	gone, ended := r.gonePods[a.PodUID], make(chan struct{})
	r.removals.Go(func() {
		defer close(ended)
		r.makeOne(ctx, a, gone, do)
	})
	r.begun.Add(ctx, ended)
}

// makeOne makes one removal and tells the policy how it went, which may wait before it listens.
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

// removeHeld makes a removal. One that is made because its pod is gone holds the pod, and is not
// made if the pod has come back (IN3). What a living pod no longer needs goes beside its life, so
// it needs no hold, and no life that begins cuts it off.
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

// chosenAsGone is the choice's question whether a pod is gone. It notes the answer.
func (r *gcRun) chosenAsGone(uid types.UID) bool {
	gone := r.choice.Gone(uid)
	r.gonePods[uid] = r.gonePods[uid] || gone
	return gone
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
