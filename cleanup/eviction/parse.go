package eviction

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
)

// Text holds limits in the syntax of the kubelet's flags.
type Text struct {
	// Hard and Soft limits: "memory.available<100Mi,nodefs.available<10%".
	Hard, Soft string
	// SoftGrace has a grace period for each soft limit: "memory.available=1m30s".
	SoftGrace string
	// MinReclaim: "memory.available=0Mi,nodefs.available=500Mi". Optional.
	MinReclaim string
}

// Parse reads limits, or returns an error that names everything wrong with them. Without any limits
// it returns nil. The text may name the signals of the node and the given ones, which are the names
// of [Policy.Own]. For a signal of the node, a limit of 0 means no limit; for one of the program's
// own, it is met by an [Observation] that says Low.
func (t Text) Parse(own ...Signal) ([]Threshold, error) {
	var policy Policy
	for _, signal := range own {
		policy.Own = append(policy.Own, OwnSignal{Name: signal, Condition: "Own"})
	}
	p := parser{policy: policy}
	hard, soft := p.pairs("hard limits", t.Hard, "<"), p.pairs("soft limits", t.Soft, "<")
	graces, reclaims := p.pairs("soft grace", t.SoftGrace, "="), p.pairs("minimum reclaim", t.MinReclaim, "=")
	var out []Threshold
	add := func(signal, value string, grace time.Duration) {
		v := p.value(signal, value)
		if v == (Value{}) && !policy.kind(Signal(signal)).own {
			return // no limit
		}
		t := Threshold{Signal: Signal(signal), Value: v, Grace: grace}
		if text, ok := reclaims[signal]; ok {
			t.MinReclaim = p.value(signal, text)
		}
		p.note(t.check(policy))
		out = append(out, t)
	}
	for _, signal := range slices.Sorted(maps.Keys(hard)) {
		add(signal, hard[signal], 0)
	}
	for _, signal := range slices.Sorted(maps.Keys(soft)) {
		grace, err := time.ParseDuration(graces[signal])
		if err != nil || grace <= 0 {
			p.note(fmt.Errorf("%s: a soft limit needs a grace, such as %s=1m30s, not %q", signal, signal, graces[signal]))
			continue
		}
		add(signal, soft[signal], grace)
	}
	for _, signal := range slices.Sorted(maps.Keys(graces)) {
		if _, ok := soft[signal]; !ok {
			p.note(fmt.Errorf("%s has a grace period but no soft limit", signal))
		}
	}
	for _, signal := range slices.Sorted(maps.Keys(reclaims)) {
		if hard[signal] == "" && soft[signal] == "" {
			p.note(fmt.Errorf("%s has a minimum reclaim but no limit", signal))
		}
	}
	return out, errors.Join(p.problems...)
}

// parser collects what is wrong.
type parser struct {
	policy   Policy // whose signals exist
	problems []error
}

func (p *parser) note(err error) {
	if err != nil {
		p.problems = append(p.problems, err)
	}
}

// pairs reads a list of signals and values.
func (p *parser) pairs(what, text, separator string) map[string]string {
	out := map[string]string{}
	for part := range strings.SplitSeq(text, ",") {
		if strings.TrimSpace(part) == "" {
			continue
		}
		signal, value, ok := strings.Cut(part, separator)
		signal, value = strings.TrimSpace(signal), strings.TrimSpace(value)
		if !ok || signal == "" || value == "" {
			p.note(fmt.Errorf("%s: %q: want a signal, such as memory.available, %q and a value", what, part, separator))
			continue
		}
		if p.policy.kind(Signal(signal)).condition == "" {
			p.note(fmt.Errorf("%s: there is no signal %q; there are %s", what, signal, p.signals()))
			continue
		}
		if _, twice := out[signal]; twice {
			p.note(fmt.Errorf("%s: %s is given twice", what, signal))
		}
		out[signal] = value
	}
	return out
}

// signals lists the signals that a text may name.
func (p *parser) signals() string {
	var all []string
	for signal := range kinds() {
		all = append(all, string(signal))
	}
	for _, own := range p.policy.Own {
		all = append(all, string(own.Name))
	}
	slices.Sort(all)
	return strings.Join(all, ", ")
}

// value reads "10%" or "100Mi".
func (p *parser) value(signal, text string) Value {
	if number, ok := strings.CutSuffix(text, "%"); ok {
		percent, err := strconv.ParseFloat(number, 64)
		if err != nil || !(percent >= 0 && percent <= 100) {
			p.note(fmt.Errorf("%s: %q is not between 0%% and 100%%", signal, text))
			return Value{}
		}
		return Value{Percent: percent}
	}
	q, err := resource.ParseQuantity(text)
	if err != nil || q.Sign() < 0 {
		p.note(fmt.Errorf("%s: %q is neither an amount, such as 100Mi, nor a percentage", signal, text))
		return Value{}
	}
	return Value{Quantity: uint64(q.Value())}
}
