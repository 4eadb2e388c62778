package podworkers

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/problem"
	"github.com/podwright/podwright/podworkers/internal/machine"
)

// Problems returns the pods that wait for too long: for a call under way, for their name, or
// for objects that others make (IN2). It costs a look at each pod's record, and memory for
// problems only.
func (w *Workers) Problems() []problem.Problem {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := w.options.Clock.Now()
	var out []problem.Problem
	w.machine.Each(func(e machine.Explanation, c *machine.Call) {
		if p, bad := w.problemOf(&e, c, now); bad {
			p.Kind, p.Severity, p.Name, p.UID = problem.Pod, problem.Listed, problem.Of(e.Namespace, e.Name, e.UID), e.UID
			out = append(out, p)
		}
	})
	w.lacking.prune(w.machine.Known)
	return out
}

// problemOf returns what one pod waits for, if that takes too long.
func (w *Workers) problemOf(e *machine.Explanation, c *machine.Call, now time.Time) (problem.Problem, bool) {
	if c != nil {
		return handle(c).problem(e.Grace, now)
	}
	if len(e.Holds) > 0 && e.Waiting != "" {
		since := w.wall(slices.MinFunc(e.Holds, func(a, b machine.Hold) int { return cmp.Compare(a.Since, b.Since) }).Since)
		return problem.Problem{Since: since, Waits: w.waitsFor(e), Advice: "look at what keeps the removal from ending: a mount, the disk, or the volume manager"},
			now.Sub(since) >= problem.RemovalLimit
	}
	since, failing := w.lacking.since(e.UID)
	switch {
	case failing && e.LastErr != nil && now.Sub(since) >= problem.SetupLimit:
		p := problem.Problem{Since: since, Waits: "an object that it refers to", Advice: "make the object, or remove the reference from the pod"}
		return p.Because(e.LastErr), true
	case e.Why == machine.WhyNameTaken || e.Why == machine.WhyNameRunning:
		since := w.wall(e.Since)
		return problem.Problem{Since: since, Waits: e.Waiting, Advice: "look at what keeps the former pod of this name from ending"},
			now.Sub(since) >= problem.StopLimit
	}
	return problem.Problem{}, false
}

// step is what a call waits for.
type step uint8

const (
	stepView step = iota
	stepRecord
	stepCall
)

// enter notes what the call waits for from now on.
func (c *call) enter(s step, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.step, c.entered = s, now
}

// problem is what the call waits for, if that takes too long. grace is the pod's in seconds.
func (c *call) problem(grace int64, now time.Time) (problem.Problem, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := problem.Problem{Since: c.entered}
	var limit time.Duration
	switch {
	case c.entered.IsZero():
		return p, false
	case c.step == stepView:
		p.Waits, p.Advice = "the container runtime to describe the pod", "look at the container runtime's log"
		limit = problem.CleanupLimit
	case c.step == stepRecord:
		p.Waits, p.Advice = "its record to be written", "look at the disk of the engine's folder"
		limit = problem.RecordLimit
	default:
		p.Waits, p.Advice = c.Phase.Method()+" to return", "look at the other problems of this pod, and at its events"
		limit = callLimit(c.Phase, grace)
	}
	return p.Because(c.cause), now.Sub(c.entered) >= limit
}

// callLimit is how long a call of the syncer may take.
func callLimit(phase machine.Phase, grace int64) time.Duration {
	switch phase {
	case machine.Setup:
		return problem.SetupLimit
	case machine.Terminated:
		return problem.CleanupLimit
	default:
		return problem.StopLimit + time.Duration(grace)*time.Second
	}
}

// lacking are the pods that wait for objects, since when.
type lacking struct {
	mu   sync.Mutex
	pods map[types.UID]time.Time
}

// note takes the result of a call. waits: it failed for lack of an object.
func (l *lacking) note(uid types.UID, waits bool, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch _, known := l.pods[uid]; {
	case !waits:
		delete(l.pods, uid)
	case !known:
		if l.pods == nil {
			l.pods = map[types.UID]time.Time{}
		}
		l.pods[uid] = now
	}
}

// prune forgets pods that are not known any more.
func (l *lacking) prune(known func(uid types.UID) bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	maps.DeleteFunc(l.pods, func(uid types.UID, _ time.Time) bool { return !known(uid) })
}

// since returns since when the pod waits, false if it does not.
func (l *lacking) since(uid types.UID) (time.Time, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	at, ok := l.pods[uid]
	return at, ok
}
