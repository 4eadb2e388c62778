package node

import (
	"context"
	"fmt"
	"sync"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/podinfo"
	"github.com/podwright/podwright/internal/restarts"
	"github.com/podwright/podwright/runtime"
)

// RestartOptions says how to restart one pod on request.
type RestartOptions struct {
	Containers []string
	Message    string
}

// RestartJournal keeps requested restarts on the disk; [recovery.Journal] does.
type RestartJournal interface {
	// Asked returns the restarts requested for a pod that are on the disk, or nil.
	Asked(uid types.UID) *restarts.Asked
	// AskRestart adds to them; if it returns no error, the addition is on the disk.
	AskRestart(ctx context.Context, uid types.UID, runs []restarts.Run, message string) error
	// Restarted forgets what is done by now, and returns what is left.
	Restarted(pod *v1.Pod, view *runtime.PodStatus) *restarts.Asked
}

// Restarts replaces the running containers of pods on request (spec/syncloop.md OC2):
//
//	Restart: choose runs ──► write them down ──► wake the worker ──► wait
//	                                                  │                ▲
//	                        the pod's step: Asked ──► stop, start ──► Seen
//
// Every field must be set before a method is called.
type Restarts struct {
	Residents *Residents
	Journal   RestartJournal
	// Find returns a pod with its newest status, or false.
	Find func(uid types.UID) (*v1.Pod, bool)
	// View returns what the runtime was last seen to have of a pod.
	View func(uid types.UID) (*runtime.PodStatus, error)
	// Wake makes the pod's worker look at it.
	Wake func(uid types.UID)
	// Stopped is closed when the engine's run has ended; then waiting ends with ErrStopped.
	Stopped    <-chan struct{}
	ErrStopped error
	Events     podinfo.EventRecorder
	Logger     logr.Logger

	mu      sync.Mutex
	waiting map[types.UID]map[*restartWait]struct{}
}

// restartWait is a call waiting for its runs to be replaced.
type restartWait struct {
	runs []restarts.Run
	// result has room for one value.
	result chan error
}

// Restart replaces runs of a pod's containers, and waits until the new ones have begun.
func (r *Restarts) Restart(ctx context.Context, uid types.UID, options RestartOptions) error {
	if len(options.Message) > maxMessage {
		return fmt.Errorf("restart pod %q: the message has %d bytes, at most %d are shown: %w", uid, len(options.Message), maxMessage, runtime.ErrInvalid)
	}
	if options.Message == "" {
		options.Message = "A restart was requested."
	}
	pod, ok := r.Find(uid)
	if !ok {
		return fmt.Errorf("restart pod %q: %w", uid, runtime.ErrNotFound)
	}
	if err := r.restart(ctx, pod, options); err != nil {
		return fmt.Errorf("restart pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	return nil
}

func (r *Restarts) restart(ctx context.Context, pod *v1.Pod, options RestartOptions) error {
	if err := r.mayRun(pod); err != nil {
		return err
	}
	view, err := r.View(pod.UID)
	if err != nil {
		return fmt.Errorf("cannot tell which of its containers run: %w", err)
	}
	runs, err := restarts.Choose(pod, view, r.Journal.Asked(pod.UID), options.Containers)
	if err != nil {
		return err
	}
	ctx, cancel := r.untilStopped(ctx)
	defer cancel()
	w := r.register(pod.UID, runs)
	defer r.forget(pod.UID, w)
	// If the pod's end was requested before w existed, w was not told.
	if err := r.mayRun(pod); err != nil {
		return err
	}
	if err := r.Journal.AskRestart(ctx, pod.UID, runs, options.Message); err != nil {
		return err
	}
	r.Logger.Info("Restarting a pod on request", "namespace", pod.Namespace, "name", pod.Name, "uid", pod.UID, "containers", len(runs), "message", options.Message)
	r.Events.Eventf(pod, v1.EventTypeNormal, "RestartRequested", "%s", options.Message)
	r.Wake(pod.UID)
	select {
	case err := <-w.result:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// mayRun returns why no container of the pod may be started, nil if some may.
func (r *Restarts) mayRun(pod *v1.Pod) error {
	why := ""
	switch {
	case podinfo.Terminal(pod.Status.Phase):
		why = "it has ended: " + string(pod.Status.Phase)
		if pod.Status.Reason != "" {
			why += ", " + pod.Status.Reason
		}
	case pod.DeletionTimestamp != nil, r.Residents.Lives.IsPodTerminationRequested(pod.UID):
		why = "it is being stopped"
	case !r.Residents.Known(pod.UID):
		why = "its life has not begun, its explanation says what it waits for"
	default:
		return nil
	}
	return fmt.Errorf("%s: %w", why, runtime.ErrFailedPrecondition)
}

// untilStopped returns a context that ends with ctx or with the engine's run.
func (r *Restarts) untilStopped(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	var watching sync.WaitGroup
	watching.Go(func() {
		select {
		case <-r.Stopped:
			cancel(r.ErrStopped)
		case <-ctx.Done():
		}
	})
	return ctx, func() { cancel(nil); watching.Wait() }
}

func (r *Restarts) register(uid types.UID, runs []restarts.Run) *restartWait {
	w := &restartWait{runs: runs, result: make(chan error, 1)}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.waiting == nil {
		r.waiting = map[types.UID]map[*restartWait]struct{}{}
	}
	if r.waiting[uid] == nil {
		r.waiting[uid] = map[*restartWait]struct{}{}
	}
	r.waiting[uid][w] = struct{}{}
	return w
}

func (r *Restarts) forget(uid types.UID, w *restartWait) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if delete(r.waiting[uid], w); len(r.waiting[uid]) == 0 {
		delete(r.waiting, uid)
	}
}

// Asked returns the restarts requested for a pod, or nil.
func (r *Restarts) Asked(uid types.UID) *restarts.Asked { return r.Journal.Asked(uid) }

// Seen takes what the runtime shows of a pod; calls that wait for what is done by now return.
func (r *Restarts) Seen(pod *v1.Pod, view *runtime.PodStatus) {
	before := r.Journal.Asked(pod.UID)
	if !before.Pending() {
		return
	}
	if left := r.Journal.Restarted(pod, view); left != before {
		r.tell(pod.UID, func(w *restartWait) bool { return !left.Any(w.runs) && before.Any(w.runs) }, nil)
	}
}

// Ended is called when a pod has to stop: requested restarts are dropped.
func (r *Restarts) Ended(uid types.UID) {
	r.tell(uid, func(*restartWait) bool { return true }, fmt.Errorf("it is being stopped: %w", runtime.ErrFailedPrecondition))
}

// tell passes result to the calls for a pod that which selects, unless they already have one.
func (r *Restarts) tell(uid types.UID, which func(*restartWait) bool, result error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for w := range r.waiting[uid] {
		if !which(w) {
			continue
		}
		select {
		case w.result <- result:
		default:
		}
	}
}
