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

// Text is limits as the kubelet's flags have them.
type Text struct {
	// Hard and Soft limits: "memory.available<100Mi,nodefs.available<10%".
	Hard, Soft string
	// SoftGrace has a grace for each soft limit: "memory.available=1m30s".
	SoftGrace string
	// MinReclaim: "memory.available=0Mi,nodefs.available=500Mi". Optional.
	MinReclaim string
}

// Parse reads limits, or says everything that is wrong with them. Without any it
// returns nil.
func (t Text) Parse() ([]Threshold, error) {
	p := parser{}
	hard, soft := p.pairs("hard limits", t.Hard, "<"), p.pairs("soft limits", t.Soft, "<")
	graces, reclaims := p.pairs("soft grace", t.SoftGrace, "="), p.pairs("minimum reclaim", t.MinReclaim, "=")
	var out []Threshold
	add := func(signal, value string, grace time.Duration) {
		v := p.value(signal, value)
		if v == (Value{}) {
			return // no limit
		}
		t := Threshold{Signal: Signal(signal), Value: v, Grace: grace}
		if text, ok := reclaims[signal]; ok {
			t.MinReclaim = p.value(signal, text)
		}
		p.note(t.check(Policy{}))
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
			p.note(fmt.Errorf("%s has a grace and no soft limit", signal))
		}
	}
	for _, signal := range slices.Sorted(maps.Keys(reclaims)) {
		if hard[signal] == "" && soft[signal] == "" {
			p.note(fmt.Errorf("%s has a minimum reclaim and no limit", signal))
		}
	}
	return out, errors.Join(p.problems...)
}

// parser collects what is wrong.
type parser struct{ problems []error }

func (p *parser) note(err error) {
	if err != nil {
		p.problems = append(p.problems, err)
	}
}

// pairs reads a list of signals with texts.
func (p *parser) pairs(what, text, separator string) map[string]string {
	out := map[string]string{}
	for part := range strings.SplitSeq(text, ",") {
		if strings.TrimSpace(part) == "" {
			continue
		}
		signal, value, ok := strings.Cut(part, separator)
		signal, value = strings.TrimSpace(signal), strings.TrimSpace(value)
		if _, known := kinds()[Signal(signal)]; !ok || !known || value == "" {
			p.note(fmt.Errorf("%s: %q: want a signal, such as memory.available, %q and a value", what, part, separator))
			continue
		}
		if _, twice := out[signal]; twice {
			p.note(fmt.Errorf("%s: %s is given twice", what, signal))
		}
		out[signal] = value
	}
	return out
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
