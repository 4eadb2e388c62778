package eviction

import (
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
)

// Value is an amount, or a share of the capacity if Percent is set.
type Value struct {
	// Quantity in the unit of the signal: bytes or a count.
	Quantity uint64
	// Percent of the capacity, up to 100; 0 means that Quantity counts.
	Percent float64
}

// Of returns the amount that the value stands for, given a capacity.
func (v Value) Of(capacity uint64) uint64 {
	if v.Percent == 0 {
		return v.Quantity
	}
	return uint64(float64(capacity) * v.Percent / 100)
}

// Threshold is a limit: it is met when less than Value is available.
type Threshold struct {
	Signal Signal
	// Value 0 is met only by an [Observation] that says Low.
	Value Value
	// Grace is how long a soft limit must be met before a pod is evicted. 0 makes the limit hard:
	// it acts at once and gives the pod one second.
	Grace time.Duration
	// MinReclaim must be available in addition to Value before a limit that was acted on stops
	// being due.
	MinReclaim Value
}

// Hard reports whether the limit acts at once.
func (t Threshold) Hard() bool { return t.Grace == 0 }

// Defaults of [Policy] (section 16), and its fixed figures.
const (
	defaultTransition = 5 * time.Minute

	// period is the time between two passes.
	period = 10 * time.Second
	// hardGrace is the grace, in seconds, of a pod evicted by a hard limit.
	hardGrace = 1
)

// DefaultThresholds are the hard limits of a node: memory 100Mi, nodefs 10 % and 5 %
// of its inodes, imagefs 15 % and 5 % of its inodes.
func DefaultThresholds() []Threshold {
	return []Threshold{
		{Signal: MemoryAvailable, Value: Value{Quantity: 100 << 20}},
		{Signal: NodeFsAvailable, Value: Value{Percent: 10}},
		{Signal: NodeFsInodesFree, Value: Value{Percent: 5}},
		{Signal: ImageFsAvailable, Value: Value{Percent: 15}},
		{Signal: ImageFsInodesFree, Value: Value{Percent: 5}},
	}
}

// Policy says when and how pods are evicted.
type Policy struct {
	// Thresholds are the limits. Nil: [DefaultThresholds]; empty: none.
	Thresholds []Threshold
	// Own are signals of the embedding program, each with at least one threshold. When several
	// limits are due, these come after those of the node, in this order.
	Own []OwnSignal
	// MaxPodGrace bounds the grace of a pod that a soft limit evicts. 0: only the pod's own grace
	// counts. It is rounded up to whole seconds.
	MaxPodGrace time.Duration
	// Transition is how long a node condition stays after the last reading that called for it. 0
	// means 5 min; negative means that it does not stay.
	Transition time.Duration
}

// complete fills in defaults and reports every problem.
func (p Policy) complete() (Policy, error) {
	if p.Thresholds == nil {
		p.Thresholds = DefaultThresholds()
	}
	if p.Transition == 0 {
		p.Transition = defaultTransition
	}
	var problems []error
	for i, t := range p.Thresholds {
		if err := t.check(p); err != nil {
			problems = append(problems, fmt.Errorf("threshold %d: %w", i, err))
		}
	}
	problems = append(problems, p.checkOwn())
	if p.MaxPodGrace < 0 {
		problems = append(problems, fmt.Errorf("MaxPodGrace is negative: %v", p.MaxPodGrace))
	}
	return p, errors.Join(problems...)
}

func (t Threshold) check(p Policy) error {
	var problems []error
	if p.kind(t.Signal).condition == "" {
		problems = append(problems, fmt.Errorf("no such signal %q", t.Signal))
	}
	for _, v := range []Value{t.Value, t.MinReclaim} {
		if !(v.Percent >= 0 && v.Percent <= 100) || v.Percent != 0 && v.Quantity != 0 {
			problems = append(problems, fmt.Errorf("%s: want an amount or 0 to 100 percent, not %d and %v %%", t.Signal, v.Quantity, v.Percent))
		}
	}
	if t.Grace < 0 {
		problems = append(problems, fmt.Errorf("%s: Grace is negative: %v", t.Signal, t.Grace))
	}
	return errors.Join(problems...)
}

// amount prints an amount of the signal's resource.
func (k kind) amount(n uint64) string {
	if !k.bytes {
		return fmt.Sprint(n)
	}
	return resource.NewQuantity(int64(min(n, 1<<62)), resource.BinarySI).String()
}
