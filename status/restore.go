package status

import (
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/podinfo"
)

// Journal remembers statuses across a restart of the process (spec/status.md 9). The manager calls
// it with its lock held, and in order for each pod: methods must be quick and must not call the
// manager back.
type Journal interface {
	// Changed is called for every accepted change, and when a status from before a restart is
	// confirmed under its new version. What status points to is read-only.
	Changed(pod *v1.Pod, status *v1.PodStatus, version uint64, finished bool)
	// Acknowledged is called when a sink has a version of a pod. target is the UID under which the
	// sink knows the pod.
	Acknowledged(uid types.UID, sink string, target types.UID, version uint64)
	// Durable reports whether the pod's terminal phase (or, with finished, the fact that it is
	// finished) would survive a crash now. Until it does, it is not sent, but for
	// Options.HoldTerminal at most; [Manager.Persisted] tells the manager to look again.
	Durable(uid types.UID, finished bool) bool
}

// Restored is the status of a pod, known from before a restart.
type Restored struct {
	// Pod is the pod as last desired, or as much of it as is known; it has a UID.
	Pod *v1.Pod
	// Status, Version and Finished are what [Journal.Changed] was given.
	Status   *v1.PodStatus
	Version  uint64
	Finished bool
	// Acked is what each sink has acknowledged, by the sink's name.
	Acked map[string]Acked
	// Unconfirmed: no process has reported Status yet; it waits for the first status of this
	// process to confirm it.
	Unconfirmed bool
}

// Acked is what one sink has of a pod.
type Acked struct {
	// Version is the newest version it has.
	Version uint64
	// Target is the UID under which it has the pod: that of the mirror pod for a static pod at a
	// sink with [PodReader].
	Target types.UID
}

// Restore takes over what is known from before a restart: from now on lookups return it (9.12), and
// versions continue from it. The end of a pod that a sink has not acknowledged, or may have lost
// with the process, is sent once Run runs (9.9). Any other status may be up to a second older than
// the last one sent: sinks get it only once a first status of this process confirms or replaces it,
// so they never see a pod go back to an older state. Then a sink that cannot be read gets it even
// if it has acknowledged it, under a version that it cannot have seen, because it may have got a
// later status that was never recorded (9.3). A pod that already has a status keeps it.
// [Manager.Adopt] merges it with what the pod's source says.
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
	recorded := e.version
	switch {
	case e.stale:
		e.version += unrecorded
	case !e.finished: // its status may have changed after its end
		e.gap = unrecorded
	}
	m.pods[e.uid] = e
	m.history.add(e.change())
	for _, s := range m.senders {
		acked := r.Acked[s.name]
		if acked.Version < recorded || !s.persistent {
			s.enqueue(e)
			continue
		}
		s.pods[e.uid] = &delivery{entry: e, acked: e.version, had: e.version, target: acked.Target}
	}
}

// unrecorded is more than the number of versions of a pod that a process can have sent before it
// was killed without recording them: the record is a second late, but later, without a bound, on a
// disk that fails.
const unrecorded = 1 << 20

// Adopt says that the source of a pod has named it. If the pod's status is from before a restart,
// the API's status is merged into it (9.6). The manager keeps pod, which must not be modified
// afterwards.
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
	e.advance()
	e.changed = m.options.Clock.Now()
	m.record(e)
	m.history.add(e.change())
	for _, s := range m.senders {
		s.enqueue(e)
	}
}

// confirm lets the sinks have a pod's status, because this process has now produced it; recorded
// says that the journal has it. A sink that can be read shows by itself whether it has a later
// status. The lock is held.
func (m *Manager) confirm(e *entry, recorded bool) {
	if !e.stale {
		return
	}
	e.stale = false
	if !recorded {
		m.record(e) // the version at least is new
	}
	for _, s := range m.senders {
		d := s.pods[e.uid]
		switch {
		case d == nil || d.entry != e:
		case s.reader == nil || d.acked < e.version:
			s.recheck(e)
		case m.options.Journal != nil:
			m.options.Journal.Acknowledged(e.uid, s.name, d.target, e.version)
		}
	}
}

// refuse lets the sinks that have nothing from before the restart have a pod's remembered status,
// because the status that this process has produced was refused: nothing newer may come. The lock
// is held.
func (m *Manager) refuse(e *entry) {
	if !e.stale || e.refused {
		return
	}
	e.refused = true
	for _, s := range m.senders {
		if d := s.pods[e.uid]; d != nil && d.entry == e {
			s.push(d) // the others still wait
		}
	}
}

// waits reports whether the sink does not get a status, because it is one of an earlier process.
func (s *sender) waits(e *entry) bool { return e.stale && (s.persistent || !e.refused) }

// record passes a change to the journal. The lock is held.
func (m *Manager) record(e *entry) {
	if m.options.Journal != nil {
		m.options.Journal.Changed(e.pod, e.status, e.version, e.finished)
	}
}

// Persisted says that the journal has written something about the pod, so a status that was held
// may be sent.
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

// holdFor returns how much longer the end of a pod (a terminal phase, or that the pod is finished)
// waits for the journal; 0 or less if it need not wait (9.11).
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

// afterRestart returns the status to continue from when a pod's source names it after a restart
// (spec/status.md 9.6, 9.8). record is what is remembered, api what the source has; preferRecord
// says that the record has something that the API lacks, or is not older. The result shares memory
// with both.
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

// empty reports whether a source has no status of a pod, which means that only the engine writes it.
func empty(s *v1.PodStatus) bool {
	return s.Phase == "" && len(s.Conditions) == 0 && len(s.ContainerStatuses)+len(s.InitContainerStatuses) == 0 && s.StartTime == nil
}

// mergeContainers adds to the statuses of base what only other knows: containers that base lacks, a
// higher restart count, and the end of the same run.
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

// mergeEnds adds to the status of a run what only another status of the same run knows about its
// end and the end of the run before: a guess never replaces a known end (9.4).
func mergeEnds(c, o *v1.ContainerStatus) {
	if o.State.Terminated != nil && c.State.Terminated == nil || knowsMore(&o.State, &c.State) {
		if c.State.Waiting != nil {
			c.LastTerminationState = o.LastTerminationState // this was the end of this run until now
		}
		c.State, c.Ready, c.Started = o.State, o.Ready, o.Started
	}
	if last := &c.LastTerminationState; last.Terminated == nil && c.State.Waiting == nil || knowsMore(&o.LastTerminationState, last) {
		*last = o.LastTerminationState
	}
	keepMessage(&c.State, &o.State)
	keepMessage(&c.LastTerminationState, &o.LastTerminationState)
}

// keepMessage gives an end the message that another status has of the same end, if it lacks the
// beginning: a record that was too long has lost it (9.11).
func keepMessage(c, o *v1.ContainerState) {
	if c.Terminated == nil || o.Terminated == nil || c.Terminated.ContainerID == "" || !strings.HasSuffix(o.Terminated.Message, c.Terminated.Message) {
		return
	}
	whole := *c.Terminated
	whole.Message = o.Terminated.Message
	if whole.ContainerID == o.Terminated.ContainerID && whole.Reason == o.Terminated.Reason && whole.ExitCode == o.Terminated.ExitCode {
		c.Terminated = &whole
	}
}

// knowsMore reports whether a has the end that b only guesses.
func knowsMore(a, b *v1.ContainerState) bool {
	return a.Terminated != nil && b.Terminated != nil && a.Terminated.ContainerID == b.Terminated.ContainerID &&
		a.Terminated.Reason != reasonUnknown && b.Terminated.Reason == reasonUnknown
}

// foreignFrom lists others' conditions from api, then ours from base.
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

// toldLast returns the conditions of base, except that a condition that changed later at the API is
// taken from there: the earlier process sent it but ended before recording it.
func toldLast(base, api []v1.PodCondition) []v1.PodCondition {
	out := slices.Clone(base)
	for i := range out {
		if at := conditionOf(api, out[i].Type); at != nil && out[i].LastTransitionTime.Before(&at.LastTransitionTime) {
			out[i] = *at
		}
	}
	return out
}

// withShown returns a status from before a restart, except that a condition is taken from the API if it shows the new status
// value, since the same second or later: times are of whole seconds, so toldLast cannot tell which of two values of one
// second came last. Whichever did, what the API shows keeps its transition time.
func withShown(old, api, fresh *v1.PodStatus) *v1.PodStatus {
	out := *old
	out.Conditions = slices.Clone(old.Conditions)
	for i := range out.Conditions {
		was := &out.Conditions[i]
		is, at := conditionOf(fresh.Conditions, was.Type), conditionOf(api.Conditions, was.Type)
		if is != nil && at != nil && is.Status == at.Status && is.Status != was.Status && !at.LastTransitionTime.Before(&was.LastTransitionTime) {
			*was = *at
		}
	}
	return &out
}

// declaredLost reports whether something else set the pod's Ready to False: its containers are
// ready, and no readiness gate explains it (9.8).
func declaredLost(api *v1.PodStatus) bool {
	ready, containers := conditionOf(api.Conditions, v1.PodReady), conditionOf(api.Conditions, v1.ContainersReady)
	return ready != nil && ready.Status == v1.ConditionFalse && ready.Reason != reasonGatesNotReady &&
		containers != nil && containers.Status == v1.ConditionTrue
}

// unreadied returns the statuses with every running container not ready.
func unreadied(list []v1.ContainerStatus) []v1.ContainerStatus {
	out := append([]v1.ContainerStatus(nil), list...)
	for i := range out {
		out[i].Ready = out[i].Ready && out[i].State.Running == nil
	}
	return out
}
