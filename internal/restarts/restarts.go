package restarts

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/runtime"
)

// Run is one run of a container, to be replaced by a new one.
type Run struct {
	Container string `json:"container"`
	// ID in the form a status uses (runtime://id).
	ID string `json:"id"`
	// RestartCount is the highest up to this run. The run that replaces it has a higher one.
	RestartCount int `json:"restartCount,omitempty"`
}

// Asked are the runs of one pod that are to be replaced, because a caller requested it or for a
// reason of the engine's own. A value is never changed: methods return another one. Nil: no run
// ever was.
type Asked struct {
	// At is when a restart was last requested, by the wall clock, and Message says why.
	At      time.Time `json:"at,omitzero"`
	Message string    `json:"message,omitempty"`
	// Runs are still to be replaced on request.
	Runs []Run `json:"runs,omitempty"`
	// Own are still to be replaced for a reason of the engine's own, such as a failed liveness probe,
	// although an exit could end their containers for good (spec/runtime.md 6.12).
	Own []Run `json:"own,omitempty"`
	// Counts says, by container, how many restarts were made on request.
	Counts map[string]int `json:"counts,omitempty"`
}

// Pending reports whether a run is still to be replaced.
func (a *Asked) Pending() bool { return a != nil && len(a.Runs)+len(a.Own) > 0 }

// Has reports whether this run is to be replaced.
func (a *Asked) Has(id runtime.ContainerID) bool { return a.Pending() && a.HasID(id.String()) }

// HasID is [Asked.Has] for an ID in the form a status uses.
func (a *Asked) HasID(id string) bool { return a.Pending() && (has(a.Runs, id) || has(a.Own, id)) }

// Requested reports whether a caller wants this run replaced.
func (a *Asked) Requested(id runtime.ContainerID) bool {
	return a.Pending() && a.RequestedID(id.String())
}

// RequestedID is [Asked.Requested] for an ID in the form a status uses.
func (a *Asked) RequestedID(id string) bool { return a.Pending() && has(a.Runs, id) }

func has(runs []Run, id string) bool {
	return slices.ContainsFunc(runs, func(r Run) bool { return r.ID == id })
}

// String says what is to be restarted on request, since when and why; "" if nothing is.
func (a *Asked) String() string {
	if a == nil || len(a.Runs) == 0 {
		return ""
	}
	var names []string
	for _, r := range a.Runs {
		names = append(names, r.Container)
	}
	return fmt.Sprintf("%s, requested at %s: %s", strings.Join(names, ", "), a.At.UTC().Format(time.RFC3339), a.Message)
}

// Any reports whether one of these runs is still to be replaced on request.
func (a *Asked) Any(runs []Run) bool {
	return slices.ContainsFunc(runs, func(r Run) bool { return a.RequestedID(r.ID) })
}

// of returns the run of a container that is to be replaced on request, or false.
func (a *Asked) of(container string) (Run, bool) {
	if a.Pending() {
		for i := len(a.Runs) - 1; i >= 0; i-- {
			if a.Runs[i].Container == container {
				return a.Runs[i], true
			}
		}
	}
	return Run{}, false
}

// Count returns how many restarts of a container were made on request.
func (a *Asked) Count(container string) int {
	if a == nil {
		return 0
	}
	return a.Counts[container]
}

// With adds runs to be replaced. Runs that are already included stay as they are.
func (a *Asked) With(runs []Run, message string, now time.Time) *Asked {
	next := &Asked{At: now, Message: message}
	if a != nil {
		next.Runs, next.Own, next.Counts = slices.Clone(a.Runs), a.Own, a.Counts
	}
	for _, r := range runs {
		if !has(next.Runs, r.ID) {
			next.Runs = append(next.Runs, r)
		}
	}
	return next
}

// WithOwn has these runs as those to be replaced for a reason of the engine's own, instead of those
// that it had; it returns a itself if they are the same.
func (a *Asked) WithOwn(own []Run) *Asked {
	var next Asked
	if a != nil {
		next = *a
	}
	if slices.Equal(next.Own, own) {
		return a
	}
	next.Own = own
	return next.orNil()
}

// orNil returns nil instead of a value that says nothing.
func (a Asked) orNil() *Asked {
	if len(a.Runs)+len(a.Own)+len(a.Counts) == 0 {
		return nil
	}
	return &a
}

// Without takes back requested runs that were not acted on.
func (a *Asked) Without(taken func(Run) bool) *Asked {
	if !a.Pending() {
		return a
	}
	next := *a
	next.Runs = slices.DeleteFunc(slices.Clone(a.Runs), taken)
	return next.orNil()
}

// After returns what is left to do when the runtime shows this view of the pod; a itself if nothing
// has changed. A run is replaced once a later run of its container has begun. A run whose container
// is no longer part of the pod has nothing to be replaced by.
func (a *Asked) After(pod *v1.Pod, view *runtime.PodStatus) *Asked {
	if !a.Pending() || view == nil {
		return a
	}
	var left []Run
	var counts map[string]int
	for _, r := range a.Runs {
		switch {
		case memberOf(pod, r.Container) == nil:
		case replaced(r, view):
			if counts == nil {
				if counts = maps.Clone(a.Counts); counts == nil {
					counts = map[string]int{}
				}
			}
			counts[r.Container]++
		default:
			left = append(left, r)
		}
	}
	own := slices.DeleteFunc(slices.Clone(a.Own), func(r Run) bool { return memberOf(pod, r.Container) == nil || replaced(r, view) })
	if len(left) == len(a.Runs) && len(own) == len(a.Own) {
		return a
	}
	next := &Asked{At: a.At, Message: a.Message, Runs: left, Own: own, Counts: a.Counts}
	if counts != nil {
		next.Counts = counts
	}
	return next.orNil()
}

// replaced reports whether a later run of the container has begun. A run that was only created has
// not: if it never starts, another run takes its place.
func replaced(r Run, view *runtime.PodStatus) bool {
	newest := view.Container(r.Container)
	return newest != nil && newest.State != runtime.Created && newest.RestartCount > r.RestartCount && newest.ID.String() != r.ID
}
