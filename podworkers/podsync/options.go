package podsync

import (
	"context"
	"errors"
	"iter"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/podwright/podwright/internal/podinfo"
	"github.com/podwright/podwright/probe"
	"github.com/podwright/podwright/runtime"
	"github.com/podwright/podwright/runtime/pods"
	"github.com/podwright/podwright/status"
	"github.com/podwright/podwright/syncloop/admission"
)

// Errors that a step may return, besides those of the parts it works with. The workers retry
// all of them.
var (
	// errStillRunning means that containers run although the runtime said that it stopped them.
	errStillRunning = errors.New("containers still run after they were stopped")
	// errBlocked means that an admission handler keeps the pod from running for now.
	errBlocked = errors.New("the pod may not run now")
	// errHeld means that the gate is closed: no pod is set up now.
	errHeld = errors.New("setup is held back")
)

// Pods makes the runtime calls for a pod; [pods.Manager] implements it. Calls for different
// pods run in parallel, calls for one pod do not. If it also has the method
// RefreshVolumes(ctx, pod), that brings the tokens, secrets and other files up to date that
// running containers use, while nothing else is done for the pod because there is no network.
type Pods interface {
	SyncPod(ctx context.Context, pod *v1.Pod, view *runtime.PodStatus) pods.Result
	// KillPod stops the pod and leaves a fresh reading of it in the cache.
	KillPod(ctx context.Context, pod *v1.Pod, view *runtime.PodStatus, graceOverride *int64) error
	KillRuntimePod(ctx context.Context, pod *runtime.Pod, graceOverride *int64) error
	// KillListed stops what the runtime lists of the pod, without reading any details.
	KillListed(ctx context.Context, pod *v1.Pod, graceOverride *int64) error
	// WaitingReasons, PodResources and TerminationMessage supply details for the status of
	// a pod.
	WaitingReasons(uid types.UID) map[string]pods.Waiting
	PodResources(pod *v1.Pod) runtime.Resources
	TerminationMessage(container *runtime.ContainerStatus) string
}

// refresher is an optional ability of [Pods]; see there.
type refresher interface {
	RefreshVolumes(ctx context.Context, pod *v1.Pod)
}

// Content releases what a stopped pod still holds; [pods.Manager] implements it.
type Content interface {
	TearDownVolumes(ctx context.Context, uid types.UID) error
	// RemovePod removes the pod's containers and sandboxes from the runtime.
	RemovePod(ctx context.Context, uid types.UID) error
	// RemoveStopped removes what the view shows of a pod whose containers have stopped.
	RemoveStopped(ctx context.Context, view *runtime.PodStatus) error
	DestroyCgroup(ctx context.Context, uid types.UID) error
	// Forget drops what is kept in memory about the pod.
	Forget(uid types.UID)
}

// Reader reads what the runtime has of a pod; package pleg implements it.
type Reader interface {
	// ReadNow reads the pod past the cache, and updates the cache.
	ReadNow(ctx context.Context, uid types.UID) (*runtime.PodStatus, error)
	// Get returns the cached reading.
	Get(uid types.UID) (*runtime.PodStatus, error)
	// Hold delays readings of the pod until Release, so that no intermediate state
	// between two calls is published. ReadNow ignores a hold.
	Hold(uid types.UID)
	Release(uid types.UID)
}

// Statuses stores and sends the statuses of pods; package status implements it. Statuses
// report and do not decide: an error means that a status was dropped. The implementation logs
// and counts it, and no step ends because of it (IN5).
type Statuses interface {
	SetPodStatus(pod *v1.Pod, status v1.PodStatus) error
	// TerminatePod makes the pod's status final.
	TerminatePod(pod *v1.Pod) error
	Get(uid types.UID) (v1.PodStatus, bool)
}

// Prober probes the containers of a pod; package probe implements it.
type Prober interface {
	AddPod(pod *v1.Pod)
	StopLivenessAndStartup(uid types.UID)
	RemovePod(uid types.UID)
	// Observed reports a new status of the pod.
	Observed(pod *v1.Pod, status *v1.PodStatus)
	Status(kind probe.Kind, pod *v1.Pod, container string, id runtime.ContainerID) probe.Result
}

// Allocations grants pods their CPU and memory (spec/runtime.md 21);
// [pods.Allocations] implements it.
type Allocations interface {
	// Allocate decides how much of its request the pod is granted. changed means that the
	// pod's status has something new to report. After an error the pod is synced as it is
	// allocated, and again later; if that is nil, it is not synced.
	Allocate(pod *v1.Pod) (allocated *v1.Pod, changed bool, err error)
	// Allocated returns the pod with what it was granted.
	Allocated(pod *v1.Pod) *v1.Pod
	Conditions(uid types.UID) []v1.PodCondition
	Actuated(uid types.UID) map[string]runtime.Resources
	Forget(uid types.UID) error
}

// Records is what the caller has recorded about pods, for an agent that continues after a
// restart of its process.
type Records interface {
	// Previous returns the status from which the pod's next status is generated: old, or a
	// status that also says how containers ended that the runtime has lost (spec/cleanup.md
	// CK5). view is what the runtime shows; old is nil if no status is known.
	Previous(pod *v1.Pod, view *runtime.PodStatus, old *v1.PodStatus) *v1.PodStatus
	// ProbeUnwritten reports whether a probe's success is not recorded yet. The status
	// does not show it until then (spec/probe.md 8.3).
	ProbeUnwritten(kind probe.Kind, id runtime.ContainerID) bool
	// ForgetProbes drops the probe results of a pod whose containers have stopped.
	ForgetProbes(uid types.UID)
	// EarlierLife reports whether the runtime may still have containers of an earlier life
	// of the UID, whose ends do not count for the pod. EarlierLifeGone says that they are gone.
	EarlierLife(uid types.UID) bool
	EarlierLifeGone(ctx context.Context, uid types.UID) error
}

// Restarts knows the requested restarts of pods (spec/syncloop.md OC2). Its methods must not block.
type Restarts interface {
	// Asked returns the requested restarts of a pod, nil if there are none.
	Asked(uid types.UID) *status.AskedRestarts
	// Seen is called with what the runtime shows of a pod: restarts that it shows as done are forgotten.
	Seen(pod *v1.Pod, view *runtime.PodStatus)
}

// Mirrors keeps the mirror pods of static pods (spec/syncloop.md 8). Its methods must not
// block.
type Mirrors interface {
	// Want says that a static pod is desired and should have a mirror pod.
	Want(static *v1.Pod)
	Forget(uid types.UID)
}

// Admission decides after a pod's first admission whether it may run (spec/syncloop.md
// AD6, AD8). The zero value admits every pod.
type Admission struct {
	// Handlers are asked before every sync of a pod. While one refuses, the pod's containers
	// are stopped and wait with the reason Blocked; the handlers are asked again every 10 s.
	// A handler that panics counts as refusing. While an [admission.Asker] has no verdict, nothing of
	// the pod is started or stopped, and it is asked again every 10 s.
	Handlers []admission.Handler
	// Others yields the active pods except one, for the handlers. Nil means that there are none.
	Others func(except types.UID) iter.Seq[*v1.Pod]
	// Refused is called for a pod that failed because its setup returned an
	// [admission.Refusal].
	Refused func(ctx context.Context, pod *v1.Pod, v admission.Verdict)
}

// Hooks follow a pod through its steps. Nil functions are skipped. They run on the
// goroutine of the step and must not block.
type Hooks struct {
	// Syncing is called first in SyncPod; the step continues with the context it returns.
	Syncing func(ctx context.Context, uid types.UID) context.Context
	// Changed is called after [Pods].SyncPod has changed something in the runtime.
	Changed func(uid types.UID)
	// Terminating is called first in every attempt of SyncTerminatingPod.
	Terminating func(uid types.UID)
	// Terminated is called in every attempt of SyncTerminatedPod, before anything is
	// published: no container of the pod runs any more.
	Terminated func(uid types.UID)
	// Released is called last, once the pod holds nothing any more.
	Released func(uid types.UID)
}

// Options configures [New]. The zero value works: no probes, no volumes or cgroups to
// release, no resources to grant, all pods admitted, the real clock.
type Options struct {
	// Calls is the wrapper around the runtime that Pods uses, if [NewCalls] made one. Nil means
	// that an object may be made twice on a runtime that lists it only some time after making it.
	Calls *Calls
	// Content releases what a stopped pod holds. Nil means that nothing is released.
	Content Content
	// Removable reports whether the records of a terminated pod's containers may be removed
	// from the runtime. Nil means that they stay.
	Removable func(uid types.UID) bool

	Probes      Prober      // nil: nothing is probed
	Allocations Allocations // nil: pods get what they ask for
	Records     Records     // nil: nothing outlives the process
	Restarts    Restarts    // nil: no restarts are requested
	Mirrors     Mirrors     // nil: static pods have no mirror pods
	Admission   Admission

	// Gate returns why no pod should be set up now, nil if the gate is open. While it is closed,
	// nothing is started for a pod that has nothing running (IN13). Call [Syncer.GateChanged] when
	// it has opened. Gate must not block. A nil function means that the gate is always open.
	Gate func() error
	// Network returns why pods get no network now, nil if they do. A nil function means
	// that they always do.
	Network func() error
	// Wake asks the workers to sync the pod, because its deadline has come (see
	// [Syncer.Run]) or the gate has opened. Nil means that the next sync notices either.
	Wake func(uid types.UID)

	// NodeIPs returns the node's addresses, for the statuses of pods. Nil means unknown.
	NodeIPs func() []string
	Hooks   Hooks

	Clock  clock.WithTicker      // nil: the real clock
	Events podinfo.EventRecorder // nil: events are dropped
}

// setDefaults fills in what is not set.
func (o *Options) setDefaults() {
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	if o.Events == nil {
		o.Events = podinfo.DiscardEvents{}
	}
	if o.Probes == nil {
		o.Probes = noProbes{}
	}
	if o.Allocations == nil {
		o.Allocations = asDesired{}
	}
	if o.Records == nil {
		o.Records = noRecords{}
	}
	if o.Restarts == nil {
		o.Restarts = noRestarts{}
	}
	if o.Mirrors == nil {
		o.Mirrors = noMirrors{}
	}
	if o.Content == nil {
		o.Content = noContent{}
	}
	if o.Removable == nil {
		o.Removable = func(types.UID) bool { return false }
	}
	if o.Wake == nil {
		o.Wake = func(types.UID) {}
	}
	if o.Gate == nil {
		o.Gate = func() error { return nil }
	}
	if o.NodeIPs == nil {
		o.NodeIPs = func() []string { return nil }
	}
	if o.Network == nil {
		o.Network = func() error { return nil }
	}
	if o.Admission.Others == nil {
		o.Admission.Others = func(types.UID) iter.Seq[*v1.Pod] { return func(func(*v1.Pod) bool) {} }
	}
	if o.Admission.Refused == nil {
		o.Admission.Refused = func(context.Context, *v1.Pod, admission.Verdict) {}
	}
	o.Hooks.setDefaults()
}

func (h *Hooks) setDefaults() {
	if h.Syncing == nil {
		h.Syncing = func(ctx context.Context, _ types.UID) context.Context { return ctx }
	}
	for _, f := range []*func(types.UID){&h.Changed, &h.Terminating, &h.Terminated, &h.Released} {
		if *f == nil {
			*f = func(types.UID) {}
		}
	}
}
