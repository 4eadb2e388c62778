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
// the headroom of a temperature, or a licence. A [Threshold] that names it says how little is too
// little. While too little is available the node has the signal's condition, and takes only
// critical pods; when the limit is due, pods go, one at a time. No pod uses any of it: those with
// the lowest priority go first, then BestEffort before Burstable before Guaranteed.
type OwnSignal struct {
	// Name is what thresholds, messages and metrics call it, such as battery.charge.
	Name Signal
	// Condition of the node, such as BatteryLow or example.com/BatteryLow. Each signal has
	// its own, which no other part of the node sets.
	Condition v1.NodeConditionType
	// Message says what the condition means, for the node and for evicted pods. An
	// [Observation] may say more.
	Message string
	// Observer reads it.
	Observer Observer
}

// Observer reads a signal of the program that embeds the manager.
type Observer interface {
	// Observe returns how much is available now, or an error, which decides nothing. It is
	// called in every pass, on a goroutine of its own, and never again before it has
	// returned. The pass waits a second for it: what comes later counts in the next pass.
	// After 10 s its context ends. One that hangs, panics or fails is logged once and is one
	// of the problems; it holds up no other signal.
	Observe(ctx context.Context) (Observation, error)
}

// ObserverFunc makes a function an Observer.
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

// localSignals are the names by which evictions for the limits of single pods are counted.
func localSignals() []string {
	return []string{"emptydirfs.limit", "ephemeralpodfs.limit", "ephemeralcontainerfs.limit"}
}

// nodeConditions are those that other parts of a node set.
func nodeConditions() []v1.NodeConditionType {
	return []v1.NodeConditionType{v1.NodeReady, v1.NodeMemoryPressure, v1.NodeDiskPressure, v1.NodePIDPressure, v1.NodeNetworkUnavailable}
}

// conditionWord is a condition without its prefix, as reasons have it; empty if it is none.
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

// ownKind is what a signal of the embedding program is about.
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

// kind is what a signal is about, the zero kind if there is no such signal.
func (p Policy) kind(s Signal) kind {
	if k, ok := p.ownKind(s); ok {
		return k
	}
	return s.kind()
}

// explain says what is too little of, for the signal of an embedding program.
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
