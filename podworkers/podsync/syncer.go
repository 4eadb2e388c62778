package podsync

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/foreign"
	"github.com/podwright/podwright/internal/podinfo"
	"github.com/podwright/podwright/internal/repeats"
	"github.com/podwright/podwright/podworkers"
	"github.com/podwright/podwright/runtime"
	"github.com/podwright/podwright/runtime/pods"
)

// publishRetry is how long an otherwise healthy pod waits before it offers a dropped status
// again. All other work of the pod keeps its own pace (IN5).
const publishRetry = 10 * time.Second

// maxResets bounds how often one sync starts over because the whole pod was reset
// (spec/runtime.md 6.9).
const maxResets = 3

// Syncer is the reference [podworkers.PodSyncer]. Make one with [New]. All methods are
// safe for concurrent use, within the contract of PodSyncer: one step at a time per pod.
type Syncer struct {
	pods      Pods
	reader    Reader
	statuses  Statuses
	o         Options
	deadlines *deadlines
	stopping  *stopping
	held      held
	// offline counts the attempts of pods that wait for the network.
	offline *repeats.Table[offline]
	// renewed counts the attempts since the files of such pods were renewed, which is once a minute.
	renewed *repeats.Table[types.UID]
}

// offline is a pod that waits for the network, and why there is none.
type offline struct {
	uid types.UID
	why string
}

var (
	_ podworkers.PodSyncer     = (*Syncer)(nil)
	_ podworkers.UnseenStopper = (*Syncer)(nil)
)

// New makes a syncer. It starts nothing. The workers that call it need the same reader as
// their podworkers.Options.Views: a step without a view takes the pod for one that has no
// containers. They notice what ends by itself when the reader's changes are passed to
// UpdatePod, as in the example, otherwise with the next resync.
func New(pods Pods, reader Reader, statuses Statuses, options Options) *Syncer {
	options.setDefaults()
	return &Syncer{
		pods: pods, reader: reader, statuses: statuses, o: options,
		deadlines: newDeadlines(options.Clock, options.Wake),
		stopping:  newStopping(options.Clock),
		offline:   repeats.New[offline](options.Clock, repeats.Reminder),
		renewed:   repeats.New[types.UID](options.Clock, time.Minute),
	}
}

// SyncPod publishes what the runtime shows, does the next steps, and publishes
// the outcome. A dropped status stops none of this.
func (s *Syncer) SyncPod(ctx context.Context, _ podworkers.UpdateType, pod, _ *v1.Pod, view *runtime.PodStatus) (_ podworkers.SyncResult, err error) {
	defer func() { err = canceled(err) }()
	ctx = s.o.Hooks.Syncing(ctx, pod.UID)
	s.stopping.setFinal(pod.UID, false)
	ctx = foreign.ForPod(ctx, pod.UID)
	desired := pod
	pod = s.o.Allocations.Allocated(pod)
	ctx, end := s.deadlines.begin(ctx, pod)
	defer end()
	if view, err = s.removeEarlierLife(ctx, pod.UID, view); err != nil {
		return podworkers.SyncResult{}, err
	}
	view = s.withKnownEnds(pod, abortedAsCreated(view))
	seen(ctx, view)
	verdict, undecided := s.judge(pod)
	in, withheld := asObserved(s.judgedInput(pod, view, verdict, undecided), desired)
	published, _ := s.store(pod, in)
	s.o.Restarts.Seen(pod, view)
	if podinfo.Terminal(published.Phase) {
		return podworkers.SyncResult{Terminal: true}, nil
	}
	if amend, expired := s.expire(pod, view, &published); expired {
		return podworkers.SyncResult{Terminal: true, Amend: amend}, nil
	}
	if podinfo.Static(desired) && desired.DeletionTimestamp == nil {
		s.o.Mirrors.Want(desired)
	}
	if undecided != nil {
		s.held.remove(pod.UID)
		return podworkers.SyncResult{}, undecided
	}
	if !verdict.Admitted() {
		s.held.remove(pod.UID)
		return s.block(ctx, desired, pod, view, verdict)
	}
	if err := s.hold(pod, view); err != nil {
		return podworkers.SyncResult{}, err
	}
	if err := s.o.Network(); err != nil && !pod.Spec.HostNetwork {
		if r, ok := s.pods.(refresher); ok && view.ContainersRunning() && s.renewed.Note(pod.UID).Due {
			r.RefreshVolumes(ctx, pod)
		}
		return podworkers.SyncResult{}, s.awaitNetwork(pod, err)
	}
	pod, unstored := s.allocate(desired, view, withheld)
	if pod == nil {
		return podworkers.SyncResult{}, unstored
	}
	s.o.Probes.AddPod(pod)
	result, view, err := s.act(ctx, pod, view, &published)
	if result.Acted {
		s.o.Hooks.Changed(pod.UID)
	}
	if view == nil {
		return podworkers.SyncResult{}, errors.Join(retryAt(result), err)
	}
	if result, refused, err := s.refuseLate(ctx, pod, view, errors.Join(result.Err, err)); refused {
		return result, err
	}
	// Publish even if nothing was done: a failure to start is news too.
	in, _ = asObserved(s.input(pod, view, false, nil), desired)
	published, unpublished := s.store(pod, in)
	s.o.Restarts.Seen(pod, view) // after publishing: the status shows the restart to whatever waits for it
	out := podworkers.SyncResult{Acted: result.Acted}
	if err := errors.Join(retryAt(result), err); err != nil {
		return out, errors.Join(err, s.again(unstored))
	}
	if out.Terminal = podinfo.Terminal(published.Phase); out.Terminal {
		return out, nil
	}
	return out, s.again(cmp.Or(unstored, unpublished))
}

// again makes what could not be written be tried again soon, whatever else the pod waits for.
func (s *Syncer) again(err error) error {
	if err == nil {
		return nil
	}
	return retryError{error: err, at: s.o.Clock.Now().Add(publishRetry)}
}

// awaitNetwork returns the error of a pod that needs the network while there is none. The attempts
// are about a second apart, and there may be a hundred such pods, so not each of them is an event.
func (s *Syncer) awaitNetwork(pod *v1.Pod, why error) error {
	if s.offline.Note(offline{pod.UID, why.Error()}).Due {
		s.o.Events.Eventf(pod, v1.EventTypeWarning, "NetworkNotReady", "network is not ready: %v", why)
	}
	return fmt.Errorf("%w: %w", podworkers.ErrNetworkNotReady, why)
}

// allocate grants the pod the resources it may have now, and publishes what was decided
// about its request. withheld says that the last status left the generation out. After an error
// the pod is synced as it is allocated: a full disk must not keep its containers from being looked
// after. It is nil if there is nothing to sync.
func (s *Syncer) allocate(desired *v1.Pod, view *runtime.PodStatus, withheld bool) (*v1.Pod, error) {
	pod, changed, err := s.o.Allocations.Allocate(desired)
	if err != nil {
		return pod, err
	}
	if changed || withheld {
		_, _ = s.publish(pod, view, false, nil)
	}
	return pod, nil
}

// act brings the pod closer to its spec, and reads it again if anything was done.
// The view is nil if that reading failed. shown is the pod's status as it was before.
func (s *Syncer) act(ctx context.Context, pod *v1.Pod, view *runtime.PodStatus, shown *v1.PodStatus) (pods.Result, *runtime.PodStatus, error) {
	podworkers.Seen(ctx, 0)
	if err := s.o.Calls.unanswered(pod.UID); err != nil {
		return pods.Result{}, view, err
	}
	if err := s.o.Calls.awaitListed(pod.UID, view); err != nil {
		return pods.Result{}, view, err
	}
	s.reader.Hold(pod.UID)
	defer s.reader.Release(pod.UID)
	for i := 0; ; i++ {
		result := s.pods.SyncPod(ctx, pod, withLostEnds(pod, view, shown))
		if !result.Acted {
			seen(ctx, view)
			return result, view, nil
		}
		podworkers.Seen(ctx, 0)
		fresh, err := s.read(ctx, pod.UID, result.Err)
		if err != nil {
			return result, nil, fmt.Errorf("read the pod after changing it: %w", err)
		}
		seen(ctx, fresh)
		fresh = s.withKnownEnds(pod, abortedAsCreated(fresh))
		if !result.Again || i == maxResets {
			return result, fresh, nil
		}
		view = fresh
	}
}

// read reads the pod after it was changed. It lists after a failure, which may have left more than the
// objects known to have been made.
func (s *Syncer) read(ctx context.Context, uid types.UID, failed error) (*runtime.PodStatus, error) {
	if failed != nil || s.o.Calls == nil || s.o.Calls.o.Cache == nil {
		return s.reader.ReadNow(ctx, uid)
	}
	return s.o.Calls.Read(ctx, uid)
}

// seen tells the workers that the step has changed nothing since the view was read.
func seen(ctx context.Context, view *runtime.PodStatus) {
	if view != nil {
		podworkers.Seen(ctx, view.Stamp)
	}
}

// retryError is the error of a sync that waits for a known time, such as the end of a back-off.
type retryError struct {
	error
	at time.Time
}

// RetryAt returns when another attempt makes sense; see [podworkers.PodSyncer].
func (e retryError) RetryAt() time.Time { return e.at }

// Unwrap returns the error without its time.
func (e retryError) Unwrap() error { return e.error }

// retryAt returns the result's error, with the end of its back-off if it has one.
func retryAt(result pods.Result) error {
	if result.Err == nil || result.RetryAt.IsZero() {
		return result.Err
	}
	return retryError{error: result.Err, at: result.RetryAt}
}
