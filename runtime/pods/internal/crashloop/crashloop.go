package crashloop

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/backoff"
)

// Policy is how delays grow. All fields must be set.
type Policy struct {
	Initial time.Duration
	Factor  float64
	Max     time.Duration
	// Reset is how long a container must run for its delays to start again at
	// Initial (spec/runtime.md 17.4).
	Reset time.Duration
}

// Delay returns the n-th delay in a row, from 1.
func (p Policy) Delay(n int) time.Duration {
	return backoff.Grow(p.Initial, p.Max, p.Factor, n)
}

// Class is how a container ended.
type Class uint8

// Classes. Every end belongs to exactly one.
const (
	// Failure is every end that is none of the others.
	Failure Class = iota
	// Success is exit code 0.
	Success
	// OOMKilled is an end by the kernel, for lack of memory, whatever the code.
	OOMKilled
	// StartError is the end of a container that could not be started.
	StartError
	classes
)

// Policies has the policy of each class.
type Policies [classes]Policy

// longest returns the longest time that a policy has of a kind.
func (p *Policies) longest(of func(Policy) time.Duration) time.Duration {
	var d time.Duration
	for _, own := range p {
		d = max(d, of(own))
	}
	return d
}

// Exit is the newest exited record of a container.
type Exit struct {
	// ID of the record.
	ID string
	// StartedAt and FinishedAt are the runtime's, by its wall clock.
	StartedAt, FinishedAt time.Time
	// RestartCount of the record.
	RestartCount int
	// Class of the end.
	Class Class
	// SameDefinition is true if the record was made of the container's present
	// definition.
	SameDefinition bool
	// Later is the run that came after it and was stopped for this start, whose record does not show that it
	// has exited yet; "" if there was none.
	Later string
	// Lasted is how long that run went on, by the wall clock; 0 if that is not known.
	Lasted time.Duration
}

// last is the run that the start follows.
func (x Exit) last() string {
	if x.Later != "" {
		return x.Later
	}
	return x.ID
}

// Key names a container's delay. Another Definition has delays of its own
// (spec/runtime.md 17.2).
type Key struct {
	Pod       types.UID
	Container string
	// Definition is the image and whatever else starts the delays again when it
	// changes.
	Definition string
}

type entry struct {
	definition string
	// steps is how many delays in a row the next one makes.
	steps int
	// stamp is when steps was last changed.
	stamp time.Time
	// exit is the record last seen. seen is when it was first seen, by our own clock: its monotonic
	// reading measures the delay, because the wall clock may be set back meanwhile.
	exit string
	seen time.Time
	// counted is the run after which steps was last changed, until a start has succeeded. Its delay has
	// passed: more attempts to start change nothing.
	counted string
	// held is the record that Hold was last asked about, until its answer.
	held  string
	until time.Time
	delay time.Duration
}

// Table holds the delays of all containers. Make one with [New].
type Table struct {
	policies Policies
	pods     map[types.UID]map[string]*entry
}

// New returns an empty table.
func New(policies Policies) *Table {
	return &Table{policies: policies, pods: map[types.UID]map[string]*entry{}}
}

// Check reports until when the container must wait. A zero time means that it may
// start now, and counts the run before it; asked again about the same run, because the
// start failed, Check counts nothing (spec/runtime.md 17.3).
func (t *Table) Check(key Key, x Exit, now time.Time) (until time.Time, delay time.Duration) {
	policy := t.policies[x.Class]
	e := t.entry(key, x)
	if e != nil && t.ranLong(e, x, now) {
		e = nil
	}
	if e != nil && e.counted == x.last() {
		e.stamp = now // the time until now is none in which it ran
		return time.Time{}, 0
	}
	if e != nil {
		if e.exit != x.ID || now.Before(e.seen) {
			e.exit, e.seen = x.ID, now
		}
		// It ended before it was seen, whatever the clock says.
		finished := e.seen.Add(-max(0, e.seen.Sub(x.FinishedAt)))
		expired := finished.Sub(e.stamp) > policy.Reset
		if delay := policy.Delay(e.steps); !expired && now.Sub(finished) < delay {
			return finished.Add(delay), delay
		}
		if expired {
			e.steps = 0
		}
		e.steps++
		e.stamp, e.counted = now, x.last()
		return time.Time{}, 0
	}
	t.put(key, &entry{definition: key.Definition, steps: 1, stamp: now, exit: x.ID, seen: now, counted: x.last()})
	return time.Time{}, 0
}

// ranLong reports whether the run after the exit lasted so long that the delays start again, however it has
// ended (spec/runtime.md 17.4). It began no earlier than it was counted: the wall clock may be set ahead meanwhile.
func (t *Table) ranLong(e *entry, x Exit, now time.Time) bool {
	reset := t.policies.longest(func(p Policy) time.Duration { return p.Reset })
	return min(x.Lasted, now.Sub(e.stamp)) > reset
}

// Hold is Check for a record that is about to be removed. The start that it delays
// will come, so the delay grows at once. Asked again about the same record, Hold
// gives the same answer.
func (t *Table) Hold(key Key, x Exit, now time.Time) (until time.Time, delay time.Duration) {
	if e := t.pods[key.Pod][key.Container]; e != nil && e.held == x.ID && e.definition == key.Definition {
		e.until = t.Bound(e.until, now)
		return e.until, e.delay
	}
	until, delay = t.Check(key, x, now)
	e := t.pods[key.Pod][key.Container]
	e.held, e.until, e.delay = x.ID, until, delay
	if !until.IsZero() {
		e.steps++
		e.stamp = until
	}
	return until, delay
}

// Started notes that a start has succeeded. If the runtime loses the run that has begun, the next
// start after the same exit counts as one after a crash.
func (t *Table) Started(pod types.UID, container string) {
	if e := t.pods[pod][container]; e != nil {
		e.counted = ""
	}
}

// Bound returns the end of a delay, at most the longest delay from now: a clock that was
// set back does not extend it by the step.
func (t *Table) Bound(until, now time.Time) time.Time {
	longest := t.policies.longest(func(p Policy) time.Duration { return p.Max })
	if latest := now.Add(longest); until.After(latest) {
		return latest
	}
	return until
}

// entry returns the container's delay, nil if it has none. One that the table does
// not hold is rebuilt from the record: another process may have kept it
// (spec/runtime.md 17.6).
func (t *Table) entry(key Key, x Exit) *entry {
	if e := t.pods[key.Pod][key.Container]; e != nil {
		if e.definition == key.Definition {
			return e
		}
		return nil
	}
	began := x.StartedAt
	if began.IsZero() {
		began = x.FinishedAt // it failed to start: a run of no length
	}
	if x.RestartCount < 1 || !x.SameDefinition || x.FinishedAt.Sub(began) > t.policies[x.Class].Reset {
		return nil
	}
	e := &entry{definition: key.Definition, steps: x.RestartCount, stamp: began}
	t.put(key, e)
	return e
}

func (t *Table) put(key Key, e *entry) {
	containers := t.pods[key.Pod]
	if containers == nil {
		containers = map[string]*entry{}
		t.pods[key.Pod] = containers
	}
	containers[key.Container] = e
}

// Forget drops the delays of a pod.
func (t *Table) Forget(pod types.UID) { delete(t.pods, pod) }

// Prune drops delays that no longer matter: a container that exits now would start
// without a delay (spec/runtime.md 17.3).
func (t *Table) Prune(now time.Time) {
	longest := t.policies.longest(func(p Policy) time.Duration { return p.Reset + p.Max }) // an entry may matter
	for uid, containers := range t.pods {
		for name, e := range containers {
			if now.Sub(e.stamp) > longest {
				delete(containers, name)
			}
		}
		if len(containers) == 0 {
			delete(t.pods, uid)
		}
	}
}

// Len returns the number of delays kept.
func (t *Table) Len() int {
	n := 0
	for _, containers := range t.pods {
		n += len(containers)
	}
	return n
}
