package pleg

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/podwright/podwright/internal/timing"
)

// quietAfter is how long nothing must have changed before the quiet period applies (B7).
const quietAfter = 10 * time.Second

// relistCall is one Relist call that a Run serves.
type relistCall struct {
	done  chan struct{}
	batch *batch
	err   error
}

// Run relists every period, serves refreshes and watches the event stream until ctx ends, and then
// returns nil. Every goroutine it started has ended by then, except those of calls that ignore
// their context for longer than Options.WriteOffAfter; [Generator.Health] counts those. A second
// Run at the same time fails; one after the other is fine.
func (g *Generator) Run(ctx context.Context) error {
	g.mu.Lock()
	if g.running {
		g.mu.Unlock()
		return errRunning
	}
	g.running = true
	g.mu.Unlock()
	defer g.stop()

	withdraw, err := g.metrics.export(g)
	if err != nil {
		return fmt.Errorf("pleg metrics: %w", err)
	}
	defer withdraw()
	var started sync.WaitGroup
	defer started.Wait()
	if g.options.Streamer != nil {
		started.Go(func() { g.watch(ctx) })
	}
	g.loop(ctx, &started)
	return nil
}

// loop is the dispatcher (D2). It never blocks on I/O: a relist in progress delays no refresh.
func (g *Generator) loop(ctx context.Context, started *sync.WaitGroup) {
	period := g.options.Period
	timer := g.options.Clock.NewTimer(period)
	defer timer.Stop()
	due, relisting := true, false
	ended := make(chan struct{}, 1)
	for {
		g.pump(ctx, started)
		listing := len(g.relisting) > 0 // read before shared, which is set first
		if g.takeShared() && !relisting {
			due, period = false, g.period()
			timing.Restart(timer, period)
		}
		asked := g.askedRelists(relisting)
		if !relisting && (due && !listing || len(asked) > 0 || g.takeEarly()) {
			due, relisting = false, true
			started.Go(func() {
				_, b, err := g.relistOnce(ctx, false)
				for _, call := range asked {
					call.batch, call.err = b, err
					close(call.done)
				}
				ended <- struct{}{}
			})
		}
		select {
		case <-ctx.Done():
			return
		case <-g.wake:
			// Something changed: a quiet period ends at once.
			if now := g.period(); !relisting && !due && now < period {
				period = now
				timing.Restart(timer, period)
			}
		case <-ended:
			relisting = false
			period = g.period()
			timing.Restart(timer, period)
		case <-timer.C():
			due = !relisting
		}
	}
}

// period returns the time from the end of a relist to the next (B7).
func (g *Generator) period() time.Duration {
	if g.options.QuietPeriod <= g.options.Period || !g.stream.healthy() {
		return g.options.Period
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	since := g.options.Clock.Since(g.active)
	if g.active.IsZero() || since >= 0 && since < quietAfter || len(g.urgent)+len(g.queue)+g.places+g.unanswered > 0 {
		return g.options.Period
	}
	return g.options.QuietPeriod
}

// stop ends what callers are waiting for when a Run ends.
func (g *Generator) stop() {
	g.mu.Lock()
	defer g.unlock()
	g.running = false
	for _, call := range g.asked {
		call.err = ErrStopped
		close(call.done)
	}
	g.asked = nil
	for _, r := range g.pods {
		r.refuse(ErrStopped)
	}
}

// askedRelists takes the waiting Relist calls, if a relist can start now.
func (g *Generator) askedRelists(relisting bool) []*relistCall {
	if relisting {
		return nil
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	asked := g.asked
	g.asked = nil
	return asked
}

// takeEarly reports whether an early relist was requested (EV8), and clears the request.
func (g *Generator) takeEarly() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	early := g.early
	g.early = false
	return early
}

// takeShared reports whether ListRunning has made the relist that was due next (B15), and clears that.
func (g *Generator) takeShared() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	shared := g.shared
	g.shared = false
	return shared
}

// signal wakes the dispatcher.
func (g *Generator) signal() {
	select {
	case g.wake <- struct{}{}:
	default:
	}
}

// Relist does one relist and waits until every pod that the list showed changed has been read, or
// ctx ends. Without Run this is the manual mode: the caller's goroutine drives everything, and
// nothing happens between two calls (B10). With Run, it makes a relist due at once.
func (g *Generator) Relist(ctx context.Context) error {
	call := &relistCall{done: make(chan struct{})}
	g.mu.Lock()
	running := g.running
	if running {
		g.asked = append(g.asked, call)
	}
	g.mu.Unlock()
	if running {
		g.signal()
		select {
		case <-call.done:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	} else {
		_, call.batch, call.err = g.relistOnce(ctx, false)
	}
	if call.err != nil {
		return fmt.Errorf("relist: %w", call.err)
	}
	return g.drive(ctx, call.batch.done)
}

// drive waits for done. Without a Run it starts the readings itself and waits for those it started.
func (g *Generator) drive(ctx context.Context, done <-chan struct{}) error {
	var started sync.WaitGroup
	defer started.Wait()
	for {
		g.mu.Lock()
		running := g.running
		g.mu.Unlock()
		wake := g.wake
		if running {
			wake = nil
		} else {
			g.pump(ctx, &started)
		}
		select {
		case <-done:
			return nil
		default:
		}
		select {
		case <-done:
			return nil
		case <-wake:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
