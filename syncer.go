package podwright

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/podwright/podwright/podworkers"
	"github.com/podwright/podwright/probe"
	"github.com/podwright/podwright/runtime"
	"github.com/podwright/podwright/runtime/pods"
	"github.com/podwright/podwright/status"
	"github.com/podwright/podwright/status/checkpoint"
	"github.com/podwright/podwright/syncloop/mirror"
)

// Why a call of the syncer failed although the runtime did what it was told.
var (
	errStillRunning = errors.New("containers still run after they were stopped")
)

// flushTimeout is how long the end of a run waits for the sinks.
const flushTimeout = 5 * time.Second

// maxResets bounds how often one sync starts over because the whole pod was reset
// (spec/runtime.md 6.9).
const maxResets = 3

// podRuntime is what the syncer needs from runtime/pods.
type podRuntime interface {
	SyncPod(ctx context.Context, pod *v1.Pod, status *runtime.PodStatus) pods.Result
	KillPod(ctx context.Context, pod *v1.Pod, status *runtime.PodStatus, graceOverride *int64) error
	KillRuntimePod(ctx context.Context, pod *runtime.Pod, graceOverride *int64) error
	RemovePod(ctx context.Context, uid types.UID) error
	TearDownVolumes(ctx context.Context, uid types.UID) error
	WaitingReasons(uid types.UID) map[string]pods.Waiting
	TerminationMessage(container *runtime.ContainerStatus) string
	Forget(uid types.UID)
	DestroyCgroup(ctx context.Context, uid types.UID) error
}

// podReader is what the syncer needs from pleg.
type podReader interface {
	ReadNow(ctx context.Context, uid types.UID) (*runtime.PodStatus, error)
	Get(uid types.UID) (*runtime.PodStatus, error)
	Hold(uid types.UID)
	Release(uid types.UID)
}

// statusStore is what the syncer needs from status.
type statusStore interface {
	SetPodStatus(pod *v1.Pod, status v1.PodStatus) error
	TerminatePod(pod *v1.Pod) error
	Get(uid types.UID) (v1.PodStatus, bool)
}

// prober is what the syncer needs from probe.
type prober interface {
	AddPod(pod *v1.Pod)
	StopLivenessAndStartup(uid types.UID)
	RemovePod(uid types.UID)
	Observed(pod *v1.Pod, status *v1.PodStatus)
	Status(kind probe.Kind, pod *v1.Pod, container string, id runtime.ContainerID) (probe.Result, bool)
}

// syncer is the transaction script of one pod: what happens, in order, in each
// phase of its life (spec/podworkers.md 13). It holds no truth: the runtime and
// the status manager do.
type syncer struct {
	pods    podRuntime
	reader  podReader
	status  statusStore
	probes  prober
	proven  *proven
	network func() error
	nodeIPs []string
	clock   clock.PassiveClock
	events  EventRecorder
	resizer *resizer
	// cgroups destroys those of pods that are gone.
	cgroups *cgroupRemover
	latency *latency
	// deadlines are when pods have been active for too long.
	deadlines *deadlines
	mirrors   *mirror.Reconciler
	twin      func(static *v1.Pod) *v1.Pod
	screen    *screen
	// unseen are the objects the runtime has made and not shown yet.
	unseen *unseen
	// removable reports whether nothing of a terminated pod is needed any more.
	removable func(uid types.UID) bool
	// wiped reports whether containers of the pod were started and are all lost,
	// as far as the runtime's view of it goes.
	wiped func(pod *v1.Pod, view *runtime.PodStatus) bool
	// tidy asks for a housekeeping pass.
	tidy func()
	// ended tells housekeeping that a pod has ended.
	ended func(uid types.UID)

	mu      sync.Mutex
	leaving map[types.UID]*v1.Pod // pods being terminated, for people
}

var _ podworkers.PodSyncer = (*syncer)(nil)

// SyncPod publishes what the runtime shows, does the next steps, and publishes
// what they led to.
func (s *syncer) SyncPod(ctx context.Context, _ podworkers.UpdateType, pod, _ *v1.Pod, view *runtime.PodStatus) (podworkers.SyncResult, error) {
	ctx = s.latency.entered(ctx, pod.UID)
	ctx = forPod(ctx, pod.UID)
	desired := pod
	pod = s.resizer.allocations.Allocated(pod)
	view = uncut(view)
	published, err := s.publish(pod, view, false, nil)
	if err != nil {
		return podworkers.SyncResult{}, err
	}
	if terminal(published.Phase) {
		return podworkers.SyncResult{Terminal: true}, nil
	}
	if ended, err := s.expire(pod, view, &published); ended || err != nil {
		return podworkers.SyncResult{Terminal: ended}, err
	}
	s.mirror(desired)
	if v := s.screen.ask(pod); !v.Admitted() {
		return s.block(ctx, pod, view, v)
	}
	if err := s.network(); err != nil && !pod.Spec.HostNetwork {
		s.events.Eventf(pod, v1.EventTypeWarning, "NetworkNotReady", "network is not ready: %v", err)
		return podworkers.SyncResult{}, fmt.Errorf("%w: %w", podworkers.ErrNetworkNotReady, err)
	}
	if err := s.cgroups.settle(ctx, pod.UID); err != nil {
		return podworkers.SyncResult{}, err
	}
	if pod, err = s.allocate(desired, view); err != nil {
		return podworkers.SyncResult{}, err
	}
	s.probes.AddPod(pod)
	result, view, err := s.act(ctx, pod, view, &published)
	if result.Acted {
		s.resizer.acted()
	}
	if view == nil {
		return podworkers.SyncResult{}, errors.Join(retryAt(result), err)
	}
	if result, refused, err := s.refuseLate(ctx, pod, view, errors.Join(result.Err, err)); refused {
		return result, err
	}
	// Start failures count as news even if nothing was done.
	published, publishErr := s.publish(pod, view, false, nil)
	if err := errors.Join(retryAt(result), err, publishErr); err != nil {
		return podworkers.SyncResult{Acted: result.Acted}, err
	}
	return podworkers.SyncResult{Acted: result.Acted, Terminal: terminal(published.Phase)}, nil
}

// act brings the pod closer to its spec, and reads it again if anything was done.
// The view is nil if that reading failed. shown is the pod's status as it was before.
func (s *syncer) act(ctx context.Context, pod *v1.Pod, view *runtime.PodStatus, shown *v1.PodStatus) (pods.Result, *runtime.PodStatus, error) {
	if err := s.unseen.check(pod.UID, view); err != nil {
		return pods.Result{}, view, err
	}
	s.reader.Hold(pod.UID)
	defer s.reader.Release(pod.UID)
	for i := 0; ; i++ {
		result := s.pods.SyncPod(ctx, pod, recall(pod, view, shown))
		if !result.Acted {
			return result, view, nil
		}
		fresh, err := s.reader.ReadNow(ctx, pod.UID)
		if err != nil {
			return result, nil, fmt.Errorf("read the pod after changing it: %w", err)
		}
		fresh = uncut(fresh)
		if !result.Again || i == maxResets {
			return result, fresh, nil
		}
		view = fresh
	}
}

// SyncTerminatingPod stops the containers and publishes how they ended.
func (s *syncer) SyncTerminatingPod(ctx context.Context, pod *v1.Pod, view *runtime.PodStatus, gracePeriodSeconds *int64, statusFunc podworkers.PodStatusFunc) error {
	s.latency.dropped(pod.UID)
	s.deadlines.forget(pod.UID)
	s.mirrors.Forget(pod.UID)
	ctx = forPod(ctx, pod.UID)
	pod = s.resizer.allocations.Allocated(pod)
	// A pass now marks a pod that no source wants as deleted while its
	// containers still stop, so that its remains can go right after.
	s.tidy()
	published, err := s.publish(pod, view, false, statusFunc)
	if err != nil {
		return err
	}
	if !terminal(published.Phase) { // a pod that has finished leaves nowhere
		s.leave(pod)
	}
	s.probes.StopLivenessAndStartup(pod.UID)
	if err := s.pods.KillPod(ctx, pod, view, gracePeriodSeconds); err != nil {
		return fmt.Errorf("stop the pod: %w", err)
	}
	// KillPod has read the pod again, past the cache and into it.
	fresh, err := s.reader.Get(pod.UID)
	if err != nil {
		return fmt.Errorf("read the pod after stopping it: %w", err)
	}
	if names := running(fresh); len(names) > 0 {
		return fmt.Errorf("%w: %v", errStillRunning, names)
	}
	if err := s.unseen.check(pod.UID, fresh); err != nil {
		return err // it may run
	}
	s.probes.RemovePod(pod.UID)
	s.proven.forget(pod.UID)
	_, err = s.publish(pod, keepIPs(fresh, view), true, statusFunc)
	return err
}

// SyncTerminatingRuntimePod stops a pod nobody desires and nobody described.
func (s *syncer) SyncTerminatingRuntimePod(ctx context.Context, pod *runtime.Pod) error {
	if err := s.pods.KillRuntimePod(ctx, pod, nil); err != nil {
		return fmt.Errorf("stop the left-over pod: %w", err)
	}
	if err := s.release(ctx, pod.UID); err != nil {
		return err
	}
	s.ended(pod.UID)
	return nil
}

// SyncTerminatedPod publishes the last status and lets go of the pod.
func (s *syncer) SyncTerminatedPod(ctx context.Context, pod *v1.Pod, view *runtime.PodStatus) error {
	pod = s.resizer.allocations.Allocated(pod)
	if _, err := s.publish(pod, view, true, nil); err != nil {
		return err
	}
	// Memory and mounts are given back as soon as nobody can use them.
	if err := s.pods.TearDownVolumes(ctx, pod.UID); err != nil {
		return err
	}
	if err := s.status.TerminatePod(pod); err != nil {
		return fmt.Errorf("publish the final status: %w", err)
	}
	if s.removable(pod.UID) {
		// Housekeeping would do this too; doing it now leaves nothing behind
		// for the seconds until its next pass.
		if err := s.pods.RemovePod(ctx, pod.UID); err != nil {
			return fmt.Errorf("remove the pod from the runtime: %w", err)
		}
	}
	if err := s.release(ctx, pod.UID); err != nil {
		return err
	}
	s.pods.Forget(pod.UID)
	s.unseen.gone(pod.UID, "")
	s.left(pod.UID)
	s.ended(pod.UID)
	return nil
}

// publish generates the pod's status from a view and stores it.
func (s *syncer) publish(pod *v1.Pod, view *runtime.PodStatus, ended bool, amend podworkers.PodStatusFunc) (v1.PodStatus, error) {
	return s.put(pod, s.input(pod, view, ended, amend))
}

// input is what the status of a pod is made of.
func (s *syncer) input(pod *v1.Pod, view *runtime.PodStatus, ended bool, amend podworkers.PodStatusFunc) status.Input {
	in := status.Input{
		Pod: pod, Runtime: s.withMessages(uncut(view)), Terminal: ended,
		Waiting:      map[string]status.WaitingReason{},
		SandboxReady: !pods.NeedsSandbox(pod, view),
		NodeIPs:      s.nodeIPs,
		Resize:       s.resizer.allocations.Conditions(pod.UID),
		Actuated:     s.resizer.allocations.Actuated(pod.UID),
		Amend:        amend,
		Probes:       probeFacts(s.probes, s.proven, pod),
		Now:          s.clock.Now(),
	}
	if old, ok := s.status.Get(pod.UID); ok {
		in.Old = &old
	}
	if s.wiped(pod, view) {
		if in.Old == nil {
			in.Old = &pod.Status
		}
		in.Old = checkpoint.Interrupted(pod, in.Old) // CK5
	}
	for name, w := range s.pods.WaitingReasons(pod.UID) {
		in.Waiting[name] = status.WaitingReason{Reason: w.Reason, Message: w.Message}
	}
	return in
}

// put generates the pod's status and stores it.
func (s *syncer) put(pod *v1.Pod, in status.Input) (v1.PodStatus, error) {
	generated := status.Generate(in)
	if err := s.status.SetPodStatus(pod, generated); err != nil {
		return generated, fmt.Errorf("store the status: %w", err)
	}
	s.probes.Observed(pod, &generated)
	return generated, nil
}

// withMessages returns the view with the termination messages of its exited
// containers filled in, as far as a status shows them: the newest two of each name. The
// view is shared, so what changes is copied.
func (s *syncer) withMessages(view *runtime.PodStatus) *runtime.PodStatus {
	if view == nil {
		return nil
	}
	out := view
	for i, c := range view.Containers {
		if c.State != runtime.Exited || newerOf(c.Name, view.Containers[:i]) >= 2 {
			continue
		}
		text := s.pods.TerminationMessage(c)
		if text == "" || text == c.Message {
			continue
		}
		if out == view {
			shallow := *view
			shallow.Containers = slices.Clone(view.Containers)
			out = &shallow
		}
		changed := *c
		changed.Message = text
		out.Containers[i] = &changed
	}
	return out
}

// newerOf counts the containers of a name.
func newerOf(name string, newer []*runtime.ContainerStatus) (n int) {
	for _, c := range newer {
		if c.Name == name {
			n++
		}
	}
	return n
}

// leave remembers a pod that is being stopped: it may be desired by nobody any
// more and still be there for people to see.
func (s *syncer) leave(pod *v1.Pod) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.leaving[pod.UID]; ok {
		return
	}
	p := *pod
	if p.DeletionTimestamp == nil {
		now := metav1.NewTime(s.clock.Now())
		p.DeletionTimestamp = &now
	}
	s.leaving[pod.UID] = &p
}

// left forgets a pod that was being stopped.
func (s *syncer) left(uid types.UID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.leaving, uid)
}

// leavingPods returns the pods being stopped.
func (s *syncer) leavingPods() map[types.UID]*v1.Pod {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.leaving)
}

// leavingPod returns a pod that is being stopped, and whether it is.
func (s *syncer) leavingPod(uid types.UID) (*v1.Pod, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	pod, ok := s.leaving[uid]
	return pod, ok
}

// terminal reports whether a phase is final.
func terminal(phase v1.PodPhase) bool {
	return phase == v1.PodSucceeded || phase == v1.PodFailed
}

// running names the containers that run.
func running(view *runtime.PodStatus) []string {
	var names []string
	for _, c := range view.Containers {
		if c.State == runtime.Running {
			names = append(names, c.Name)
		}
	}
	return names
}

// remains reports whether the runtime holds something of the pod, and nothing of it
// runs.
func remains(view *runtime.PodStatus) bool {
	ready := func(s *runtime.SandboxStatus) bool { return s.State == runtime.Running }
	return len(view.Sandboxes)+len(view.Containers) > 0 && len(running(view)) == 0 && !slices.ContainsFunc(view.Sandboxes, ready)
}

// keepIPs gives a view of a stopped pod the addresses known before the stop
// (spec/runtime.md 1.7).
func keepIPs(fresh, before *runtime.PodStatus) *runtime.PodStatus {
	if len(fresh.IPs) > 0 || before == nil || len(before.IPs) == 0 {
		return fresh
	}
	out := *fresh
	out.IPs = before.IPs
	return &out
}

// retryError is the error of a sync that is held by a back-off with a known end.
type retryError struct {
	error
	at time.Time
}

// RetryAt is when another attempt makes sense; see [podworkers.PodSyncer].
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
