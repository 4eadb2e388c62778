package events

import (
	"cmp"
	"errors"

	"github.com/go-logr/logr"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/clock"
)

// Options configures [New]. Client and Node are required.
type Options struct {
	// Client talks to the API server. It should not share a rate limiter with statuses or the
	// lease.
	Client kubernetes.Interface
	// Node is the name of the node that the events come from.
	Node string
	// Component is the reporting component. Empty means podwright.
	Component string
	// MaxQueued is how many events wait for the server at most. Beyond that, the oldest are
	// dropped. 0 means 1,000.
	MaxQueued int
	// Clock is the agent's time. Nil means the real clock.
	Clock clock.WithTicker
	// Logger gets the server's refusals, and how many events were dropped. Zero means silent.
	Logger logr.Logger
}

func (o *Options) complete() error {
	var problems []error
	if o.Client == nil {
		problems = append(problems, errors.New("no Client: a client of the API server is required"))
	}
	if o.Node == "" {
		problems = append(problems, errors.New("no Node: its name is required"))
	}
	if o.MaxQueued < 0 {
		problems = append(problems, errors.New("MaxQueued is positive, or 0 for 1,000"))
	}
	o.Component = cmp.Or(o.Component, "podwright")
	o.MaxQueued = cmp.Or(o.MaxQueued, 1000)
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	return errors.Join(problems...)
}
