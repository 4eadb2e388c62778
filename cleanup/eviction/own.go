package eviction

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
)

// OwnSignal is a signal of the program that embeds the manager, such as the charge of a battery,
// thermal headroom, or a license. A [Threshold] that names it says how little is too little. While
// too little is available, the node has the signal's condition and accepts only critical pods; when
// the limit is due, pods are evicted, one at a time. No pod uses any of the signal's resource: pods
// with the lowest priority are evicted first, then BestEffort before Burstable before Guaranteed.
type OwnSignal struct {
	// Name is used in thresholds, messages and metrics, for example battery.charge.
	Name Signal
	// Condition of the node, such as BatteryLow or example.com/BatteryLow. Each signal has its own,
	// which no other part of the node sets.
	Condition v1.NodeConditionType
	// Message says what the condition means, for the node and for evicted pods. An [Observation]
	// may add to it.
	Message string
	// Observer reads the signal.
	Observer Observer
}

// Observer reads a signal of the program that embeds the manager.
type Observer interface {
	// Observe returns how much is available now, or an error, which decides nothing. It is called
	// in every pass, on its own goroutine, and never again before it has returned. The pass waits a
	// second for it: a later result counts in the next pass. Its context ends after 10 s. An
	// observer that hangs, panics or fails is logged once and reported as a problem; it holds up no
	// other signal.
	Observe(ctx context.Context) (Observation, error)
}

// ObserverFunc adapts a function to an [Observer].
type ObserverFunc func(ctx context.Context) (Observation, error)

// Observe calls f.
func (f ObserverFunc) Observe(ctx context.Context) (Observation, error) { return f(ctx) }

// checkOwn reports every problem of the signals of the embedding program.
func (p Policy) checkOwn() error {
	var problems []error
	for i, s := range p.Own {
		note := func(format string, args ...any) {
			problems = append(problems, fmt.Errorf("signal %d (%s): %w", i, s.Name, fmt.Errorf(format, args...)))
		}
		_, builtIn := kinds()[s.Name]
		switch same := func(o OwnSignal) bool { return o.Name == s.Name }; {
		case len(validation.IsDNS1123Subdomain(strings.ToLower(string(s.Name)))) > 0:
			note("Name: want one such as battery.charge")
		case builtIn, slices.Contains(localSignals(), string(s.Name)), slices.ContainsFunc(p.Own[:i], same):
			note("Name is taken")
		}
		switch same := func(o OwnSignal) bool { return o.Condition == s.Condition }; {
		case conditionWord(s.Condition) == "":
			note("Condition %q: want one such as BatteryLow or example.com/BatteryLow", s.Condition)
		case slices.Contains(nodeConditions(), s.Condition), slices.ContainsFunc(p.Own[:i], same):
			note("Condition %s is taken", s.Condition)
		}
		if s.Message == "" || s.Observer == nil {
			note("Message and Observer are required")
		}
		if !slices.ContainsFunc(p.Thresholds, func(t Threshold) bool { return t.Signal == s.Name }) {
			note("no threshold names it")
		}
	}
	return errors.Join(problems...)
}

// The names under which evictions for the limits of single pods are counted.
const (
	volumeLimit    = "emptydirfs.limit"
	podLimit       = "ephemeralpodfs.limit"
	containerLimit = "ephemeralcontainerfs.limit"
)

func localSignals() []string { return []string{volumeLimit, podLimit, containerLimit} }

// nodeConditions returns the conditions that other parts of a node set.
func nodeConditions() []v1.NodeConditionType {
	return []v1.NodeConditionType{v1.NodeReady, v1.NodeMemoryPressure, v1.NodeDiskPressure, v1.NodePIDPressure, v1.NodeNetworkUnavailable}
}

// conditionWord returns a condition without its prefix, as used in reasons; empty if it is not a condition.
func conditionWord(c v1.NodeConditionType) string {
	if len(validation.IsQualifiedName(string(c))) > 0 {
		return ""
	}
	word := string(c[strings.LastIndex(string(c), "/")+1:])
	if strings.ContainsAny(word, "-_.") {
		return ""
	}
	return word
}

// ownKind describes what a signal of the embedding program is about.
func (p Policy) ownKind(s Signal) (kind, bool) {
	i := slices.IndexFunc(p.Own, func(o OwnSignal) bool { return o.Name == s })
	if i < 0 {
		return kind{}, false
	}
	return kind{
		condition: p.Own[i].Condition, urgency: len(kinds()) + i, own: true, message: p.Own[i].Message,
		used: func(Usage) uint64 { return 0 },
	}, true
}

// kind describes what a signal is about; it is zero if there is no such signal.
func (p Policy) kind(s Signal) kind {
	if k, ok := p.ownKind(s); ok {
		return k
	}
	return s.kind()
}

// explain says what there is too little of, for a signal of the embedding program.
func (b breach) explain() string {
	text := b.Observed.Message
	if text == "" {
		text = b.kind.message
	}
	text = fmt.Sprintf("Eviction signal %s: %s.", b.Signal, strings.TrimSuffix(text, "."))
	if !b.Observed.Low {
		text += fmt.Sprintf(" Threshold quantity: %s, available: %s.",
			b.kind.amount(b.Value.Of(b.Observed.Capacity)), b.kind.amount(b.Observed.Available))
	}
	return text
}
