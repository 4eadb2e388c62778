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

// forgottenAge is how long a sink that does not take it is told that a pod is forgotten.
const forgottenAge = 24 * time.Hour

// RemoveOrphanedStatuses forgets all pods but the known ones; known holds the
// UIDs of pods and mirror pods (7.10). Sinks that only listen are told
// (FG1); at others nothing new is sent, and a change that is on its way gets one more try.
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

// Forget drops one pod, as before a new life of a pod whose UID is fixed.
func (m *Manager) Forget(uid types.UID) {
	uid = m.translate(uid)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.forget(uid)
}

// forget drops a pod. Its end is told as the last of its changes. The lock is held.
func (m *Manager) forget(uid types.UID) {
	e := m.pods[uid]
	if e == nil {
		return
	}
	delete(m.pods, uid)
	last := *e
	last.forgotten, last.changed = m.options.Clock.Now(), m.options.Clock.Now()
	last.version++
	last.status, last.finished, last.stale = over(e.pod, e.status), true, false
	for _, s := range m.senders {
		s.forget(e, &last)
	}
	m.history.add(last.change())
}

// Untold reports whether there is something left to tell of a pod: it is not forgotten, or a sink has
// not heard that it is.
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

// over is the status of a pod that is gone (FG1): a static pod, which may come back under its UID, has no
// terminal phase before.
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

// forget drops what is known of a pod; e is what was told so far, last is what a sink that only listens
// gets as the last of it. At others a change that is ready or in flight gets its round, but no second one.
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

// sayGone tells a sink that a pod is forgotten. A sink that does not know it has nothing to delete.
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
