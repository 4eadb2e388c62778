package main

import (
	"iter"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/status"
)

// Limits on what is remembered for the page: a step takes at most about 400 bytes, so all of them
// take at most 14 MB; 100 pods that have started and are well take less than 1 MB.
const (
	keptLives   = 256 // pods; those that changed last are kept
	keptSteps   = 128 // of a pod, the newest
	keptLanes   = 32  // per pod; the newest are kept
	keptMessage = 200 // bytes of a text
	keptReason  = 64
)

// The states of a container on the page. A pod's states are its phases.
const (
	stepWaiting = "waiting"
	stepRunning = "running" // but not ready
	stepReady   = "ready"
	stepDone    = "done"   // ended with code 0
	stepFailed  = "failed" // ended with another code
	stepEvent   = "event"
	stepWarning = "warning"
)

// lifeStep is one step of a pod's life: a lane that enters a state, or an event.
type lifeStep struct {
	At      time.Time `json:"at"`
	Lane    string    `json:"lane,omitempty"` // a container's name, or "" for the pod
	State   string    `json:"state"`
	Reason  string    `json:"reason,omitempty"`
	Message string    `json:"message,omitempty"`
	Exit    int32     `json:"exit,omitempty"`
	Count   int       `json:"count,omitempty"` // for an event repeated in a row
}

// isEvent distinguishes events from states.
func (s *lifeStep) isEvent() bool { return s.State == stepEvent || s.State == stepWarning }

// life is what is remembered of one pod.
type life struct {
	steps   []lifeStep
	dropped int // steps dropped before the first
	now     map[string]lifeStep
	ended   map[string][2]string // per container, the last two runs whose end is a step: a status has at most two
	touched time.Time
}

// timelines remembers the newest steps of the pods. It is safe for concurrent use.
type timelines struct {
	mu   sync.Mutex
	pods map[types.UID]*life
}

func newTimelines() *timelines { return &timelines{pods: map[types.UID]*life{}} }

// follow records all changes until they end.
func (t *timelines) follow(changes iter.Seq2[status.Change, error]) {
	for change, err := range changes {
		if err == nil { // a gap is followed by the current states
			t.change(change, time.Now())
		}
	}
}

// change records what is new in a status. A pod that is gone is forgotten.
func (t *timelines) change(c status.Change, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if c.Forgotten {
		delete(t.pods, c.UID)
		return
	}
	l := t.of(c.UID, now)
	l.enter(lifeStep{At: now, State: string(c.Status.Phase), Reason: c.Status.Reason, Message: c.Status.Message})
	for n, list := range [][]v1.ContainerStatus{c.Status.InitContainerStatuses, c.Status.ContainerStatuses, c.Status.EphemeralContainerStatuses} {
		for i := range list {
			l.container(&list[i], n == 0, now)
		}
	}
}

// event records an event of a pod.
func (t *timelines) event(e *event) {
	if e.uid == "" {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	state := stepEvent
	if e.Type == v1.EventTypeWarning {
		state = stepWarning
	}
	t.of(e.uid, e.Time).add(lifeStep{At: e.Time, Lane: laneOf(e.Part), State: state, Reason: e.Reason, Message: e.Message})
}

// steps returns a pod's steps, and how many came before them.
func (t *timelines) steps(uid types.UID) (steps []lifeStep, dropped int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	steps = []lifeStep{} // an empty list, not null
	if l := t.pods[uid]; l != nil {
		steps, dropped = append(steps, l.steps...), l.dropped
	}
	return steps, dropped
}

// of returns a pod's life; the one unchanged for the longest makes room for a new one.
func (t *timelines) of(uid types.UID, now time.Time) *life {
	l := t.pods[uid]
	if l == nil {
		if len(t.pods) >= keptLives {
			delete(t.pods, t.stalest())
		}
		l = &life{now: map[string]lifeStep{}, ended: map[string][2]string{}}
		t.pods[uid] = l
	}
	l.touched = now
	return l
}

func (t *timelines) stalest() (uid types.UID) {
	var oldest *life
	for candidate, l := range t.pods {
		if oldest == nil || l.touched.Before(oldest.touched) {
			uid, oldest = candidate, l
		}
	}
	return uid
}

// container records a container's state, and before it a run that began and ended between two statuses.
func (l *life) container(c *v1.ContainerStatus, init bool, now time.Time) {
	if _, known := l.now[c.Name]; !known && len(l.now) > keptLanes {
		return
	}
	if last := c.LastTerminationState.Terminated; last != nil {
		l.end(c.Name, last, init, now)
	}
	switch {
	case c.State.Terminated != nil:
		l.end(c.Name, c.State.Terminated, init, now)
	case c.State.Running != nil:
		step := lifeStep{At: now, Lane: c.Name, State: stepRunning}
		if before := l.now[c.Name].State; before != stepRunning && before != stepReady {
			step.At = within(c.State.Running.StartedAt.Time, now)
		}
		if c.Ready {
			step.State = stepReady
		}
		l.enter(step)
	case c.State.Waiting != nil:
		l.enter(lifeStep{At: now, Lane: c.Name, State: stepWaiting, Reason: c.State.Waiting.Reason, Message: c.State.Waiting.Message})
	}
}

// end records once that a container ran and ended.
func (l *life) end(name string, t *v1.ContainerStateTerminated, init bool, now time.Time) {
	run, told := t.ContainerID+t.FinishedAt.String(), l.ended[name]
	if run == told[0] || run == told[1] {
		return
	}
	if before := l.now[name].State; before != stepRunning && before != stepReady && !t.StartedAt.IsZero() {
		l.enter(lifeStep{At: within(t.StartedAt.Time, now), Lane: name, State: stepRunning})
	}
	step := lifeStep{At: within(t.FinishedAt.Time, now), Lane: name, State: stepDone, Reason: t.Reason, Message: t.Message, Exit: t.ExitCode}
	if failedRun(t, init) {
		step.State = stepFailed
	}
	l.enter(step)
	l.ended[name] = [2]string{run, told[0]}
}

// laneOf returns the container that an event's part names, such as spec.containers{main}.
func laneOf(part string) string {
	_, name, _ := strings.Cut(part, "{")
	return strings.TrimSuffix(name, "}")
}

// within returns the runtime's time, or now if that is missing or in the future.
func within(at, now time.Time) time.Time {
	if at.IsZero() || at.After(now) {
		return now
	}
	return at
}

// enter adds a state unless the lane is already in it. The times of a lane never decrease, although
// the runtime's clock is coarser than the agent's.
func (l *life) enter(s lifeStep) {
	before, known := l.now[s.Lane]
	if known && before.State == s.State && before.Reason == s.Reason && before.Exit == s.Exit {
		return
	}
	if s.At.Before(before.At) {
		s.At = before.At
	}
	l.now[s.Lane] = lifeStep{At: s.At, State: s.State, Reason: cut(s.Reason, keptReason), Exit: s.Exit}
	l.add(s)
}

// add adds a step and drops the oldest if there are too many.
func (l *life) add(s lifeStep) {
	s.Lane, s.Reason, s.Message = cut(s.Lane, keptReason), cut(s.Reason, keptReason), cut(s.Message, keptMessage)
	if n := len(l.steps); s.isEvent() && n > 0 {
		last := &l.steps[n-1]
		if last.State == s.State && last.Lane == s.Lane && last.Reason == s.Reason {
			last.Count, last.Message = max(last.Count, 1)+1, s.Message
			return
		}
	}
	if len(l.steps) == keptSteps {
		l.steps = slices.Delete(l.steps, 0, 1)
		l.dropped++
	}
	l.steps = append(l.steps, s)
}

// cut shortens a text to at most n bytes, as a copy that does not keep the rest in memory.
func cut(text string, n int) string {
	if len(text) <= n {
		return text
	}
	end := n - len("…")
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return string([]byte(text[:end])) + "…"
}
