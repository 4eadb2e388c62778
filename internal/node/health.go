package node

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-logr/logr"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/utils/clock"

	"github.com/podwright/podwright/internal/foreign"
	"github.com/podwright/podwright/internal/problem"
	"github.com/podwright/podwright/internal/timing"
)

// Timing of the runtime's health (spec/syncloop.md 2).
const (
	healthPeriod  = 5 * time.Second
	healthRetry   = time.Second // while it is not well, so that what waits soon continues
	healthStale   = 30 * time.Second
	healthTimeout = 10 * time.Second
)

// RuntimeStatus is the part of the runtime that says how it is.
type RuntimeStatus interface {
	Status(ctx context.Context, verbose bool) (*runtimeapi.StatusResponse, error)
}

// HealthOptions configures [NewHealth].
type HealthOptions struct {
	Runtime RuntimeStatus
	// Calls lists the calls of the run; nil: its own.
	Calls *foreign.Calls
	Clock clock.WithTicker
	// Changed is called after the runtime or its network became usable or unusable.
	Changed func()
	Logger  logr.Logger
}

// Health asks the runtime for its status every 5 s, or every second while it is not well, and
// remembers the answer (spec/syncloop.md 13). Ages are measured with the clock's monotonic reading.
type Health struct {
	options HealthOptions
	made    time.Time
	// wellOnce is closed when the runtime is well for the first time.
	wellOnce chan struct{}

	mu       sync.Mutex
	lastGood time.Time
	verdict  verdict
	features *runtimeapi.RuntimeFeatures
	// callErr is why the last call failed, nil if it succeeded.
	callErr error
	// announced are the problems for which Changed was last called.
	announced unusable
	// since is when the runtime and its network became unusable, or were first asked.
	since struct{ runtime, network time.Time }
}

// unusable says what cannot be used.
type unusable struct{ runtime, network bool }

// verdict is what a status answer says (RH1).
type verdict struct {
	runtime, network error
}

var errHealthUnknown = errors.New("the runtime has not been asked yet")

// NewHealth returns a Health that knows nothing yet: nothing is set up before the first good answer
// (RH2, RH3).
func NewHealth(options HealthOptions) *Health {
	if options.Calls == nil {
		options.Calls = foreign.New(options.Clock)
	}
	return &Health{
		options: options, made: options.Clock.Now(), wellOnce: make(chan struct{}),
		verdict:   verdict{runtime: errHealthUnknown, network: errHealthUnknown},
		announced: unusable{runtime: true, network: true},
	}
}

// Run asks until ctx ends.
func (h *Health) Run(ctx context.Context) error {
	for {
		h.ask(ctx)
		if timing.Sleep(ctx, h.options.Clock, h.pause()) != nil {
			return nil
		}
	}
}

// pause is the time until the next question.
func (h *Health) pause() time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.callErr != nil || h.verdict.runtime != nil || h.verdict.network != nil {
		return healthRetry
	}
	return healthPeriod
}

// ask takes one reading.
func (h *Health) ask(ctx context.Context) {
	callCtx, cancel := timing.WithTimeout(ctx, h.options.Clock, healthTimeout)
	defer cancel()
	// A runtime that ignores its context must not delay the end of Run. It is not asked again before it
	// has answered, and then its answer counts.
	call := foreign.Call{Kind: problem.RuntimeCall, Name: "Status"} // WatchRuntime lists its wait
	limits := foreign.Limits{Join: true, Keep: true, Late: deafAfter}
	response, err := foreign.Ask(callCtx, h.options.Calls, call, limits, func(ctx context.Context) (*runtimeapi.StatusResponse, error) {
		return h.options.Runtime.Status(ctx, false)
	})
	if ctx.Err() != nil {
		return
	}
	now := h.options.Clock.Now()

	h.mu.Lock()
	// The last answer may have become too old meanwhile; then a good answer is a change.
	wasStale := !h.announced.runtime && h.runtimeErr(now) != nil
	h.callErr = err
	if err == nil {
		h.verdict, h.features = judge(response), response.GetFeatures()
		if h.verdict.runtime == nil {
			h.lastGood = now
		}
	}
	why := h.runtimeErr(now)
	found := unusable{runtime: why != nil, network: h.verdict.network != nil}
	h.age(found, now)
	changed := found != h.announced || wasStale && !found.runtime
	h.announced = found
	h.mu.Unlock()
	if changed {
		h.announce(why)
	}
}

// age records since when something cannot be used. The caller holds the lock.
func (h *Health) age(found unusable, now time.Time) {
	for _, x := range []struct {
		bad   bool
		since *time.Time
	}{{found.runtime, &h.since.runtime}, {found.network, &h.since.network}} {
		switch {
		case !x.bad:
			*x.since = time.Time{}
		case x.since.IsZero():
			*x.since = now
		}
	}
}

// Answered reports whether the runtime has ever said how it is.
func (h *Health) Answered() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.verdict.runtime != errHealthUnknown //nolint:errorlint // it is never wrapped
}

// StrictGroups reports whether the runtime supports supplementalGroupsPolicy Strict, according to
// its newest answer.
func (h *Health) StrictGroups() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.features.GetSupplementalGroupsPolicy()
}

// Problems returns what cannot be used of the runtime.
func (h *Health) Problems() []problem.Problem {
	now := h.options.Clock.Now()
	h.mu.Lock()
	defer h.mu.Unlock()
	var out []problem.Problem
	if err := h.runtimeErr(now); err != nil {
		p := problem.Problem{
			Kind: problem.Runtime, Severity: problem.Unhealthy, Name: "runtime", Since: h.since.runtime,
			Waits: "the container runtime to be ready", Advice: "start the container runtime, or look at its log; pods stay as they are meanwhile",
		}
		switch {
		case !h.lastGood.IsZero():
			p.Since = h.lastGood
		case p.Since.IsZero():
			p.Since = h.made
		}
		out = append(out, p.Because(err))
	}
	if err := h.verdict.network; err != nil && !h.lastGood.IsZero() && h.callErr == nil {
		p := problem.Problem{
			Kind: problem.Network, Severity: problem.Listed, Name: "network", Since: h.since.network,
			Waits: "the pod network to be ready", Advice: "look at the network plugin; pods on the host's network are not affected",
		}
		out = append(out, p.Because(err))
	}
	return out
}

// announce reports a change. Only Run's goroutine calls it.
func (h *Health) announce(why error) {
	if why != nil {
		h.options.Logger.Info("runtime is not usable; pods are left as they are", "error", why.Error())
	} else {
		select {
		case <-h.wellOnce:
		default:
			close(h.wellOnce)
		}
	}
	h.options.Changed()
}

// WellOnce returns a channel that is closed when the runtime is well for the first time.
func (h *Health) WellOnce() <-chan struct{} { return h.wellOnce }

// judge reads the conditions of a status answer. A missing condition is a problem, and so is an
// empty answer.
func judge(response *runtimeapi.StatusResponse) verdict {
	v := verdict{
		runtime: errors.New("the runtime does not report the condition RuntimeReady"),
		network: errors.New("the runtime does not report the condition NetworkReady"),
	}
	for _, c := range response.GetStatus().GetConditions() {
		var err error
		if !c.GetStatus() {
			err = fmt.Errorf("%s is false: %s %s", c.GetType(), c.GetReason(), c.GetMessage())
		}
		switch c.GetType() {
		case runtimeapi.RuntimeReady:
			v.runtime = err
		case runtimeapi.NetworkReady:
			v.network = err
		}
	}
	return v
}

// runtimeErr is RH2; the caller holds the lock.
func (h *Health) runtimeErr(now time.Time) error {
	switch {
	case h.lastGood.IsZero() && h.callErr != nil:
		return fmt.Errorf("the container runtime does not answer: %w", h.callErr)
	case h.verdict.runtime != nil:
		return fmt.Errorf("container runtime: %w", h.verdict.runtime)
	case now.Sub(h.lastGood) > healthStale && h.callErr == nil: // the agent was paused
		return fmt.Errorf("the container runtime has not been asked for %v", now.Sub(h.lastGood).Truncate(time.Second))
	case now.Sub(h.lastGood) > healthStale:
		return fmt.Errorf("the container runtime has been down for %v: %w", now.Sub(h.lastGood).Truncate(time.Second), h.callErr)
	}
	return nil
}

// Runtime returns why the runtime cannot be used, nil if it can.
func (h *Health) Runtime() error {
	now := h.options.Clock.Now()
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.runtimeErr(now)
}

// Network returns why the pod network cannot be used, nil if it can (RH3).
func (h *Health) Network() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.verdict.network
}
