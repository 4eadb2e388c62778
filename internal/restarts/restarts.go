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

// Asked are the requested restarts of one pod. A value is never changed: methods return another
// one. Nil: no restart was ever requested.
type Asked struct {
	// At is when a restart was last requested, by the wall clock, and Message says why.
	At      time.Time `json:"at,omitzero"`
	Message string    `json:"message,omitempty"`
	// Runs are still to be replaced.
	Runs []Run `json:"runs,omitempty"`
	// Counts says, by container, how many restarts were made on request.
	Counts map[string]int `json:"counts,omitempty"`
}

// Pending reports whether a run is still to be replaced.
func (a *Asked) Pending() bool { return a != nil && len(a.Runs) > 0 }

// Has reports whether this run is to be replaced.
func (a *Asked) Has(id runtime.ContainerID) bool {
	return a.Pending() && a.at(id.String()) >= 0
}

// HasID is [Asked.Has] for an ID in the form a status uses.
func (a *Asked) HasID(id string) bool { return a.Pending() && a.at(id) >= 0 }

// at returns the index of a run, -1 if it is not to be replaced.
func (a *Asked) at(id string) int {
	return slices.IndexFunc(a.Runs, func(r Run) bool { return r.ID == id })
}

// String says what is to be restarted, since when and why; "" if nothing is.
func (a *Asked) String() string {
	if !a.Pending() {
		return ""
	}
	var names []string
	for _, r := range a.Runs {
		names = append(names, r.Container)
	}
	return fmt.Sprintf("%s, requested at %s: %s", strings.Join(names, ", "), a.At.UTC().Format(time.RFC3339), a.Message)
}

// Any reports whether one of these runs is still to be replaced.
func (a *Asked) Any(runs []Run) bool {
	return slices.ContainsFunc(runs, func(r Run) bool { return a.HasID(r.ID) })
}

// of returns the run of a container that is to be replaced, or false.
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
		next.Runs, next.Counts = slices.Clone(a.Runs), a.Counts
	}
	for _, r := range runs {
		if next.at(r.ID) < 0 {
			next.Runs = append(next.Runs, r)
		}
	}
	return next
}

// Without takes back runs that were not acted on.
func (a *Asked) Without(taken func(Run) bool) *Asked {
	if !a.Pending() {
		return a
	}
	next := *a
	next.Runs = slices.DeleteFunc(slices.Clone(a.Runs), taken)
	if len(next.Runs)+len(next.Counts) == 0 {
		return nil
	}
	return &next
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
	if len(left) == len(a.Runs) {
		return a
	}
	next := &Asked{At: a.At, Message: a.Message, Runs: left, Counts: a.Counts}
	if counts != nil {
		next.Counts = counts
	}
	return next
}

// replaced reports whether a later run of the container has begun. A run that was only created has
// not: if it never starts, another run takes its place.
func replaced(r Run, view *runtime.PodStatus) bool {
	newest := view.Container(r.Container)
	return newest != nil && newest.State != runtime.Created && newest.RestartCount > r.RestartCount && newest.ID.String() != r.ID
}
