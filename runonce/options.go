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
	// Limit is how long the whole run may take. 0: it takes as long as its pods do.
	Limit time.Duration
	// StartLimit is how long a pod may wait for something before it counts as one that cannot
	// run: an image, an object, room, its readiness. The time in which one of its containers
	// runs towards its end does not count. It is also how long the sources may be silent.
	// 0: 10 min. Negative: no limit.
	StartLimit time.Duration
	// MaxRestarts is how often one container is restarted during the run; if it ends once more,
	// and would be restarted, its pod counts as one that cannot run. 0: 6, as for a Job.
	// Negative: no limit.
	MaxRestarts int
	// MinReady is how long the containers of a pod that runs for good must have been ready. 0: 5 s,
	// so that a program that ends at once is not taken for one that runs. Negative: a moment.
	MinReady time.Duration
	// Drain stops the pods that still run at the end, each with its grace period, whatever ended
	// the run. Without it they go on, and nothing looks after them.
	Drain bool
	// Clock is the time of the run. Nil: the real clock.
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
