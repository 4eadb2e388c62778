package status

import (
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/podinfo"
	"github.com/podwright/podwright/runtime"
)

// SetPodStatus offers a new status of a pod. If it differs from the cached status, it becomes the
// next version and is sent to the sinks; if not, nothing happens. A pod that is being deleted gets
// a new version in any case, so that its deletion is checked again (spec/status.md 7.2).
//
// An error means that the status was dropped because a container cannot have got there, and that
// the cache is unchanged. The manager keeps pod, which must not be modified afterwards, and copies
// status.
func (m *Manager) SetPodStatus(pod *v1.Pod, status v1.PodStatus) error {
	return m.update(pod, &status, pod.DeletionTimestamp != nil, false)
}

// SetContainerReadiness sets whether a container is ready and what follows for the pod (7.6). It
// does nothing if the pod is unknown, if no app or init container has exactly this ID, or if
// nothing changes: a late result of an old container does not apply to its successor. A container
// that is not running never becomes ready.
func (m *Manager) SetContainerReadiness(uid types.UID, id runtime.ContainerID, ready bool) {
	m.setContainer(uid, id, func(pod *v1.Pod, s *v1.PodStatus, cs *v1.ContainerStatus) bool {
		if cs.Ready == ready || ready && cs.State.Running == nil {
			return false
		}
		cs.Ready = ready
		judgeReadiness(&pod.Spec, s)
		return true
	})
}

// SetContainerStartup sets whether a container's startup probe has succeeded
// (7.7), under the conditions of [Manager.SetContainerReadiness]. Initialized
// follows at the next sync.
func (m *Manager) SetContainerStartup(uid types.UID, id runtime.ContainerID, started bool) {
	m.setContainer(uid, id, func(_ *v1.Pod, _ *v1.PodStatus, cs *v1.ContainerStatus) bool {
		if cs.Started != nil && *cs.Started == started || started && cs.State.Running == nil {
			return false
		}
		cs.Started = &started
		return true
	})
}

// SetSandboxReady says that a pod has a new sandbox, so that its images and hooks do not delay the condition
// PodReadyToStartContainers (5.4). The next status of a sync takes it back if the sandbox is gone by then. Sinks with
// [PodReader] get it with the next change, or after 10 s. It does nothing if the pod is unknown or has ended, or if no status
// had that condition yet.
func (m *Manager) SetSandboxReady(uid types.UID) {
	uid = m.translate(uid)
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.pods[uid]
	if e == nil || e.finished || podinfo.Terminal(e.status.Phase) {
		return
	}
	s := *e.status
	s.Conditions = slices.Clone(s.Conditions)
	c := conditionOf(s.Conditions, v1.PodReadyToStartContainers)
	if c == nil || c.Status == v1.ConditionTrue {
		return
	}
	c.Status, c.Reason, c.Message = v1.ConditionTrue, "", ""
	calm := m.options.Clock.Now().Add(sandboxPatience)
	_ = m.updateLocked(e.pod, e, e.status, &s, false, false, calm, new(remarks)) // as in setContainer
}

// ObservePod tells the manager what the API has of a pod or mirror pod now, as when a source
// delivers it. If the API's status is not what the engine sent, it is sent again to the sinks that
// read before they write; a mirror pod that appears gets the status that waits for it (8.1, 8.2).
// The manager keeps pod, which must not be modified afterwards.
func (m *Manager) ObservePod(pod *v1.Pod) {
	uid := m.translate(pod.UID)
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.pods[uid]
	if e == nil {
		return
	}
	if uid == pod.UID {
		m.adopt(e, pod)
		e.pod = pod
	}
	deletable := e.finished && pod.DeletionTimestamp != nil
	if deletable || !equalStatus(e.status, &pod.Status, messageLimit(e.pod)) {
		for _, s := range m.senders {
			if s.reader != nil || deletable && s.deleter != nil {
				s.recheck(e)
			}
		}
	}
}

// translate maps a mirror UID to the UID of its static pod.
func (m *Manager) translate(uid types.UID) types.UID {
	if m.options.Mirrors == nil {
		return uid
	}
	return m.options.Mirrors.TranslateUID(uid)
}

// setContainer applies a change to the container with this ID, if there is one. The status stays one of the
// generation of which it was made: what happens to a container says nothing about a newer spec (5.8).
func (m *Manager) setContainer(uid types.UID, id runtime.ContainerID, change func(*v1.Pod, *v1.PodStatus, *v1.ContainerStatus) bool) {
	uid = m.translate(uid)
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.pods[uid]
	if e == nil {
		return
	}
	s := *e.status
	s.Conditions = slices.Clone(s.Conditions)
	s.ContainerStatuses = slices.Clone(s.ContainerStatuses)
	s.InitContainerStatuses = slices.Clone(s.InitContainerStatuses)
	for _, list := range [...][]v1.ContainerStatus{s.ContainerStatuses, s.InitContainerStatuses} {
		for i := range list {
			if !isID(list[i].ContainerID, id) {
				continue
			}
			if change(e.pod, &s, &list[i]) {
				// There is nothing to refuse or remark on: containers, phase and end are unchanged.
				_ = m.updateLocked(e.pod, e, e.status, &s, false, e.finished, time.Time{}, new(remarks))
			}
			return
		}
	}
}

// update runs the steps of 7.3 with a status that it may change. It logs once the lock is released.
func (m *Manager) update(pod *v1.Pod, status *v1.PodStatus, force, finished bool) error {
	status.ObservedGeneration = max(status.ObservedGeneration, pod.Generation)
	m.mu.Lock()
	e := m.pods[pod.UID]
	var old *v1.PodStatus
	if e == nil {
		m.mu.Unlock()
		old = m.before(pod)
		m.mu.Lock()
		e = m.pods[pod.UID] // another call may have added it
	}
	var recorded uint64
	if e != nil {
		recorded = e.version
		m.adopt(e, pod)
		old = e.status
	}
	var remarks remarks
	err := m.updateLocked(pod, e, old, status, force, finished, time.Time{}, &remarks)
	switch {
	case e == nil:
	case err == nil:
		m.confirm(e, e.version != recorded)
	default: // a refused status confirms nothing
		m.refuse(e)
	}
	m.mu.Unlock()

	for _, text := range remarks {
		m.options.Logger.Info(text, "uid", pod.UID, "namespace", pod.Namespace, "name", pod.Name)
	}
	if err != nil {
		m.options.Logger.Error(err, "status dropped", "uid", pod.UID, "namespace", pod.Namespace, "name", pod.Name)
	}
	return err
}

// measureStart records how long a pod took until it ran for the first time.
func (m *Manager) measureStart(e *entry, phase v1.PodPhase, now time.Time) {
	if phase == v1.PodPending || e.starting.IsZero() {
		return
	}
	if phase == v1.PodRunning {
		select {
		case m.metrics.started <- now.Sub(e.starting):
		default: // Run is not running
		}
	}
	e.starting = time.Time{}
}

// remarks are corrections made to an update, to be logged.
type remarks []string

// before returns the status of a pod that is not in the cache.
func (m *Manager) before(pod *v1.Pod) *v1.PodStatus {
	if m.options.Mirrors != nil && podinfo.Static(pod) {
		if mirror := m.options.Mirrors.MirrorOf(pod); mirror != nil {
			return &mirror.Status
		}
	}
	return &pod.Status
}

// updateLocked is update with the lock held. e is nil for a new pod. Until calm, APIs are told only if there is more to tell.
func (m *Manager) updateLocked(pod *v1.Pod, e *entry, old, status *v1.PodStatus, force, finished bool, calm time.Time, remarks *remarks) error {
	if e != nil {
		if e.finished && !finished {
			switch {
			case !podinfo.Static(pod):
				*remarks = append(*remarks, "a finished pod got a status of an unfinished one; it stays finished")
				finished = true
			case podinfo.Terminal(e.status.Phase) && podinfo.Terminal(status.Phase): // told again after a restart, no new life
				finished = true
			}
		}
		e.pod = pod
		if !force && finished == e.finished && m.unchanged(pod, e, status) {
			m.metrics.unchanged.Add(1)
			return nil
		}
	}
	if err := checkTransitions(pod, old, status); err != nil {
		m.metrics.illegal.Add(1)
		return err
	}
	now := m.options.Clock.Now()
	if podinfo.Terminal(old.Phase) && status.Phase != old.Phase {
		*remarks = append(*remarks, "status would leave a terminal phase; the phase stays")
	}
	if e != nil && e.stale {
		old = withShown(old, &pod.Status, status)
	}
	fresh := completed(pod, old, status, now)
	same := e != nil && finished == e.finished && equalStatus(e.status, fresh, messageLimit(pod))
	if same && !force {
		m.metrics.unchanged.Add(1)
		return nil
	}
	if e == nil {
		e = &entry{uid: pod.UID, pod: pod}
		m.pods[pod.UID] = e
		if old.StartTime == nil && fresh.Phase == v1.PodPending {
			e.starting = now
		}
	}
	m.measureStart(e, fresh.Phase, now)
	if !same {
		e.status = fresh
	}
	e.finished = finished
	e.advance()
	e.changed, e.calm = now, calm
	if podinfo.Terminal(e.status.Phase) && e.ended.IsZero() {
		e.ended = now
	}
	m.record(e)
	m.metrics.accepted.Add(1)
	if !same {
		m.history.add(e.change())
	}
	for _, s := range m.senders {
		s.enqueue(e)
	}
	return nil
}

// unchanged is the quick check that ends nearly every update: it compares before anything is
// copied.
func (m *Manager) unchanged(pod *v1.Pod, e *entry, status *v1.PodStatus) bool {
	probe := *status
	probe.StartTime = e.status.StartTime
	probe.ObservedGeneration = max(status.ObservedGeneration, e.status.ObservedGeneration)
	return equalStatus(e.status, &probe, messageLimit(pod))
}

// completed copies a status and makes it storable: values that must not change back are taken from
// the old status, and the rest is brought into normal form.
func completed(pod *v1.Pod, old, status *v1.PodStatus, now time.Time) *v1.PodStatus {
	s := status.DeepCopy()
	at := metav1.Time{Time: wholeSeconds(now)}
	if podinfo.Terminal(old.Phase) && s.Phase != old.Phase {
		s.Phase, s.Reason, s.Message = old.Phase, old.Reason, old.Message
	}
	for i := range s.Conditions {
		c := &s.Conditions[i]
		if !ownedOrShared(c.Type) || isResize(c.Type) {
			continue
		}
		otherwise := c.LastTransitionTime
		if otherwise.IsZero() {
			otherwise = at
		}
		before := conditionOf(old.Conditions, c.Type)
		if before != nil && before.Status != c.Status && !before.LastTransitionTime.Before(&otherwise) {
			otherwise = at // the given time is that of the previous status value
		}
		c.LastTransitionTime = transitionTime(c, before, otherwise)
	}
	switch {
	case old.StartTime != nil:
		s.StartTime = old.StartTime.DeepCopy()
	case s.StartTime == nil:
		s.StartTime = &at
	}
	s.ObservedGeneration = max(s.ObservedGeneration, old.ObservedGeneration)
	normalize(pod, s)
	return s
}

// judgeReadiness recomputes ContainersReady and Ready from the containers. Their transition times
// are set when the status is stored.
func judgeReadiness(spec *v1.PodSpec, s *v1.PodStatus) {
	containers := containersReady(spec, s)
	ready := podReady(spec, containers, s.Conditions)
	for _, fresh := range [...]v1.PodCondition{ready, containers} {
		if c := conditionOf(s.Conditions, fresh.Type); c != nil {
			c.Status, c.Reason, c.Message = fresh.Status, fresh.Reason, fresh.Message
		} else {
			fresh.ObservedGeneration = s.ObservedGeneration
			s.Conditions = append(s.Conditions, fresh)
		}
	}
}
