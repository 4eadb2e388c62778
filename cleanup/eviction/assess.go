package eviction

import (
	"cmp"
	"maps"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
)

// history is what [assess] remembers from pass to pass. The zero value is for a node that has just
// started.
type history struct {
	// since says when each limit, by its index in the policy, began to be met without interruption.
	since map[int]time.Time
	// acting limits were due. They stay due until MinReclaim is available in addition.
	acting map[int]bool
	// progress says how much was available at most since each limit is met, and since when.
	progress map[int]progress
	// wanted is when a reading last called for each condition.
	wanted map[v1.NodeConditionType]time.Time
	// said is what the last reading that called for a condition said about it.
	said map[v1.NodeConditionType]string
}

// progress is the highest reading while a limit is met.
type progress struct {
	available uint64
	at        time.Time
}

// breach is a limit that is due, with the reading that made it so.
type breach struct {
	Threshold
	Observed Observation
	kind     kind
	// due is when the limit became due.
	due time.Time
	// progress is when more was available than ever since the limit is met, or due if that is later.
	progress time.Time
}

// assessment is what a pass finds.
type assessment struct {
	// history is passed to the next assess.
	history history
	// Due limits call for action now, most urgent first: memory before process IDs
	// before disks, hard before soft.
	Due []breach
	// Conditions are the node's true conditions, sorted.
	Conditions []v1.NodeConditionType
}

// assess judges readings. A limit is met while less than its value is available, or the reading
// says Low. It is due once it has been met for its grace, and stays due until its MinReclaim is
// available too. A condition is true while a limit of it is met, whatever its grace, and for the
// policy's Transition afterwards. A signal that was not read changes nothing and makes nothing due.
// The policy's defaults must be filled in; s is not changed.
func assess(p Policy, s history, readings map[Signal]Observation, now time.Time) assessment {
	next := history{since: map[int]time.Time{}, acting: map[int]bool{}, progress: map[int]progress{}, wanted: maps.Clone(s.wanted), said: maps.Clone(s.said)}
	if next.wanted == nil {
		next.wanted, next.said = map[v1.NodeConditionType]time.Time{}, map[v1.NodeConditionType]string{}
	}
	var out assessment
	for i, t := range p.Thresholds {
		since, met := s.since[i]
		o, read := readings[t.Signal]
		if !read {
			if met {
				next.since[i], next.acting[i], next.progress[i] = since, s.acting[i], s.progress[i]
			}
			continue
		}
		k := p.kind(t.Signal)
		limit := t.Value.Of(o.Capacity)
		if s.acting[i] {
			limit += t.MinReclaim.Of(o.Capacity)
		}
		if o.Available >= limit && !o.Low {
			continue
		}
		if !met {
			since = now
		}
		next.since[i], next.acting[i], next.progress[i] = since, s.acting[i], s.progress[i]
		if !met || o.Available > s.progress[i].available {
			next.progress[i] = progress{o.Available, now}
		}
		next.wanted[k.condition], next.said[k.condition] = now, o.Message
		if now.Sub(since) >= t.Grace {
			next.acting[i] = true
			b := breach{Threshold: t, Observed: o, kind: k, due: since.Add(t.Grace), progress: next.progress[i].at}
			if b.progress.Before(b.due) {
				b.progress = b.due
			}
			out.Due = append(out.Due, b)
		}
	}
	slices.SortStableFunc(out.Due, func(a, b breach) int {
		return cmp.Or(cmp.Compare(a.kind.urgency, b.kind.urgency), cmp.Compare(a.Grace, b.Grace))
	})
	for condition, at := range next.wanted {
		if at.Equal(now) || now.Sub(at) < p.Transition {
			out.Conditions = append(out.Conditions, condition)
		}
	}
	slices.Sort(out.Conditions)
	out.history = next
	return out
}
