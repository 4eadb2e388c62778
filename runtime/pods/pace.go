package pods

import (
	"fmt"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/backoff"
	"github.com/podwright/podwright/runtime"
	"github.com/podwright/podwright/runtime/pods/internal/crashloop"
)

// Every attempt changes something at the runtime, and each change triggers the next
// sync at once. Starts that fail and sandboxes that die right away therefore have
// pauses of their own: the second attempt comes at once, the next ones after 1 s, 2 s,
// 4 s and so on.
const (
	paceInitial = time.Second
	paceMax     = 5 * time.Minute
	// paceCalm is how long the attempts must stop for the pauses to start again.
	paceCalm = time.Minute
)

// attempt is how often something was tried in a row.
type attempt struct {
	// definition is what was tried, as in [crashKey]: another one has pauses of its own.
	definition string
	count      int
	last       time.Time
}

// next is when the attempt may be repeated.
func (a attempt) next() time.Time { return a.last.Add(a.pause()) }

func (a attempt) pause() time.Duration {
	return backoff.Delay(paceInitial, paceMax, a.count-1)
}

// again counts one more attempt.
func (a attempt) again(now time.Time) attempt {
	if now.Sub(a.next()) > paceCalm {
		a.count = 0
	}
	a.count, a.last = a.count+1, now
	return a
}

// attempts are a pod's failed container starts, by name, and its sandboxes.
type attempts struct {
	starts    map[string]attempt
	sandboxes attempt
	// names says since when the runtime has refused a name because it is reserved for
	// something that the runtime does not list.
	names map[numbered]time.Time
}

// numbered is what a reserved name is made of: the container, "" for the sandbox, and a number.
type numbered struct {
	container string
	number    uint32
}

// nameWait is how long to wait for such a name. A create of an earlier agent may still be
// under way, and what it makes takes the name (RT8); or the runtime has lost it for good.
const nameWait = 10 * time.Second

// awaitName returns an error while the holder of the name may still be under construction;
// nil means that it is time for the next number.
func (m *Manager) awaitName(uid types.UID, container string, number uint32, cause error) error {
	now := m.options.Clock.Now()
	m.mu.Lock()
	defer m.mu.Unlock()
	a := m.attemptsOf(uid)
	name := numbered{container, number}
	since, known := a.names[name]
	if !known {
		since = now
		a.names[name] = since
	}
	end := since.Add(nameWait)
	if !now.Before(end) {
		return nil
	}
	return fmt.Errorf("the runtime has reserved the name since %s, for something that it is making or has lost; its outcome is awaited until %s: %w",
		since.Format(time.TimeOnly), end.Format(time.TimeOnly), cause)
}

// attemptsOf returns the attempts of a pod. m.mu is held.
func (m *Manager) attemptsOf(uid types.UID) *attempts {
	a := m.attempts[uid]
	if a == nil {
		a = &attempts{starts: map[string]attempt{}, names: map[numbered]time.Time{}}
		m.attempts[uid] = a
	}
	return a
}

// latest returns the attempts at what the key names.
func (a *attempts) latest(key crashloop.Key) attempt {
	if key.Container == "" {
		return a.sandboxes
	}
	if last := a.starts[key.Container]; last.definition == key.Definition {
		return last
	}
	return attempt{definition: key.Definition}
}

// tried counts the start of a container, or without a name that of a sandbox.
func (m *Manager) tried(key crashloop.Key) {
	now := m.options.Clock.Now()
	m.mu.Lock()
	defer m.mu.Unlock()
	a := m.attemptsOf(key.Pod)
	if next := a.latest(key).again(now); key.Container == "" {
		a.sandboxes = next
	} else {
		a.starts[key.Container] = next
	}
}

// paced returns until when the next attempt must wait, zero if it need not wait.
func (m *Manager) paced(key crashloop.Key) time.Time {
	now := m.options.Clock.Now()
	m.mu.Lock()
	defer m.mu.Unlock()
	a := m.attempts[key.Pod]
	if a == nil {
		return time.Time{}
	}
	if at := a.latest(key).next(); now.Before(at) {
		return at
	}
	return time.Time{}
}

// checkPace holds back a container whose starts fail at the runtime, and keeps its reason.
func (st *starting) checkPace() *startFailure {
	at := st.m.paced(crashKey(st.pod, st.spec))
	if at.IsZero() {
		return nil
	}
	w := st.m.WaitingReasons(st.pod.UID)[st.spec.Name]
	return &startFailure{name: st.spec.Name, reason: w.Reason, message: w.Message, retryAt: at, held: true}
}

// notePace remembers how the start of a container ended.
func (m *Manager) notePace(pod *v1.Pod, c *v1.Container, f *startFailure) {
	switch {
	case f == nil:
		m.mu.Lock()
		if a := m.attempts[pod.UID]; a != nil {
			delete(a.starts, c.Name)
		}
		m.crashes.Started(pod.UID, c.Name)
		m.mu.Unlock()
	case !f.held && (f.reason == reasonRunContainerError || f.reason == reasonCreateContainerError):
		m.tried(crashKey(pod, c))
	}
}

// checkSandboxPace reports whether the pod may have a new sandbox now. Sandboxes that do
// not last are delayed.
func (s *podSync) checkSandboxPace() bool {
	at := s.m.paced(crashloop.Key{Pod: s.pod.UID})
	if at.IsZero() {
		return true
	}
	s.held = true
	s.fail(stepCreateSandbox, s.pod.Name, reasonCreatePodSandboxError,
		fmt.Errorf("the latest sandbox did not last; the next one is made at %s", at.Format(time.TimeOnly)))
	s.retryAt(at)
	return false
}

// anythingRuns reports whether anything is left to stop.
func (s *podSync) anythingRuns() bool {
	return s.status != nil && (slices.ContainsFunc(s.status.Containers, func(c *runtime.ContainerStatus) bool {
		return c.State == runtime.Running || c.State == runtime.Unknown
	}) || slices.ContainsFunc(s.status.Sandboxes, func(b *runtime.SandboxStatus) bool { return b.State == runtime.Running }))
}
