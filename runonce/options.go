package runonce

import (
	"fmt"
	"time"

	"k8s.io/utils/clock"
)

// Defaults of [Options].
const (
	defaultStartLimit  = 10 * time.Minute
	defaultMinReady    = 5 * time.Second
	defaultMaxRestarts = 6
)

// Options configures [New]. The zero value is useful.
type Options struct {
	// Limit is how long the whole run may take. 0 means no limit.
	Limit time.Duration
	// StartLimit is how long a pod may wait for something (an image, an object, room, its
	// readiness) before its outcome is CannotRun. Time in which a container runs that is expected
	// to end does not count. It is also how long the sources may be silent.
	// 0 means 10 min, negative means no limit.
	StartLimit time.Duration
	// MaxRestarts is how often one container may be restarted during the run; if it ends once
	// more, and would be restarted, the outcome of its pod is CannotRun. 0 means 6, as for a Job;
	// negative means no limit.
	MaxRestarts int
	// MinReady is how long the containers of a service must have been ready before its outcome is
	// Running. 0 means 5 s, so that a program that ends at once does not count; negative means no time.
	MinReady time.Duration
	// Drain stops the pods that still run at the end, each with its grace period, whatever ended
	// the run. Without it they keep running unattended.
	Drain bool
	// Clock is the time source of the run. Nil means the real clock.
	Clock clock.Clock
}

// complete fills in the defaults.
func (o *Options) complete() error {
	if o.Limit < 0 {
		return fmt.Errorf("runonce: Limit %v is negative: 0 means no limit", o.Limit)
	}
	if o.StartLimit == 0 {
		o.StartLimit = defaultStartLimit
	}
	if o.MaxRestarts == 0 {
		o.MaxRestarts = defaultMaxRestarts
	}
	if o.MinReady == 0 {
		o.MinReady = defaultMinReady
	}
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	return nil
}
