package podworkers

import (
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/problem"
	"github.com/podwright/podwright/internal/timing"
	"github.com/podwright/podwright/podworkers/internal/machine"
)

// Problems returns the pods that have waited too long: for a call under way, for their name, or
// for objects that others create (IN2). It looks at each pod's record, and allocates memory
// only for problems.
func (w *Workers) Problems() []problem.Problem {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := w.read()
	var out []problem.Problem
	w.machine.Each(func(e machine.Explanation, c *machine.Call) {
		if p, bad := w.problemOf(&e, c, now); bad {
			p.Kind, p.Severity, p.Name, p.UID = problem.Pod, problem.Listed, problem.Of(e.Namespace, e.Name, e.UID), e.UID
			out = append(out, p)
		}
	})
	w.lacking.prune(w.machine.Known)
	w.unseen.prune(w.machine.Known)
	return out
}

// problemOf returns what one pod waits for, if it has waited too long.
func (w *Workers) problemOf(e *machine.Explanation, c *machine.Call, now reading) (problem.Problem, bool) {
	if c != nil {
		if p, bad := w.problemOfCall(handle(c), e.StopGrace, now); bad {
			return p, true
		}
	}
	if p, bad := w.failingEnd(e, now); bad || c != nil {
		return p, bad
	}
	if len(e.Holds) > 0 {
		since := now.at(e.Since) // the removal may be older, but no pod waited for it before
		return problem.Problem{Since: since, Waits: waitsFor(e, now), Advice: "look at what keeps the removal from ending: a mount, the disk, or the volume manager"},
			now.wall.Sub(since) >= problem.RemovalLimit
	}
	lacks, failing := w.lacking.since(e.UID)
	switch {
	case e.State.Finished() && e.Restart:
		since := now.at(e.WantedSince)
		return problem.Problem{Since: since, Waits: e.Waiting, Advice: "look at the other problems: housekeeping waits for a source's first word, or for the gate to open"},
			now.wall.Sub(since) >= problem.PassLimit
	case failing && e.LastErr != nil && now.elapsed-lacks >= problem.SetupLimit:
		p := problem.Problem{Since: now.at(lacks), Waits: "an object or a path that it refers to", Advice: "look at the cause: make what is missing, or mend the reference in the pod"}
		return p.Because(e.LastErr), true
	case e.Why == machine.WhyNameTaken || e.Why == machine.WhyNameRunning:
		since := now.at(e.Since)
		return problem.Problem{Since: since, Waits: e.Waiting, Advice: "look at what keeps the former pod of this name from ending"},
			now.wall.Sub(since) >= problem.StopLimit+timing.Seconds(e.FormerGrace)
	}
	return problem.Problem{}, false
}

// failingEnd returns what the end of a pod waits for, if attempts that each fail quickly have
// together taken too long.
func (w *Workers) failingEnd(e *machine.Explanation, now reading) (problem.Problem, bool) {
	if e.Attempts == 0 || e.LastErr == nil {
		return problem.Problem{}, false
	}
	p := problem.Problem{Since: now.at(e.Since), Advice: "look at the cause, and at the container runtime's log; it is tried again every few seconds"}
	var limit time.Duration
	switch {
	case e.State.Terminating():
		p.Waits, limit = "its containers to stop", callLimit(machine.Terminating, e.StopGrace)
	case e.State.Terminated():
		p.Waits, limit = "what it holds to be released", callLimit(machine.Terminated, 0)
	default:
		return problem.Problem{}, false
	}
	return p.Because(e.LastErr), now.wall.Sub(p.Since) >= limit
}

// step is what a call waits for.
type step = uint32

const (
	stepCall step = iota
	stepView
	stepRecord
)

// enter records what the call waits for, and since when.
func (c *call) enter(s step, now time.Duration) {
	c.step.Store(s)
	c.entered.Store(int64(now))
}

// enter records what the call waits for from now on.
func (w *Workers) enter(c *call, s step) {
	w.mu.Lock()
	defer w.mu.Unlock()
	c.enter(s, w.now())
}

// problemOfCall returns what the call waits for, if it has waited too long. grace is the pod's
// grace period in seconds.
func (w *Workers) problemOfCall(c *call, grace int64, now reading) (problem.Problem, bool) {
	p := problem.Problem{Since: now.at(time.Duration(c.entered.Load()))}
	var limit time.Duration
	switch c.step.Load() {
	case stepView:
		p.Waits, p.Advice = "the container runtime to describe the pod", "look at the container runtime's log"
		limit = problem.CleanupLimit
	case stepRecord:
		p.Waits, p.Advice = "its record to be written", "look at the disk of the engine's folder"
		limit = problem.RecordLimit
	default:
		p.Waits, p.Advice = c.Phase.Method()+" to return", "look at the other problems of this pod, and at its events"
		limit = callLimit(c.Phase, grace)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return p.Because(c.cause), now.wall.Sub(p.Since) >= limit
}

// callLimit returns how long a call of the syncer may take.
func callLimit(phase machine.Phase, grace int64) time.Duration {
	switch phase {
	case machine.Setup:
		return problem.SetupLimit
	case machine.Terminated:
		return problem.CleanupLimit
	default:
		return problem.StopLimit + timing.Seconds(grace)
	}
}

// lacking are the pods that wait for objects, and since when.
type lacking struct {
	some atomic.Bool // pods is not empty; most calls have nothing to record
	mu   sync.Mutex
	pods map[types.UID]time.Duration
}

// note records the result of a call. waits: it failed because an object is missing.
func (l *lacking) note(uid types.UID, waits bool, sinceOrigin func() time.Duration) {
	if !waits && !l.some.Load() {
		return
	}
	now := sinceOrigin() // before the lock: Problems holds that of the workers first
	l.mu.Lock()
	defer l.mu.Unlock()
	switch _, known := l.pods[uid]; {
	case !waits:
		delete(l.pods, uid)
	case !known:
		if l.pods == nil {
			l.pods = map[types.UID]time.Duration{}
		}
		l.pods[uid] = now
	}
	l.some.Store(len(l.pods) > 0)
}

// prune forgets pods that are no longer known.
func (l *lacking) prune(known func(uid types.UID) bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	maps.DeleteFunc(l.pods, func(uid types.UID, _ time.Duration) bool { return !known(uid) })
	l.some.Store(len(l.pods) > 0)
}

// since returns since when the pod waits, false if it does not.
func (l *lacking) since(uid types.UID) (time.Duration, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	at, ok := l.pods[uid]
	return at, ok
}
