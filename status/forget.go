package status

import (
	"context"
	"fmt"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/podinfo"
)

// forgottenAge is how long a sink that does not accept the news keeps being told that a pod is forgotten.
const forgottenAge = 24 * time.Hour

// RemoveOrphanedStatuses forgets all pods that are not in known, which holds the UIDs of pods and
// mirror pods (7.10). Sinks without [PodReader] are told (FG1); other sinks get nothing new, and a
// change on its way to them gets one more try.
func (m *Manager) RemoveOrphanedStatuses(known map[types.UID]struct{}) {
	translated := known
	if m.options.Mirrors != nil {
		translated = make(map[types.UID]struct{}, len(known))
		for uid := range known {
			translated[m.translate(uid)] = struct{}{}
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	var orphans []types.UID
	for uid := range m.pods {
		if _, ok := translated[uid]; !ok {
			orphans = append(orphans, uid)
		}
	}
	slices.Sort(orphans)
	for _, uid := range orphans {
		m.forget(uid)
	}
}

// Forget drops one pod, for example before a new life of a pod with a fixed UID.
func (m *Manager) Forget(uid types.UID) {
	uid = m.translate(uid)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.forget(uid)
}

// forget drops a pod and reports its end as its last change. The lock is held.
func (m *Manager) forget(uid types.UID) {
	e := m.pods[uid]
	if e == nil {
		return
	}
	delete(m.pods, uid)
	last := *e
	last.forgotten, last.changed = m.options.Clock.Now(), m.options.Clock.Now()
	last.advance()
	last.status, last.finished, last.stale = over(e.pod, e.status), true, false
	for _, s := range m.senders {
		s.forget(e, &last)
	}
	m.history.add(last.change())
}

// Untold reports whether there is something left to report about a pod: it is not forgotten, or a
// sink does not know yet that it is.
func (m *Manager) Untold(uid types.UID) bool {
	uid = m.translate(uid)
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.pods[uid] != nil {
		return true
	}
	return slices.ContainsFunc(m.senders, func(s *sender) bool {
		d := s.pods[uid]
		return d != nil && !d.entry.forgotten.IsZero()
	})
}

// over returns the status of a pod that is gone (FG1): a static pod, which may come back under its
// UID, had no terminal phase until now.
func over(pod *v1.Pod, s *v1.PodStatus) *v1.PodStatus {
	if podinfo.Terminal(s.Phase) {
		return s
	}
	s = s.DeepCopy()
	finalStates(pod, s)
	s.Phase = v1.PodSucceeded
	if len(s.ContainerStatuses) == 0 || slices.ContainsFunc(s.ContainerStatuses, func(c v1.ContainerStatus) bool { return !succeeded(&c.State) }) {
		s.Phase = v1.PodFailed
	}
	judgeReadiness(&pod.Spec, s)
	return s
}

// forget drops what the sender knows of a pod; e is what was sent so far, last is the final update for a sink
// without [PodReader]. For other sinks, a change that is ready or in flight gets its round, but not a second one.
func (s *sender) forget(e, last *entry) {
	if s.reader == nil {
		s.enqueue(last)
		return
	}
	d := s.pods[e.uid]
	if d == nil || d.entry != e {
		return
	}
	d.forgotten = true
	switch d.state {
	case delayed:
		s.unfile(d)
		s.drop(d)
	case idle:
		s.drop(d)
	}
}

// sayGone tells a sink that a pod is forgotten. A sink that does not know the pod has nothing to delete.
func (s *sender) sayGone(ctx context.Context, j job) outcome {
	u := Update{PodRef: refOf(j.pod), Version: j.version, Status: j.status, Finished: true, Forgotten: true}
	stored, err := ask(ctx, s, u.UID, "Store", func(ctx context.Context) (StoreResult, error) { return s.sink.Store(ctx, u) })
	switch {
	case err != nil:
		return outcome{err: fmt.Errorf("tell %s that %s is forgotten: %w", s.name, u.PodRef, err)}
	case stored == Conflict || stored < Stored || stored > Recreated:
		return outcome{err: fmt.Errorf("tell %s that %s is forgotten: the sink answered %s", s.name, u.PodRef, stored)}
	}
	return outcome{result: stored.String(), target: u.UID, acked: true}
}
