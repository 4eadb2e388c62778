package podwright

import (
	"context"
	"errors"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/podinfo"
	"github.com/podwright/podwright/internal/recovery"
	"github.com/podwright/podwright/podworkers"
	"github.com/podwright/podwright/runtime"
	"github.com/podwright/podwright/status"
	"github.com/podwright/podwright/syncloop"
	"github.com/podwright/podwright/syncloop/admission"
)

// The joints between the parts: each adapter gives one part's object the interface
// that another part declares.

// housekeeping makes a function the loop's housekeeper.
type housekeeping func(ctx context.Context, fence func(func())) (time.Duration, error)

func (h housekeeping) Housekeep(ctx context.Context, fence func(func())) (time.Duration, error) {
	return h(ctx, fence)
}

// housekeep calls the housekeeper, which is built after the loop.
func (p *parts) housekeep(ctx context.Context, fence func(func())) (time.Duration, error) {
	if p.recovery.Gate() != nil {
		return 0, nil // a pass could take remembered pods for leftovers (CK9)
	}
	return p.housekeeper.Housekeep(ctx, fence)
}

// hold is [podworkers.Workers.Hold], for what is built before the workers.
func (p *parts) hold(ctx context.Context, uid types.UID, reason string) (context.Context, func(), bool) {
	return p.workers.Hold(ctx, uid, reason)
}

// awaitRemovals waits for the removals that passes have left running.
func (p *parts) awaitRemovals(ctx context.Context) error {
	<-ctx.Done()
	p.housekeeper.Wait()
	return nil
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
// reading it is not known what runs already, such as another UID of a pod's name
// (spec/podworkers.md N6).
func (p *parts) usable() error {
	if err := p.health.Runtime(); err != nil {
		return err
	}
	return p.recovery.Gate()
}

// healthChanged reacts to a runtime that came back or went away.
func (p *parts) healthChanged() {
	p.hooks.Changed()
	p.gateChanged()
	if p.health.Runtime() == nil {
		p.tidy()
	}
}

// gateChanged tells all that wait for the gate that it may have opened.
func (p *parts) gateChanged() {
	p.loop.GateChanged()
	p.syncer.GateChanged()
	p.returns.Changed()
}

// removable reports whether the leftovers of a stopped pod are no longer needed: its worker or its API
// says so, or no source wants the pod or may want it (spec/runtime.md 19.7).
func (p *parts) removable(uid types.UID) bool {
	return p.workers.ShouldPodContentBeRemoved(uid) || p.dead.ContentGoes(uid) || p.residents.Unwanted(uid)
}

// ended triggers a housekeeping pass that looks for what a pod has left behind.
func (p *parts) ended(uid types.UID) {
	p.resizer.Changed()
	p.housekeeper.Finished(uid)
	if pod, desired := p.loop.Store().Get(uid); desired {
		p.returns.Note(pod)
		if syncloop.IsEvicted(&pod.Status) {
			p.dead.Evicted(pod)
		}
	}
	p.returns.Changed()
	p.tidy()
}

// noticed reports to housekeeping a pod that no source or worker knows and that has nothing
// running, such as a sandbox whose creation was interrupted. Otherwise its leftovers would wait
// for the next garbage collection. Passes find running pods by themselves.
func (p *parts) noticed(uid types.UID) {
	if _, desired := p.loop.Store().Get(uid); desired {
		return
	}
	if p.workers.IsPodKnown(uid) {
		return
	}
	if view, err := p.pleg.Get(uid); err == nil && len(view.Sandboxes)+len(view.Containers) > 0 && !view.Running() {
		p.housekeeper.Found(uid)
		p.tidy()
	}
}

// tidy asks for a housekeeping pass soon.
func (p *parts) tidy() { p.loop.TriggerHousekeeping() }

// recordWritten wakes what waited for a pod's record: its status, and its
// worker, whose own back-off may be minutes by now.
func (p *parts) recordWritten(uid types.UID, waiting *v1.Pod) {
	p.status.Persisted(uid)
	p.returns.Written(uid)
	if waiting != nil {
		p.workers.UpdatePod(podworkers.UpdateOptions{Type: podworkers.Sync, Pod: waiting, StartTime: p.config.Clock.Now()})
	}
}

// sources wraps the configured sources, so that remembered pods stand in for sources
// that do not answer.
func (p *parts) sources() ([]syncloop.Source, error) {
	out := make([]syncloop.Source, len(p.config.Sources))
	problems := make([]error, len(out))
	for i, s := range p.config.Sources {
		out[i], problems[i] = p.remembering(s)
	}
	return out, errors.Join(problems...)
}

func (p *parts) remembering(s syncloop.Source) (syncloop.Source, error) {
	p.objects.Allow(s)
	s, err := p.uids.Wrap(s)
	return p.journal.Remembering(s, !p.config.Storage.ForgetDesired, func() bool { return p.loop.Ready() }), err
}

// observed tells the status manager what the API has for a pod (spec/status.md 8.1).
func (p *parts) observed(pod *v1.Pod) {
	if podinfo.Mirror(pod) || !podinfo.Static(pod) {
		p.status.ObservePod(pod)
		return
	}
	p.returns.Note(pod)
	if mirror := p.loop.Store().MirrorOf(pod); mirror != nil { // the mirror came first, as after a restart
		p.status.ObservePod(mirror)
	}
}

// rejected publishes the status of a refused pod (AD3).
func (p *parts) rejected(pod *v1.Pod, v admission.Verdict) {
	in := status.Input{Pod: pod, NodeIPs: p.self.Addresses(), Now: p.config.Clock.Now()}
	if old, ok := p.status.Get(pod.UID); ok {
		in.Old = &old
	}
	if err := p.status.SetPodStatus(pod, status.Rejected(in, v.Reason, v.StatusMessage())); err != nil {
		p.config.Observe.Logger.Error(err, "the refusal of a pod cannot be told", "uid", pod.UID)
	}
	p.returns.Note(pod)
	if p.journal.Began(pod.UID) { // its source came by a pod that another one was allowed to run (PS6)
		p.dispatch(syncloop.Work{Kind: syncloop.WorkKill, Pod: pod, StartTime: in.Now})
	}
}

// endOf returns how a container ended.
func (p *parts) endOf(ctx context.Context, uid types.UID, id runtime.ContainerID) (*runtime.ContainerStatus, error) {
	return p.ends().Of(ctx, uid, id)
}

// couldRun reports whether a container of the pod may run.
func (p *parts) couldRun(uid types.UID) bool {
	return p.ends().CouldRun(uid, p.workers.CouldHaveRunningContainers, p.journal)
}

// ends knows how containers ended.
func (p *parts) ends() recovery.Ends {
	return recovery.Ends{Cache: p.pleg, Message: p.pods.TerminationMessage}
}
