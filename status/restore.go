package status

import (
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/podinfo"
)

// Journal remembers statuses across a restart of the process (spec/status.md 9).
// The manager calls it with its lock held and in order per pod: methods must be
// quick and must not call the manager back.
type Journal interface {
	// Changed is called with every accepted change. What status points to is read-only.
	Changed(pod *v1.Pod, status *v1.PodStatus, version uint64, finished bool)
	// Acknowledged tells that a sink has a version of a pod, which it knows as
	// target.
	Acknowledged(uid types.UID, sink string, target types.UID, version uint64)
	// Durable reports whether the pod's terminal phase (finished: its being
	// finished) would survive a crash now. While it does not it is not sent, for
	// Options.HoldTerminal at most; [Manager.Persisted] says that it is time.
	Durable(uid types.UID, finished bool) bool
}

// Restored is the status of a pod known from before a restart.
type Restored struct {
	// Pod is the pod as last desired, or as much as is known of it; with a UID.
	Pod *v1.Pod
	// Status, Version and Finished as [Journal.Changed] gave them.
	Status   *v1.PodStatus
	Version  uint64
	Finished bool
	// Acked is what each sink acknowledged, by name.
	Acked map[string]Acked
	// Unconfirmed: Status is one that no process has told yet, and that waits for the
	// first status of this process to confirm it.
	Unconfirmed bool
}

// Acked is what one sink has of a pod.
type Acked struct {
	// Version is the newest one it has.
	Version uint64
	// Target is the UID it has the pod under: that of the mirror pod for a static pod at
	// a sink with [PodReader].
	Target types.UID
}

// Restore takes over what is known from before a restart: lookups return it from
// now on (9.12), and versions go on from it. The end of a pod that a sink has not
// acknowledged, or may have lost with the process, is sent as soon as Run runs (9.9).
// Any other status may be up to a second older than the last one that was sent: sinks
// get it once a first status of this process confirms or replaces it, and are never
// told that a pod is back where it was. A pod that has a status already keeps that.
// [Manager.Adopt] brings it together with what the pod's source says.
func (m *Manager) Restore(r Restored) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if r.Status == nil || m.pods[r.Pod.UID] != nil {
		return
	}
	now := m.options.Clock.Now()
	e := &entry{
		uid: r.Pod.UID, pod: r.Pod, status: r.Status, version: max(1, r.Version), finished: r.Finished,
		changed: now, restored: true, stale: r.Unconfirmed || !podinfo.Terminal(r.Status.Phase) && !r.Finished,
	}
	if podinfo.Terminal(r.Status.Phase) {
		e.ended, e.endedBefore = now, true
	}
	m.pods[e.uid] = e
	m.history.add(e.change())
	for _, s := range m.senders {
		acked := r.Acked[s.name]
		if acked.Version < e.version || !s.persistent {
			s.enqueue(e)
			continue
		}
		s.pods[e.uid] = &delivery{entry: e, acked: acked.Version, target: acked.Target}
	}
}

// Adopt says that the source of a pod has named it. If the pod's status is from
// before a restart, what the API has of it is merged in (9.6). The manager keeps
// pod, which must not be modified afterwards.
func (m *Manager) Adopt(pod *v1.Pod) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if e := m.pods[pod.UID]; e != nil {
		m.adopt(e, pod)
	}
}

// adopt is Adopt with the lock held.
func (m *Manager) adopt(e *entry, pod *v1.Pod) {
	if !e.restored {
		return
	}
	e.restored, e.pod = false, pod
	unsent := false
	for _, s := range m.senders {
		d := s.pods[e.uid]
		unsent = unsent || d != nil && d.acked < e.version
	}
	merged := afterRestart(e.status, &pod.Status, unsent || e.status.ObservedGeneration >= pod.Generation)
	if podinfo.Terminal(merged.Phase) && e.ended.IsZero() {
		e.ended = m.options.Clock.Now()
	}
	if equalStatus(e.status, &merged, messageLimit(pod)) {
		return
	}
	e.status = &merged
	e.version++
	e.changed = m.options.Clock.Now()
	m.record(e)
	m.history.add(e.change())
	for _, s := range m.senders {
		s.enqueue(e)
	}
}

// confirm lets the sinks have a pod's status: it is of this process. The lock is held.
func (m *Manager) confirm(e *entry) {
	if !e.stale {
		return
	}
	e.stale = false
	for _, s := range m.senders {
		if d := s.pods[e.uid]; d != nil && d.entry == e && d.acked < e.version {
			s.push(d)
		}
	}
}

// record tells the journal of a change. The lock is held.
func (m *Manager) record(e *entry) {
	if m.options.Journal != nil {
		m.options.Journal.Changed(e.pod, e.status, e.version, e.finished)
	}
}

// Persisted says that the journal has written something of the pod, so that a
// status that was held may be sent.
func (m *Manager) Persisted(uid types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, s := range m.senders {
		if d := s.pods[uid]; d != nil && d.held {
			d.held = false
			s.push(d)
		}
	}
}

// holdFor is how much longer the end of a pod waits for the journal, be it a terminal
// phase or that it is finished; 0 or less if it need not (9.11).
func (m *Manager) holdFor(j job) time.Duration {
	journal := m.options.Journal
	switch {
	case journal == nil, !j.finished && !podinfo.Terminal(j.status.Phase), journal.Durable(j.entry.uid, j.finished):
		return 0
	case j.finished:
		return m.options.HoldTerminal - m.options.Clock.Since(j.changed)
	}
	return m.options.HoldTerminal - m.options.Clock.Since(j.ended)
}

// afterRestart is the status to go on from when a pod's source names it after a
// restart: spec/status.md 9.6 and 9.8. record is what is remembered, api what the
// source has; preferRecord says that the record has something the API does not, or
// is not older. The result shares memory with both.
func afterRestart(record, api *v1.PodStatus, preferRecord bool) v1.PodStatus {
	if empty(api) {
		return *record
	}
	recordEnded, apiEnded := podinfo.Terminal(record.Phase), podinfo.Terminal(api.Phase)
	base, other := record, api
	if !recordEnded && (apiEnded || !preferRecord) {
		base, other = api, record
	}
	out := *base
	if recordEnded && apiEnded {
		out.Phase, out.Reason, out.Message = api.Phase, api.Reason, api.Message
	}
	if api.StartTime != nil {
		out.StartTime = api.StartTime
	} else {
		out.StartTime = record.StartTime
	}
	out.InitContainerStatuses = mergeContainers(base.InitContainerStatuses, other.InitContainerStatuses)
	out.ContainerStatuses = mergeContainers(base.ContainerStatuses, other.ContainerStatuses)
	out.EphemeralContainerStatuses = mergeContainers(base.EphemeralContainerStatuses, other.EphemeralContainerStatuses)
	out.Conditions = foreignFrom(api.Conditions, toldLast(base.Conditions, api.Conditions))
	out.NominatedNodeName = api.NominatedNodeName
	out.ResourceClaimStatuses = api.ResourceClaimStatuses
	out.ExtendedResourceClaimStatus = api.ExtendedResourceClaimStatus
	out.NodeAllocatableResourceClaimStatuses = api.NodeAllocatableResourceClaimStatuses
	if declaredLost(api) {
		out.ContainerStatuses = unreadied(out.ContainerStatuses)
		out.InitContainerStatuses = unreadied(out.InitContainerStatuses)
		out.Conditions = append([]v1.PodCondition(nil), out.Conditions...)
		for i := range out.Conditions {
			if c := &out.Conditions[i]; c.Type == v1.PodReady {
				if at := conditionOf(api.Conditions, v1.PodReady); at != nil {
					*c = *at
				}
			}
		}
	}
	return out
}

// empty reports whether a source has no status of a pod: it has no other writer.
func empty(s *v1.PodStatus) bool {
	return s.Phase == "" && len(s.Conditions) == 0 && len(s.ContainerStatuses)+len(s.InitContainerStatuses) == 0 && s.StartTime == nil
}

// mergeContainers adds to the statuses of base what only other knows: containers
// it lacks, a higher restart count, and of the same run the end.
func mergeContainers(base, other []v1.ContainerStatus) []v1.ContainerStatus {
	out := append([]v1.ContainerStatus(nil), base...)
	for i := range other {
		o := &other[i]
		at := -1
		for j := range out {
			if out[j].Name == o.Name {
				at = j
			}
		}
		if at < 0 {
			out = append(out, *o)
			continue
		}
		c := &out[at]
		if c.ContainerID == o.ContainerID && c.ContainerID != "" {
			mergeEnds(c, o)
		}
		c.RestartCount = max(c.RestartCount, o.RestartCount)
	}
	return out
}

// mergeEnds adds to the status of a run what only another status of the same run knows of
// its end, and of the end of the run before: no guess stands where an end is known (9.4).
func mergeEnds(c, o *v1.ContainerStatus) {
	if o.State.Terminated != nil && c.State.Terminated == nil || knowsMore(&o.State, &c.State) {
		if c.State.Waiting != nil {
			c.LastTerminationState = o.LastTerminationState // until now it was the end of this run
		}
		c.State, c.Ready, c.Started = o.State, o.Ready, o.Started
	}
	if last := &c.LastTerminationState; last.Terminated == nil && c.State.Waiting == nil || knowsMore(&o.LastTerminationState, last) {
		*last = o.LastTerminationState
	}
}

// knowsMore reports whether a knows the end that b guesses at.
func knowsMore(a, b *v1.ContainerState) bool {
	return a.Terminated != nil && b.Terminated != nil && a.Terminated.ContainerID == b.Terminated.ContainerID &&
		a.Terminated.Reason != reasonUnknown && b.Terminated.Reason == reasonUnknown
}

// foreignFrom lists the conditions others own from api, then ours from base.
func foreignFrom(api, base []v1.PodCondition) []v1.PodCondition {
	out := make([]v1.PodCondition, 0, len(api)+len(base))
	for i := range api {
		if !ownedOrShared(api[i].Type) {
			out = append(out, api[i])
		}
	}
	for i := range base {
		if ownedOrShared(base[i].Type) {
			out = append(out, base[i])
		}
	}
	return out
}

// toldLast returns the conditions of base, and in the place of those that changed later at the API what that
// has: the process that is gone told it before the record of it was written.
func toldLast(base, api []v1.PodCondition) []v1.PodCondition {
	out := slices.Clone(base)
	for i := range out {
		if at := conditionOf(api, out[i].Type); at != nil && out[i].LastTransitionTime.Before(&at.LastTransitionTime) {
			out[i] = *at
		}
	}
	return out
}

// declaredLost reports whether the pod's Ready was set to False from outside:
// its containers are ready, and no gate says otherwise (9.8).
func declaredLost(api *v1.PodStatus) bool {
	ready, containers := conditionOf(api.Conditions, v1.PodReady), conditionOf(api.Conditions, v1.ContainersReady)
	return ready != nil && ready.Status == v1.ConditionFalse && ready.Reason != reasonGatesNotReady &&
		containers != nil && containers.Status == v1.ConditionTrue
}

// unreadied returns the statuses with no running container ready.
func unreadied(list []v1.ContainerStatus) []v1.ContainerStatus {
	out := append([]v1.ContainerStatus(nil), list...)
	for i := range out {
		out[i].Ready = out[i].Ready && out[i].State.Running == nil
	}
	return out
}
