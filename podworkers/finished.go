package podworkers

import (
	"context"

	"k8s.io/apimachinery/pkg/types"
)

// WaitFinished returns nil once the pod's terminated step is done or the pod is not
// known (any longer), the cause of ctx if that ends first, and [ErrStopped] if the workers
// end first or have ended. It does not stop the pod: request its termination first, for example
// with [Workers.KillPod]. A syncer call that waits for its own pod would wait for itself.
func (w *Workers) WaitFinished(ctx context.Context, uid types.UID) error {
	done := make(chan struct{})
	w.mu.Lock()
	if w.over(uid) {
		w.mu.Unlock()
		return nil
	}
	w.waiting[done] = uid
	w.mu.Unlock()
	var why error
	select {
	case <-done:
		return nil
	case <-w.done:
		why = ErrStopped
	case <-ctx.Done():
		why = context.Cause(ctx)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.waiting, done)
	if w.over(uid) { // it finished at that moment
		return nil
	}
	return why
}

// over reports whether nothing is left to do for the pod's life. The lock is held.
func (w *Workers) over(uid types.UID) bool {
	return !w.machine.Known(uid) || w.machine.ShouldBeFinished(uid)
}

// releaseWaiting ends the calls of WaitFinished whose pod has finished. The lock is held.
func (w *Workers) releaseWaiting() {
	for done, uid := range w.waiting {
		if w.over(uid) {
			close(done)
			delete(w.waiting, done)
		}
	}
}
