package fake

import (
	"slices"
	"time"
)

// Fault makes calls go wrong: Times of those that match, beginning with the From-th.
// Effect says what happens to them. Calls that do not reach the runtime, because it is
// down or their context has already ended, are neither affected nor counted.
type Fault struct {
	Match
	// From is the number of the first matching call that is hit, from 1; 0 means 1.
	From int
	// Times is how many calls are hit; 0 means all later ones.
	Times int
	// Effect is what happens to them. The zero Effect changes nothing.
	Effect
}

// Effect is what a fault does to a call. The usual combinations:
//
//	Effect{Err: err}                    fails, nothing is done
//	Effect{Err: err, Done: true}        is done, and fails nevertheless
//	Effect{Delay: d}                    takes longer
//	Effect{Hang: true}                  waits for its context, nothing is done
//	Effect{Hang: true, Done: true}      is done when the caller has given up
//	Effect{Keep: keep}                  a list with gaps
//
// To simulate "name is reserved", as after a create that took effect too late, use
// Effect{Err: runtime.ErrAlreadyExists}, or an error without a class as containerd
// returns it.
type Effect struct {
	// Delay passes before anything else; if the context ends meanwhile, the call ends
	// without effect.
	Delay time.Duration
	// Err is returned.
	Err error
	// Hang waits until the call's context ends and returns its error. It wins
	// over Err.
	Hang bool
	// Done makes a call with Err or Hang take effect all the same: before returning
	// Err, or Late after the context ended, unless the daemon has stopped by then. A command of
	// ExecSync that hangs is never run.
	Done bool
	// Late is how long after the end of the context a call with Hang and Done
	// takes effect. 0 means before the call returns.
	Late time.Duration
	// Keep, if set, filters the answer of a list call, statistics included, by object ID (image
	// ID for images). It is called without locks held.
	Keep func(id string) bool
}

// injected is a fault with the calls it has seen.
type injected struct {
	Fault
	seen int
}

// Inject adds faults. A call meets the first fault, in the order injected, that hits
// it. The returned function removes the faults; calls that already hang keep hanging.
func (f *Runtime) Inject(faults ...Fault) (remove func()) {
	added := make([]*injected, 0, len(faults))
	for _, fault := range faults {
		added = append(added, &injected{Fault: fault})
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	// Always a new slice: calls look at the old one without the lock.
	f.faults = append(slices.Clone(f.faults), added...)
	return func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.faults = slices.DeleteFunc(slices.Clone(f.faults), func(i *injected) bool {
			return slices.Contains(added, i)
		})
	}
}

// effectOn returns what happens to a call. It is called without the lock,
// because it runs predicates.
func (f *Runtime) effectOn(faults []*injected, call Call) Effect {
	var effect *Effect
	for _, fault := range faults {
		if !fault.matches(call) {
			continue
		}
		f.mu.Lock()
		fault.seen++
		hit := fault.seen >= max(1, fault.From) && (fault.Times == 0 || fault.seen < max(1, fault.From)+fault.Times)
		f.mu.Unlock()
		// Later faults count the call too, so that From does not depend on other
		// faults.
		if hit && effect == nil {
			effect = &fault.Effect
		}
	}
	if effect == nil {
		return Effect{}
	}
	return *effect
}
