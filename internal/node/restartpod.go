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

// RestartOptions says how one pod is restarted because somebody asked for it.
type RestartOptions struct {
	Containers []string
	Message    string
}

// RestartJournal keeps what was asked for on the disk; [recovery.Journal] does.
type RestartJournal interface {
	// Asked returns the restarts asked for of a pod that are on the disk, nil if there are none.
	Asked(uid types.UID) *restarts.Asked
	// AskRestart adds to them; without an error that is on the disk.
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
	// Find returns a pod with its newest status, false if there is none.
	Find func(uid types.UID) (*v1.Pod, bool)
	// View returns what the runtime was last seen to have of a pod.
	View func(uid types.UID) (*runtime.PodStatus, error)
	// Wake has the pod's worker look at it.
	Wake func(uid types.UID)
	// Stopped is closed when the engine's run has ended; waiting then ends with ErrStopped.
	Stopped    <-chan struct{}
	ErrStopped error
	Events     podinfo.EventRecorder
	Logger     logr.Logger

	mu      sync.Mutex
	waiting map[types.UID]map[*restartWait]struct{}
}

// restartWait is a call that waits for its runs to be replaced.
type restartWait struct {
	runs []restarts.Run
	// result takes one value.
	result chan error
}

// Restart replaces runs of a pod's containers, and waits until the new ones have begun.
func (r *Restarts) Restart(ctx context.Context, uid types.UID, options RestartOptions) error {
	if len(options.Message) > maxMessage {
		return fmt.Errorf("restart pod %q: the message has %d bytes, at most %d are shown: %w", uid, len(options.Message), maxMessage, runtime.ErrInvalid)
	}
	if options.Message == "" {
		options.Message = "A restart was asked for."
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
		return fmt.Errorf("it is not known what of it runs: %w", err)
	}
	runs, err := restarts.Choose(pod, view, r.Journal.Asked(pod.UID), options.Containers)
	if err != nil {
		return err
	}
	ctx, cancel := r.untilStopped(ctx)
	defer cancel()
	w := r.register(pod.UID, runs)
	defer r.forget(pod.UID, w)
	// An end that was asked for before this was not told to w.
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
		why = "it has ended"
	case pod.DeletionTimestamp != nil, r.Residents.Lives.IsPodTerminationRequested(pod.UID):
		why = "it is being stopped"
	case !r.Residents.Known(pod.UID):
		why = "its life has not begun, Explain says what it waits for"
	default:
		return nil
	}
	return fmt.Errorf("%s: %w", why, runtime.ErrFailedPrecondition)
}

// untilStopped is ctx, until the engine's run ends.
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

// Asked returns the restarts asked for of a pod, nil if there are none.
func (r *Restarts) Asked(uid types.UID) *restarts.Asked { return r.Journal.Asked(uid) }

// Seen takes what the runtime shows of a pod; who waits for what is done by then waits no more.
func (r *Restarts) Seen(pod *v1.Pod, view *runtime.PodStatus) {
	before := r.Journal.Asked(pod.UID)
	if !before.Pending() {
		return
	}
	if left := r.Journal.Restarted(pod, view); left != before {
		r.tell(pod.UID, func(w *restartWait) bool { return !left.Any(w.runs) && before.Any(w.runs) }, nil)
	}
}

// Ended is called when a pod has to stop: what was asked for comes to nothing.
func (r *Restarts) Ended(uid types.UID) {
	r.tell(uid, func(*restartWait) bool { return true }, fmt.Errorf("it is being stopped: %w", runtime.ErrFailedPrecondition))
}

// tell gives the calls for a pod that which selects their result, unless they have one.
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
