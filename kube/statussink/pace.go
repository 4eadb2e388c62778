package statussink

import (
	"context"
	"fmt"
	"sync"
	"time"

	"golang.org/x/time/rate"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/clock"

	"github.com/podwright/podwright/kube/internal/answers"
)

const (
	// maxPause bounds the pause that a server may ask for.
	maxPause = 10 * time.Minute
	// minPause follows a refusal because of load that names no time.
	minPause = time.Second
)

// pace limits when calls are made: so many per second, and none while the server has asked for a
// pause (KT7).
type pace struct {
	clock   clock.WithTicker
	limiter *rate.Limiter

	mu sync.Mutex
	// until is the end of the pause.
	until time.Time
}

func newPace(qps float64, burst int, c clock.WithTicker) *pace {
	return &pace{clock: c, limiter: rate.NewLimiter(rate.Limit(qps), burst)}
}

// wait returns nil when a call may be made, or an error that says what delayed it when ctx ends.
func (p *pace) wait(ctx context.Context) error {
	turn := p.limiter.ReserveN(p.clock.Now(), 1)
	for {
		now := p.clock.Now()
		delay := max(turn.DelayFrom(now), p.paused(now))
		if delay <= 0 {
			return context.Cause(ctx)
		}
		if err := p.sleep(ctx, delay); err != nil {
			turn.CancelAt(p.clock.Now())
			return fmt.Errorf("the next may go out in %v (Retry-After of the API server, or QPS of the sink): %w", delay.Round(time.Millisecond), err)
		}
	}
}

func (p *pace) sleep(ctx context.Context, d time.Duration) error {
	timer := p.clock.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C():
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (p *pace) paused(now time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.until.Sub(now)
}

// answered records the outcome of a call.
func (p *pace) answered(err error) {
	pause := pauseAfter(err)
	if pause == 0 {
		return
	}
	until := p.clock.Now().Add(pause)
	p.mu.Lock()
	defer p.mu.Unlock()
	if until.After(p.until) {
		p.until = until
	}
}

// pauseAfter returns the pause that an answer asks for.
func pauseAfter(err error) time.Duration {
	pause := answers.Wait(err, maxPause)
	if pause == 0 && apierrors.IsTooManyRequests(err) {
		return minPause
	}
	return pause
}
