package podwright

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/utils/clock"

	"github.com/podwright/podwright/internal/timing"
)

// Timing of the runtime's health (spec/syncloop.md 2).
const (
	healthPeriod  = 5 * time.Second
	healthRetry   = time.Second // while it is not well: what waits should go on soon
	healthStale   = 30 * time.Second
	healthTimeout = 10 * time.Second
)

// statuser is the part of the runtime that says how it is.
type statuser interface {
	Status(ctx context.Context, verbose bool) (*runtimeapi.StatusResponse, error)
}

// runtimeHealth asks the runtime how it is every 5 s, while it is not well every
// second, and remembers the answer
// (spec/syncloop.md 13). Ages are measured by the clock's monotonic reading.
type runtimeHealth struct {
	runtime statuser
	clock   clock.WithTicker
	changed func() // called without a lock after the verdict changed

	mu       sync.Mutex
	lastGood time.Time
	verdict  verdict
	// callErr is why the last call failed, nil if it did not.
	callErr error
	// announced is what changed was last called for.
	announced [2]bool
}

// verdict is what a status answer says (RH1).
type verdict struct {
	runtime, network error
}

var errHealthUnknown = errors.New("the runtime has not been asked yet")

// newRuntimeHealth starts out not knowing: nothing is set up before the first
// good answer (RH2, RH3).
func newRuntimeHealth(rt statuser, c clock.WithTicker, changed func()) *runtimeHealth {
	return &runtimeHealth{
		runtime: rt, clock: c, changed: changed,
		verdict:   verdict{runtime: errHealthUnknown, network: errHealthUnknown},
		announced: [2]bool{true, true},
	}
}

// run asks until ctx ends.
func (h *runtimeHealth) run(ctx context.Context) {
	timer := h.clock.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C():
		}
		h.ask(ctx)
		timer.Reset(h.pause())
	}
}

// pause is the time until the next question.
func (h *runtimeHealth) pause() time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.callErr != nil || h.verdict.runtime != nil || h.verdict.network != nil {
		return healthRetry
	}
	return healthPeriod
}

// ask takes one reading.
func (h *runtimeHealth) ask(ctx context.Context) {
	callCtx, cancel := timing.WithTimeout(ctx, h.clock, healthTimeout)
	defer cancel()
	response, err := h.runtime.Status(callCtx, false)
	if ctx.Err() != nil {
		return
	}
	now := h.clock.Now()

	h.mu.Lock()
	h.callErr = err
	if err == nil {
		h.verdict = judge(response)
		if h.verdict.runtime == nil {
			h.lastGood = now
		}
	}
	problems := [2]bool{h.runtimeErr(now) != nil, h.verdict.network != nil}
	news := problems != h.announced
	h.announced = problems
	h.mu.Unlock()
	if news {
		h.changed()
	}
}

// judge reads the conditions of a status answer. A missing condition is a
// problem, as is an empty answer.
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
func (h *runtimeHealth) runtimeErr(now time.Time) error {
	switch {
	case h.lastGood.IsZero() && h.callErr != nil:
		return fmt.Errorf("the container runtime does not answer: %w", h.callErr)
	case h.verdict.runtime != nil:
		return fmt.Errorf("container runtime: %w", h.verdict.runtime)
	case now.Sub(h.lastGood) > healthStale:
		return fmt.Errorf("the container runtime is down for %v: %w", now.Sub(h.lastGood).Truncate(time.Second), h.callErr)
	}
	return nil
}

// Runtime returns why the runtime cannot be used, nil if it can.
func (h *runtimeHealth) Runtime() error {
	now := h.clock.Now()
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.runtimeErr(now)
}

// Network returns why the pod network cannot be used, nil if it can (RH3).
func (h *runtimeHealth) Network() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.verdict.network
}
