package problem

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Kind is the sort of thing that a problem is about.
type Kind string

// The kinds of problems.
const (
	Pod          Kind = "pod"
	RuntimeCall  Kind = "runtimeCall"
	Runtime      Kind = "runtime"
	Network      Kind = "network"
	Reading      Kind = "reading"
	Loop         Kind = "loop"
	Housekeeping Kind = "housekeeping"
	Removal      Kind = "removal"
	Source       Kind = "source"
	Sink         Kind = "sink"
	Record       Kind = "record"
	Recovery     Kind = "recovery"
	Probe        Kind = "probe"
	Function     Kind = "function"
	Stop         Kind = "stop"
)

// Kinds returns every kind, in the order above.
func Kinds() []Kind {
	return []Kind{
		Pod, RuntimeCall, Runtime, Network, Reading, Loop, Housekeeping, Removal, Source, Sink, Record, Recovery, Probe, Function, Stop,
	}
}

// Severity says who is harmed by a problem.
type Severity string

const (
	// Listed: the engine does its work; only what the problem names is stuck.
	Listed Severity = "listed"
	// Unhealthy: the engine cannot do its work for any pod.
	Unhealthy Severity = "unhealthy"
)

// Problem is one thing that waits longer than it should, or that fails. It encodes as JSON.
type Problem struct {
	// Kind is what it is: pod, runtimeCall, runtime, network, reading (of the runtime),
	// loop, housekeeping, removal (of what a pod left), source, sink, record (of a pod),
	// recovery, probe, function (of the program that embeds the engine), or stop (of the
	// engine).
	Kind Kind `json:"kind"`
	// Severity is "unhealthy" if the engine cannot do its work, which Engine.Healthy
	// reports, and "listed" if the problem harms only what it names.
	Severity Severity `json:"severity"`
	// Name is namespace/name of a pod, or the name of a source, sink, call or function.
	Name string `json:"name"`
	// UID is the pod that waits, empty if it is not a pod or not known.
	UID types.UID `json:"uid,omitempty"`
	// Since is when the wait, or the failure, began.
	Since time.Time `json:"since"`
	// Waits says what it waits for; it completes "waits for".
	Waits string `json:"waitsFor"`
	// Cause is the newest error, or "".
	Cause string `json:"cause,omitempty"`
	// Advice says what to do.
	Advice string `json:"advice"`
	// Err is the error behind Cause, or nil.
	Err error `json:"-"`
}

// String returns the problem in one line that an operator can act on.
func (p Problem) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s", p.Kind, p.Name)
	if p.UID != "" {
		fmt.Fprintf(&b, " (%s)", p.UID)
	}
	fmt.Fprintf(&b, ": since %s waits for %s", p.Since.UTC().Format(time.RFC3339), p.Waits)
	if p.Cause != "" {
		fmt.Fprintf(&b, ": %s", p.Cause)
	}
	fmt.Fprintf(&b, "; %s", p.Advice)
	return b.String()
}

// Error returns String: a problem is an error of [Engine.Healthy].
func (p Problem) Error() string { return p.String() }

// Unwrap returns Err.
func (p Problem) Unwrap() error { return p.Err }

// Because returns the problem with the error behind it.
func (p Problem) Because(err error) Problem {
	if err != nil {
		p.Err, p.Cause = err, oneLine(err.Error())
	}
	return p
}

// oneLine joins the lines of an error, without the stack of a panic.
func oneLine(text string) string {
	text, _, _ = strings.Cut(text, "\ngoroutine ")
	return strings.ReplaceAll(strings.TrimSpace(text), "\n", "; ")
}

// Of returns the name of a pod, or its UID if the name is not known.
func Of(namespace, name string, uid types.UID) string {
	if name == "" {
		return string(uid)
	}
	return namespace + "/" + name
}

// AtGate returns the problem of a pod that waits because nothing may be set up now; err says why.
// There is only one gate, so every part that asks it reports the same (IN13).
func AtGate(namespace, name string, uid types.UID, since time.Time, err error) Problem {
	return Problem{
		Kind: Pod, Severity: Listed, Name: Of(namespace, name, uid), UID: uid, Since: since,
		Waits:  "the gate to open: nothing is set up for now",
		Advice: "look at the cause: the container runtime, the start of the engine, or a shutdown of the node",
	}.Because(err)
}

// OfSource returns what a source lists: whatever the source says of them, they harm only what it reads.
func OfSource(listed []Problem) []Problem {
	out := make([]Problem, 0, len(listed))
	for _, p := range listed {
		p.Kind, p.Severity = Source, Listed
		if p.Cause == "" {
			p = p.Because(p.Err)
		}
		out = append(out, p)
	}
	return out
}

// List joins the problems of all parts, sorted by Since, then name.
func List(parts ...func() []Problem) []Problem {
	var all []Problem
	for _, part := range parts {
		all = append(all, part()...)
	}
	slices.SortStableFunc(all, func(a, b Problem) int {
		return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Waits, b.Waits))
	})
	return all
}

// Health joins the problems that make the engine unhealthy; nil if there are none.
func Health(all []Problem) error {
	var bad []error
	for _, p := range all {
		if p.Severity == Unhealthy {
			bad = append(bad, p)
		}
	}
	return errors.Join(bad...)
}
