// Package crashloop decides how long a container that has exited must wait before
// it runs again (spec/runtime.md 17). It is a table of delays; time comes in as
// a value, so it has no clock. A [Table] is not safe for concurrent use.
//
//	exited record, now ──► Check ──► start now, delay grown
//	                            └──► wait until …
package crashloop

import (
	"math"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// calm is how long a container must run for its delay to start afresh
// (spec/runtime.md 17.4).
const calm = 600 * time.Second

// Policy is how delays grow.
type Policy struct {
	Initial time.Duration
	Factor  float64
	Max     time.Duration
}

// after returns the delay that follows d.
func (p Policy) after(d time.Duration) time.Duration {
	return p.bound(float64(d) * p.Factor)
}

func (p Policy) bound(d float64) time.Duration {
	if d >= float64(p.Max) {
		return p.Max
	}
	return time.Duration(d)
}

// Exit is the newest exited record of a container.
type Exit struct {
	// ID of the record.
	ID string
	// StartedAt and FinishedAt are the runtime's, by its wall clock.
	StartedAt, FinishedAt time.Time
	// RestartCount of the record.
	RestartCount int
	// SameDefinition is true if the record was made of the container's present
	// definition.
	SameDefinition bool
}

// Key names a container's delay. A delay with another Definition is another one
// (spec/runtime.md 17.2).
type Key struct {
	Pod       types.UID
	Container string
	// Definition is the image and whatever else makes a crash loop a new one.
	Definition string
}

type entry struct {
	definition string
	delay      time.Duration
	// stamp is when the delay was last changed.
	stamp time.Time
	// exit is the record last seen and when that was, by our own clock: a
	// finish time in the future must not hold a container for ever.
	exit string
	seen time.Time
	// held is the record that Hold was last asked about, until its answer.
	held  string
	until time.Time
}

// Table holds the delays of all containers. Make one with [New].
type Table struct {
	policy Policy
	pods   map[types.UID]map[string]*entry
}

// New returns an empty table.
func New(policy Policy) *Table {
	return &Table{policy: policy, pods: map[types.UID]map[string]*entry{}}
}

// Check reports until when the container must wait. A zero time means that it
// may start now; the start counts, so Check is to be called once per start
// (spec/runtime.md 17.3).
func (t *Table) Check(key Key, x Exit, now time.Time) (until time.Time, delay time.Duration) {
	e := t.entry(key, x)
	if e != nil {
		if e.exit != x.ID {
			e.exit, e.seen = x.ID, now
		}
		finished := x.FinishedAt
		if finished.After(e.seen) {
			finished = e.seen
		}
		expired := finished.Sub(e.stamp) > calm
		if !expired && now.Sub(finished) < e.delay {
			return finished.Add(e.delay), e.delay
		}
		if expired {
			e.delay = t.policy.Initial
		} else {
			e.delay = t.policy.after(e.delay)
		}
		e.stamp = now
		return time.Time{}, 0
	}
	t.put(key, &entry{definition: key.Definition, delay: t.policy.Initial, stamp: now, exit: x.ID, seen: now})
	return time.Time{}, 0
}

// Hold is Check for a record that is about to be removed: the start it delays is
// certain to come, so the delay grows at once. Asked again about the same record
// it gives the same answer.
func (t *Table) Hold(key Key, x Exit, now time.Time) (until time.Time) {
	if e := t.pods[key.Pod][key.Container]; e != nil && e.held == x.ID && e.definition == key.Definition {
		return e.until
	}
	until, _ = t.Check(key, x, now)
	e := t.pods[key.Pod][key.Container]
	e.held, e.until = x.ID, until
	if !until.IsZero() {
		e.delay, e.stamp = t.policy.after(e.delay), until
	}
	return until
}

// entry returns the container's delay, if it has one. Without any it is rebuilt
// from the record: the one who kept it may have been another process
// (spec/runtime.md 17.6).
func (t *Table) entry(key Key, x Exit) *entry {
	if e := t.pods[key.Pod][key.Container]; e != nil {
		if e.definition == key.Definition {
			return e
		}
		return nil
	}
	if x.RestartCount < 1 || !x.SameDefinition || x.FinishedAt.Sub(x.StartedAt) > calm {
		return nil
	}
	e := &entry{
		definition: key.Definition,
		delay:      t.policy.bound(float64(t.policy.Initial) * math.Pow(t.policy.Factor, float64(x.RestartCount-1))),
		stamp:      x.StartedAt,
	}
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

// Prune drops delays that no longer matter: a container that exits now would
// start afresh (spec/runtime.md 17.3).
func (t *Table) Prune(now time.Time) {
	for uid, containers := range t.pods {
		for name, e := range containers {
			if now.Sub(e.stamp) > calm+t.policy.Max {
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
