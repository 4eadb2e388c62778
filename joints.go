package podwright

import (
	"context"
	"errors"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/cleanup"
	"github.com/podwright/podwright/internal/latency"
	"github.com/podwright/podwright/internal/podinfo"
	"github.com/podwright/podwright/internal/recovery"
	"github.com/podwright/podwright/pleg"
	"github.com/podwright/podwright/podworkers"
	"github.com/podwright/podwright/probe"
	"github.com/podwright/podwright/runtime"
	"github.com/podwright/podwright/runtime/pods"
	"github.com/podwright/podwright/status"
	"github.com/podwright/podwright/syncloop"
	"github.com/podwright/podwright/syncloop/admission"
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
	asOf := v.AsOf(uid)
	status, err := v.Get(uid)
	if err != nil || status == nil || status.Stamp >= asOf {
		return status, err
	}
	// A pod that relists find unchanged needs no look of its own.
	seen := *status
	seen.Stamp = asOf
	return &seen, nil
}

// freshReader reads a pod past the cache and into it.
type freshReader struct{ pleg *pleg.Generator }

func (r freshReader) Read(ctx context.Context, uid types.UID) (*runtime.PodStatus, error) {
	return r.pleg.ReadNow(ctx, uid)
}

// housekeeping lets the loop call the housekeeper, which is built after it.
type housekeeping struct{ e *parts }

func (h housekeeping) Housekeep(ctx context.Context, fence func(func())) error {
	if h.e.recovery.Gate() != nil {
		return nil // what a pass would take for left over may be remembered (CK9)
	}
	return h.e.housekeeper.Housekeep(ctx, fence)
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

// usable returns why no pod should be set up now. Before the first complete
// reading nobody knows what runs already, such as another UID of a pod's name
// (spec/podworkers.md N6).
func (e *parts) usable() error {
	if err := e.health.Runtime(); err != nil {
		return err
	}
	return e.recovery.Gate()
}

// healthChanged reacts to a runtime that came back or went away.
func (e *parts) healthChanged() {
	e.hooks.Changed()
	e.loop.GateChanged()
	if e.health.Runtime() == nil {
		e.tidy()
	}
}

// ended makes the next housekeeping pass, soon, look for what a pod left.
func (e *parts) ended(uid types.UID) {
	e.resizer.Changed()
	e.housekeeper.Finished(uid)
	if pod, desired := e.loop.Store().Get(uid); desired && syncloop.IsEvicted(&pod.Status) {
		e.dead.Evicted(pod)
	}
	e.tidy()
}

// noticed tells housekeeping of a pod that nobody knows and of which nothing runs,
// such as a sandbox whose making was cut off. Without that its remains would wait
// for the next run of garbage collection; what runs is found by each pass.
func (e *parts) noticed(uid types.UID) {
	if _, desired := e.loop.Store().Get(uid); desired {
		return
	}
	if _, known := e.workers.Explain(uid); known {
		return
	}
	if view, err := e.pleg.Get(uid); err == nil && len(view.Sandboxes)+len(view.Containers) > 0 && !view.Running() {
		e.housekeeper.Found(uid)
		e.tidy()
	}
}

// tidy asks for a housekeeping pass soon.
func (e *parts) tidy() { e.loop.TriggerHousekeeping() }

// knownRuntime shows recovery the cache of what the runtime has.
type knownRuntime struct{ *pleg.Generator }

func (k knownRuntime) Known() []types.UID {
	pods := k.Dump().Pods
	uids := make([]types.UID, len(pods))
	for i, p := range pods {
		uids[i] = p.UID
	}
	return uids
}

// recordWritten lets go on what waited for a pod's record: its status, and its
// worker, whose own back-off may be minutes by now.
func (e *parts) recordWritten(uid types.UID, waiting *v1.Pod) {
	e.status.Persisted(uid)
	if waiting != nil {
		e.workers.UpdatePod(podworkers.UpdateOptions{Type: podworkers.Sync, Pod: waiting, StartTime: e.config.Clock.Now()})
	}
}

// sources wraps the configured sources, so that what is remembered stands in for
// those that do not answer.
func (e *parts) sources() []syncloop.Source {
	out := make([]syncloop.Source, len(e.config.Sources))
	for i, s := range e.config.Sources {
		out[i] = e.remembering(s)
	}
	return out
}

func (e *parts) remembering(s syncloop.Source) syncloop.Source {
	return e.journal.Remembering(s, !e.config.Storage.ForgetDesired, func() bool { return e.loop.Ready() })
}

// probedPods shows pods to the probes as they are now.
type probedPods struct{ e *parts }

func (p probedPods) View(uid types.UID) (probe.View, bool) {
	st, ok := p.e.status.Get(uid)
	if !ok {
		return probe.View{}, false
	}
	out := probe.View{Status: &st}
	if out.Pod, out.Leaving = p.e.syncer.StoppingPod(uid); !out.Leaving {
		if out.Pod, ok = p.e.loop.Store().Get(uid); !ok {
			return probe.View{}, false
		}
	}
	// Only for the exact times of starts: an old or missing view is no harm.
	if view, err := p.e.pleg.Get(uid); err == nil {
		out.Runtime = view
	}
	return out, true
}

// probed hears of a new result (spec/probe.md 6.2). Pods that are gone are unknown to
// whom it tells.
func (e *parts) probed(ctx context.Context, a probe.Announcement) {
	if a.Result == probe.Success {
		e.probeMemory.Wait(ctx, a)
	}
	switch a.Kind {
	case probe.Startup:
		e.status.SetContainerStartup(a.UID, a.ID, a.Result == probe.Success)
	case probe.Readiness:
		e.status.SetContainerReadiness(a.UID, a.ID, a.Result == probe.Success)
	case probe.Liveness:
		if a.Result != probe.Failure {
			return
		}
	}
	pod, desired := e.loop.Store().Get(a.UID)
	if _, known := e.workers.Explain(a.UID); !desired || !known {
		return
	}
	e.workers.UpdatePod(podworkers.UpdateOptions{Type: podworkers.Sync, Pod: pod, StartTime: e.config.Clock.Now()})
}

// probeSource gives the reconciler the results that make it kill or wait (6.3, 6.5).
type probeSource struct{ e *parts }

func (s probeSource) ProbeResults(id runtime.ContainerID) (startup, liveness pods.ProbeResult) {
	startup, _ = s.e.probes.Result(probe.Startup, id)
	liveness, _ = s.e.probes.Result(probe.Liveness, id)
	return startup, liveness
}

// mirrored shows the status manager which mirror pod stands for which static pod.
type mirrored struct{ e *parts }

func (m mirrored) TranslateUID(uid types.UID) types.UID { return m.e.loop.Store().TranslateUID(uid) }
func (m mirrored) MirrorOf(static *v1.Pod) *v1.Pod      { return m.e.loop.Store().MirrorOf(static) }

// wantedMirrors takes the static pods that the syncer sets up (MC4).
type wantedMirrors struct{ e *parts }

// Want takes the mirror pod there is from the store: the workers remember the last one
// they were given, and one that is gone must come back (MC5).
func (m wantedMirrors) Want(static *v1.Pod) {
	m.e.mirrors.Want(static, m.e.loop.Store().MirrorOf(static))
}

func (m wantedMirrors) Forget(uid types.UID) { m.e.mirrors.Forget(uid) }

// orphanedMirrors shows housekeeping the mirror pods of static pods that are gone
// (MC7, PM4).
type orphanedMirrors struct{ e *parts }

func (m orphanedMirrors) OrphanedMirrors() []types.NamespacedName {
	var out []types.NamespacedName
	for _, pod := range m.e.loop.Store().OrphanedMirrors() {
		out = append(out, types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name})
	}
	return out
}

func (m orphanedMirrors) StaticTerminating(name types.NamespacedName) bool {
	return m.e.workers.IsPodForMirrorPodTerminatingByFullName(podinfo.FullName(name.Namespace, name.Name))
}

func (m orphanedMirrors) DeleteMirror(name types.NamespacedName) { m.e.mirrors.Orphaned(name) }

// observed tells the status manager what an API has of a pod (spec/status.md 8.1).
func (e *parts) observed(pod *v1.Pod) {
	if podinfo.Mirror(pod) || !podinfo.Static(pod) {
		e.status.ObservePod(pod)
	}
}

// rejected publishes the status of a refused pod (AD3).
func (e *parts) rejected(pod *v1.Pod, v admission.Verdict) {
	in := status.Input{Pod: pod, NodeIPs: e.config.Node.IPs, Now: e.config.Clock.Now()}
	if old, ok := e.status.Get(pod.UID); ok {
		in.Old = &old
	}
	if err := e.status.SetPodStatus(pod, status.Rejected(in, v.Reason, v.StatusMessage())); err != nil {
		e.config.Observe.Logger.Error(err, "the refusal of a pod cannot be told", "uid", pod.UID)
	}
}

// contents are what pods leave behind, for the housekeeper.
type contents struct{ *pods.Manager }

var _ cleanup.Dated = contents{}

func (c contents) Changed(step cleanup.Step, uid types.UID) time.Time {
	if step == cleanup.StepLogs {
		return c.LogDirChanged(uid)
	}
	return c.PodDirChanged(uid)
}

// ends knows how containers ended.
func (e *parts) ends() recovery.Ends {
	return recovery.Ends{Cache: e.pleg, Message: e.pods.TerminationMessage}
}
