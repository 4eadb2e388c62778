package decide

import (
	"math"
	"time"

	"github.com/podwright/podwright/internal/proberesult"
	"github.com/podwright/podwright/runtime"
)

// Kind is a kind of probe.
type Kind = proberesult.Kind

// Kinds.
const (
	Startup   = proberesult.Startup
	Liveness  = proberesult.Liveness
	Readiness = proberesult.Readiness
	// Kinds is the number of kinds.
	Kinds = proberesult.Kinds
)

// Result is what probing knows of a container.
type Result = proberesult.Result

// Results.
const (
	Unknown = proberesult.Unknown
	Success = proberesult.Success
	Failure = proberesult.Failure
)

// Initial returns the result of a container that nothing is known about (section 1).
func Initial(k Kind) Result {
	switch k {
	case Liveness:
		return Success
	case Readiness:
		return Failure
	default:
		return Unknown
	}
}

// State is what a worker remembers of its container.
type State struct {
	// ID is the container's ID; zero before a container was seen.
	ID runtime.ContainerID
	// Last is the last executed result, and Run how often it came in a row; if Run is 0, Last says
	// nothing.
	Last Result
	Run  int32
	// Hold: nothing is executed until another container appears (4.4).
	Hold bool
	// Since is when the container was first seen running, on the monotonic clock; negative before that.
	Since time.Duration
}

// Container is what the pod's status shows of the container.
type Container struct {
	ID runtime.ContainerID
	// Running as opposed to waiting or ended.
	Running bool
	// Waits as opposed to running or ended: its start has not been seen, and may still come.
	Waits bool
	// Stays: it ended and will not run again. Never true for a sidecar, nor during a restart of all
	// containers (section 3, row 6).
	Stays bool
	// Started is the flag of the status.
	Started   bool
	StartedAt time.Time
}

// Look is what one look at a pod shows.
type Look struct {
	Kind Kind
	// Known is false if there is no status of the pod.
	Known bool
	// Ended: the phase is Succeeded or Failed.
	Ended bool
	// Deleting: the pod is being deleted.
	Deleting bool
	// Container is nil if there is no status with a container ID.
	Container *Container
	// Before is what was kept about the container; see [Restore]. Nil: nothing.
	Before *Before
	// InitialDelay of the probe.
	InitialDelay time.Duration
	// Now is the time by the wall clock, At by the monotonic one.
	Now time.Time
	At  time.Duration
}

// Step is what to do next.
type Step uint8

// Steps.
const (
	// Wait for the next tick.
	Wait Step = iota
	// End the worker.
	End
	// Execute the probe.
	Execute
)

// Outcome is what one look leads to.
type Outcome struct {
	State State
	Step  Step
	// Drop names the container whose result is removed; zero: none.
	Drop runtime.ContainerID
	// Store: Result becomes the result of State.ID. Quiet: without an announcement, because no
	// other result was announced.
	Store, Quiet bool
	Result       Result
	// After is how soon a look is worthwhile, if before the next tick; 0 means not before.
	After time.Duration
	// Why the probe is not executed, in words.
	Why string
}

// unseen stands for the time of a container that was not seen running.
const unseen = -1

// Tick is section 3: the first row that matches decides.
func Tick(s State, l Look) Outcome {
	out := Outcome{State: s}
	switch {
	case !l.Known: // 1
		out.Why = "the pod has no status yet"
		return out
	case l.Ended: // 2
		out.Step, out.Why = End, "the pod has ended"
		return out
	case l.Container == nil: // 3
		out.Why = "the container has not been created"
		return out
	}
	c := l.Container
	if c.ID != s.ID { // 4
		out.adopt(c, &l)
	}
	if c.Running && out.State.Since < 0 {
		out.State.Since = l.At
	}
	switch {
	case out.State.Hold: // 5
		out.Why = "decided for this container"
	case !c.Running: // 6
		if !c.Waits || l.Kind == Readiness { // a Failure would kill it as soon as it runs (3.3)
			out.Store, out.Quiet, out.Result = true, false, Failure
		}
		out.Why = "the container does not run"
		out.State.Since = unseen
		if c.Stays {
			out.Step = End
		}
	case l.Deleting && l.Kind != Readiness: // 7
		out.Store, out.Quiet, out.Result = true, false, Success
		out.Step, out.Why = End, "the pod is being deleted"
	case out.age(&l) < l.InitialDelay: // 8
		out.After = l.InitialDelay - out.age(&l)
		out.Why = "initial delay"
	case c.Started != (l.Kind != Startup): // 9
		out.Why = "the startup probe comes first"
		if l.Kind == Startup {
			out.Why = "the container has started"
		}
	default: // 10
		out.Step = Execute
	}
	return out
}

// adopt switches to another container.
func (out *Outcome) adopt(c *Container, l *Look) {
	out.Drop = out.State.ID
	out.State = State{ID: c.ID, Since: l.At}
	out.Store, out.Result = true, Initial(l.Kind)
	if b := l.Before; b != nil && c.Running {
		out.Quiet = true
		out.Result = b.Result
		out.State.Last, out.State.Run, out.State.Hold = b.Last, b.Run, b.Hold
	}
}

// age returns how old the container is. It is at least as old as it has been watched, whatever the
// wall clock was set to (9.7).
func (out *Outcome) age(l *Look) time.Duration {
	return max(age(l.Now, l.Container.StartedAt), l.At-out.State.Since)
}

// age returns the time from started to now, or 0 if the clock was set back.
func age(now, started time.Time) time.Duration {
	return max(now.Sub(started), 0)
}

// Thresholds say how often a result must come in a row to count.
type Thresholds struct{ Success, Failure int32 }

// Judge is section 4: it takes an executed result and says whether to store it.
func Judge(k Kind, t Thresholds, s State, r Result) (next State, store bool) {
	switch {
	case s.Run == 0 || s.Last != r:
		s.Last, s.Run = r, 1
	case s.Run < math.MaxInt32:
		s.Run++
	}
	if r == Success && s.Run < t.Success || r == Failure && s.Run < t.Failure {
		return s, false // 4.2
	}
	if k == Startup || k == Liveness && r == Failure { // 4.4
		s.Hold, s.Run = true, 0
	}
	return s, true
}
