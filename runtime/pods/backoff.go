package pods

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/podwright/podwright/runtime"
	"github.com/podwright/podwright/runtime/pods/internal/crashloop"
)

// BackOffPolicy describes a delay that doubles (or grows by Factor) with every
// failure. A zero field takes the default of the field it is used in.
type BackOffPolicy struct {
	// Initial is the first delay.
	Initial time.Duration
	// Factor multiplies the delay after every further failure; at least 1.
	Factor float64
	// Max bounds the delay. An Initial above Max is lowered to Max.
	Max time.Duration
	// Reset is how long a container must run for its delay to start afresh, and
	// how long after its last failure that of an image is forgotten. Default
	// 600 s, whatever Max is.
	Reset time.Duration
}

// standardBackOff is the policy of spec/runtime.md 9.3 and 17.1.
func standardBackOff() BackOffPolicy {
	return BackOffPolicy{Initial: 10 * time.Second, Factor: 2, Max: 300 * time.Second, Reset: 600 * time.Second}
}

// complete fills zero fields from defaults.
func (p *BackOffPolicy) complete(field string, defaults BackOffPolicy) error {
	var problems []error
	for name, d := range map[string]time.Duration{"Initial": p.Initial, "Max": p.Max, "Reset": p.Reset} {
		if d < 0 {
			problems = append(problems, fmt.Errorf("%s.%s %s is negative", field, name, d))
		}
	}
	if p.Factor != 0 && p.Factor < 1 {
		problems = append(problems, fmt.Errorf("%s.Factor %v is below 1", field, p.Factor))
	}
	if p.Initial == 0 {
		p.Initial = defaults.Initial
	}
	if p.Factor == 0 {
		p.Factor = defaults.Factor
	}
	if p.Max == 0 {
		p.Max = defaults.Max
	}
	if p.Reset == 0 {
		p.Reset = defaults.Reset
	}
	p.Initial = min(p.Initial, p.Max)
	return errors.Join(problems...)
}

// ExitClass sorts the ends of containers for crash-loop back-off.
type ExitClass string

// Exit classes; every end belongs to exactly one.
const (
	// ExitSuccess is exit code 0.
	ExitSuccess ExitClass = "Success"
	// ExitFailure is every end that is none of the others.
	ExitFailure ExitClass = "Failure"
	// ExitOOMKilled is an end for want of memory, whatever the code.
	ExitOOMKilled ExitClass = "OOMKilled"
	// ExitStartError is that of a container that could not be started at all.
	ExitStartError ExitClass = "StartError"
)

// completeExits fills and checks the policies of exit classes. The map is cloned:
// it stays the caller's.
func (o *Options) completeExits() error {
	var problems []error
	o.CrashLoopByExit = maps.Clone(o.CrashLoopByExit)
	for _, class := range slices.Sorted(maps.Keys(o.CrashLoopByExit)) {
		switch class {
		case ExitSuccess, ExitFailure, ExitOOMKilled, ExitStartError:
		default:
			problems = append(problems, fmt.Errorf("CrashLoopByExit: %q is no class of exits", class))
		}
		policy := o.CrashLoopByExit[class]
		problems = append(problems, policy.complete(fmt.Sprintf("CrashLoopByExit[%s]", class), o.CrashLoopBackOff))
		o.CrashLoopByExit[class] = policy
	}
	return errors.Join(problems...)
}

// crashPolicies is what the table of delays takes.
func (o *Options) crashPolicies() crashloop.Policies {
	out := crashloop.Policies{
		Default: crashloop.Policy(o.CrashLoopBackOff), ByClass: make(map[string]crashloop.Policy, len(o.CrashLoopByExit)),
	}
	for class, policy := range o.CrashLoopByExit {
		out.ByClass[string(class)] = crashloop.Policy(policy)
	}
	return out
}

// classOf returns the class of an exited container.
func classOf(c *runtime.ContainerStatus) ExitClass {
	switch {
	case c.Reason == "OOMKilled":
		return ExitOOMKilled
	case c.StartedAt.IsZero() || c.Reason == "StartError":
		return ExitStartError
	case c.ExitCode == 0:
		return ExitSuccess
	}
	return ExitFailure
}
