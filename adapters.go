package podwright

import (
	"context"
	"errors"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/podwright/podwright/cleanup"
	"github.com/podwright/podwright/internal/latency"
	"github.com/podwright/podwright/internal/recovery"
	"github.com/podwright/podwright/pleg"
	"github.com/podwright/podwright/podworkers"
	"github.com/podwright/podwright/runtime"
	"github.com/podwright/podwright/runtime/pods"
	"github.com/podwright/podwright/status"
	"github.com/podwright/podwright/syncloop"
)

// The joints between the rooms: each adapter gives one room's object the shape
// that another room declared.

// dispatcher hands the loop's work to the workers.
type dispatcher struct {
	workers *podworkers.Workers
	// complete completes the first update of a pod by what is remembered of it.
	complete func(podworkers.UpdateOptions) []podworkers.UpdateOptions
}

func (d dispatcher) Dispatch(w syncloop.Work) {
	kinds := map[syncloop.WorkKind]podworkers.UpdateType{
		syncloop.WorkSync: podworkers.Sync, syncloop.WorkUpdate: podworkers.Update,
		syncloop.WorkCreate: podworkers.Create, syncloop.WorkKill: podworkers.Kill,
	}
	update := podworkers.UpdateOptions{Type: kinds[w.Kind], Pod: w.Pod, MirrorPod: w.MirrorPod, StartTime: w.StartTime}
	for _, options := range d.complete(update) {
		d.workers.UpdatePod(options)
	}
}

// changes gives the loop the pods whose runtime state changed.
type changes struct {
	*pleg.Subscription
	exits *latency.Exits
	// noticed hears of each of them first.
	noticed func(uid types.UID)
	// died hears of each in which a container died.
	died func(e pleg.PodEvents)
}

func (c changes) Take() []types.UID {
	events := c.Subscription.Take()
	uids := make([]types.UID, 0, len(events))
	for _, e := range events {
		// A removed container is no reason to look at the pod (PE1).
		if e.Kinds == pleg.Removed {
			continue
		}
		if e.Kinds.Has(pleg.Died) {
			c.died(e)
		}
		c.exits.Delivered(e)
		c.noticed(e.UID)
		uids = append(uids, e.UID)
	}
	return uids
}

// views gives the workers the cache of what the runtime shows.
type views struct{ *pleg.Generator }

var (
	_ podworkers.StatusPeeker  = views{}
	_ podworkers.RunningLister = views{}
)

var errNotSynced = errors.New("the runtime has not been read completely yet")

func (v views) Peek(uid types.UID) (*runtime.PodStatus, error) {
	if !v.Synced() {
		return nil, errNotSynced
	}
	// In this order: what is read in between may only make the status newer.
	proven := v.Proven(uid)
	status, err := v.Get(uid)
	if err != nil || status == nil || status.Stamp >= proven {
		return status, err
	}
	// A pod that relists find unchanged needs no look of its own.
	seen := *status
	seen.Stamp = proven
	return &seen, nil
}

// freshReader reads a pod past the cache and into it.
type freshReader struct{ pleg *pleg.Generator }

func (r freshReader) Read(ctx context.Context, uid types.UID) (*runtime.PodStatus, error) {
	return r.pleg.ReadNow(ctx, uid)
}

// exitOf returns a container, after making sure that how it ended is in the cache
// before its record is removed from the runtime (spec/pleg.md B12). It is nil if
// the runtime does not have it.
func (r freshReader) exitOf(ctx context.Context, uid types.UID, id runtime.ContainerID) (*runtime.ContainerStatus, error) {
	find := func(status *runtime.PodStatus) *runtime.ContainerStatus {
		for _, c := range status.Containers {
			if c.ID == id {
				return c
			}
		}
		return nil
	}
	status, err := r.pleg.Get(uid)
	if err == nil {
		if c := find(status); c != nil && c.State == runtime.Exited {
			return c, nil
		}
	}
	if status, err = r.pleg.ReadNow(ctx, uid); err != nil {
		return nil, err
	}
	return find(status), nil
}

// housekeeping lets the loop call the housekeeper, which is built after it.
type housekeeping struct{ e *Engine }

func (h housekeeping) Housekeep(ctx context.Context, fence func(func())) error {
	return h.e.housekeeper.Housekeep(ctx, fence)
}

// knownPods shows the workers to the housekeeper.
type knownPods struct {
	workers *podworkers.Workers
	clock   clock.PassiveClock
	// complete and orphan bring in what is remembered of a pod.
	complete func(podworkers.UpdateOptions) []podworkers.UpdateOptions
	orphan   func(*runtime.Pod) podworkers.UpdateOptions
}

func (k knownPods) SyncKnownPods(desired []*v1.Pod) map[types.UID]cleanup.Worker {
	known := k.workers.SyncKnownPods(desired)
	out := make(map[types.UID]cleanup.Worker, len(known))
	for uid, p := range known {
		out[uid] = cleanup.Worker{State: workerState(p.State), Orphan: p.Orphan, HasConfig: p.HasConfig, Static: p.Static}
	}
	return out
}

// workerState is the kind of work a pod in this state needs next.
func workerState(s podworkers.State) cleanup.WorkerState {
	switch {
	case s.Terminated():
		return cleanup.WorkerTerminated
	case s.Terminating():
		return cleanup.WorkerTerminating
	default:
		return cleanup.WorkerSync
	}
}

// Known is for dry runs: it changes nothing.
func (k knownPods) Known() map[types.UID]cleanup.Worker {
	out := map[types.UID]cleanup.Worker{}
	for _, x := range k.workers.Snapshot() {
		out[x.UID] = cleanup.Worker{State: workerState(x.State), HasConfig: true, Static: x.Static}
	}
	return out
}

func (k knownPods) Knows(uid types.UID) bool {
	_, known := k.workers.Explain(uid)
	return known
}

func (k knownPods) ContentShouldBeRemoved(uid types.UID) bool {
	return k.workers.ShouldPodContentBeRemoved(uid)
}

func (k knownPods) Restart(pod *v1.Pod) { k.update(podworkers.Create, pod) }

func (k knownPods) Kill(pod *v1.Pod) { k.update(podworkers.Kill, pod) }

func (k knownPods) KillRuntimePod(pod *runtime.Pod) { k.workers.UpdatePod(k.orphan(pod)) }

func (k knownPods) update(t podworkers.UpdateType, pod *v1.Pod) {
	for _, options := range k.complete(podworkers.UpdateOptions{Type: t, Pod: pod, StartTime: k.clock.Now()}) {
		k.workers.UpdatePod(options)
	}
}

// statuses shows the status manager to the housekeeper.
type statuses struct {
	*status.Manager
	pruner *recovery.Pruner
}

func (s statuses) RemoveOrphanedStatuses(desired map[types.UID]struct{}) {
	s.pruner.RemoveOrphanedStatuses(desired)
}

func (s statuses) Phase(uid types.UID) (v1.PodPhase, bool) {
	st, ok := s.Get(uid)
	return st.Phase, ok
}

// collector runs garbage collection for the housekeeper.
type collector struct {
	pods    *pods.Manager
	ready   func() bool
	workers *podworkers.Workers
	policy  DeadContainers
	pleg    *pleg.Generator
	records *imageRecords
}

func (c collector) gcPolicy(contentGoes func(types.UID) bool) pods.GCPolicy {
	return pods.GCPolicy{
		MinAge: c.policy.MinAge, FinishedAt: c.finishedAt,
		MaxPerContainer: c.policy.PerName, MaxContainers: c.policy.Total,
		SourcesReady: c.ready(), ContentShouldBeRemoved: contentGoes,
		RuntimeShouldBeRemoved: c.workers.ShouldPodRuntimeBeRemoved,
	}
}

func (c collector) Plan(ctx context.Context, contentGoes func(types.UID) bool) ([]cleanup.Action, error) {
	list, err := c.pods.PlanGarbageCollect(ctx, c.gcPolicy(contentGoes))
	var out []cleanup.Action
	for _, a := range list {
		// A ready sandbox is no candidate.
		if !a.Sandbox || !strings.HasPrefix(a.Kept, "HI6") {
			out = append(out, gcAction(a))
		}
	}
	return out, err
}

func (c collector) Collect(ctx context.Context, contentGoes func(types.UID) bool, permits func(cleanup.Action) bool, done func(cleanup.Action, error)) error {
	policy := c.gcPolicy(contentGoes)
	policy.Permits = func(a pods.GCAction) bool { return permits(gcAction(a)) }
	policy.Done = func(a pods.GCAction, err error) { done(gcAction(a), err) }
	err := c.pods.GarbageCollect(ctx, policy)
	return errors.Join(err, c.records.prune(ctx))
}

// gcAction gives the choice of a container or sandbox the shape of a plan.
func gcAction(a pods.GCAction) cleanup.Action {
	out := cleanup.Action{
		Step: cleanup.StepContainers, PodUID: a.PodUID, Object: a.Namespace + "/" + a.Pod + "/" + a.Container + " " + a.ID,
		Reason: a.Reason, Forbidden: a.Kept, Age: metav1.Duration{Duration: a.Age.Truncate(time.Second)},
	}
	if a.Sandbox {
		out.Step, out.Object = cleanup.StepSandboxes, a.Namespace+"/"+a.Pod+" "+a.ID
	}
	if out.Reason == "" {
		out.Reason = "it does not run"
	}
	return out
}
