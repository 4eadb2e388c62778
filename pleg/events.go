package pleg

import (
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/runtime"
)

// Kind is a set of things that happened to a pod (E3).
type Kind uint8

// What can happen. The zero Kind means nothing.
const (
	// Started: a container or sandbox is running that was not running before.
	Started Kind = 1 << iota
	// Died: a container or sandbox has exited, or vanished while it may still
	// have run.
	Died
	// Removed: a container or sandbox is gone from the runtime. It does not require a sync of the
	// pod.
	Removed
	// PodSync: the pod was read again, on request or after a failed reading, and its containers are
	// unchanged.
	PodSync

	// changed leads to an inspection and is never delivered (E1).
	changed
)

// Has reports whether k contains all of other.
func (k Kind) Has(other Kind) bool { return k&other == other }

// String names the kinds in k, joined by "|", or "none".
func (k Kind) String() string {
	names := []string{}
	for _, n := range []struct {
		kind Kind
		name string
	}{{Started, "Started"}, {Died, "Died"}, {Removed, "Removed"}, {PodSync, "PodSync"}, {changed, "changed"}} {
		if k.Has(n.kind) {
			names = append(names, n.name)
		}
	}
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, "|")
}

// PodEvents is everything that happened to one pod since a subscriber last took its events. The
// pod's status in the cache is at least as new.
type PodEvents struct {
	UID   types.UID
	Kinds Kind
	// Since is when the first of them was delivered. It is for latency figures, not for ordering.
	Since time.Time
	// Died holds the IDs of the containers and sandboxes that died, in the order they were noticed,
	// each once, at most 64.
	Died []string
	// AllDied is set when more than 64 died: treat every exited container as
	// newly exited. Died is nil then.
	AllDied bool
}

// maxDied bounds PodEvents.Died (V1).
const maxDied = 64

// objectState is the state of one container or sandbox as event derivation sees it (S3): not
// started yet and unknown are the same state.
type objectState uint8

const (
	gone objectState = iota
	unknown
	running
	exited
)

// objectStateOf maps a runtime state (S3, S4).
func objectStateOf(s runtime.State) objectState {
	switch s {
	case runtime.Running:
		return running
	case runtime.Exited:
		return exited
	default:
		return unknown
	}
}

// object is one container or sandbox of a record.
type object struct {
	id      string
	sandbox bool
	state   objectState
}

// derive is the table of section 5: what happened to an object that went from
// one state to another.
func derive(from, to objectState) Kind {
	if from == to {
		return 0
	}
	switch to {
	case running:
		return Started
	case exited:
		return Died
	case unknown:
		return changed
	default: // gone
		if from == exited {
			return Removed
		}
		return Died | Removed
	}
}

// deriveAll compares two sorted object lists of one pod. It returns the union of what happened, and
// the IDs that died (E4, E6).
func deriveAll(from, to []object) (kinds Kind, died []string) {
	note := func(id string, before, after objectState) {
		k := derive(before, after)
		kinds |= k
		if k.Has(Died) {
			died = append(died, id)
		}
	}
	for len(from) > 0 || len(to) > 0 {
		switch {
		case len(to) == 0 || len(from) > 0 && from[0].before(to[0]):
			note(from[0].id, from[0].state, gone)
			from = from[1:]
		case len(from) == 0 || to[0].before(from[0]):
			note(to[0].id, gone, to[0].state)
			to = to[1:]
		default:
			note(to[0].id, from[0].state, to[0].state)
			from, to = from[1:], to[1:]
		}
	}
	return kinds, died
}

// before defines the order of the objects of a record: sandboxes first, then by ID.
func (o object) before(other object) bool {
	if o.sandbox != other.sandbox {
		return o.sandbox
	}
	return o.id < other.id
}
