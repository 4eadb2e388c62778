package syncloop

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
)

// stepper drives a loop one pod at a time instead of Loop.Run (B8): nothing happens outside its
// methods, and the order in which waiting inputs are handled follows from a seed alone. No
// goroutine is started, except that a housekeeping pass runs to its end within a step; sources do
// not run: the test delivers in their place. Only one goroutine may use it.
type stepper struct {
	loop   *Loop
	random *rand.Rand
}

// newStepper takes over the loop, which can no longer be run. It fails with errRunning if the loop
// is running or has run.
func newStepper(l *Loop, seed uint64) (*stepper, error) {
	if !l.started.CompareAndSwap(false, true) {
		return nil, errRunning
	}
	l.sources.stop()
	if l.options.Housekeeper != nil {
		l.schedule.passAt = l.options.Clock.Now().Add(l.options.HousekeepingPeriod)
	}
	return &stepper{loop: l, random: rand.New(rand.NewPCG(seed, seed))}, nil
}

// errFull is what Deliver returns while as much waits as a queue takes.
var errFull = errors.New("the queue of the loop is full")

// Deliver hands over the full set of a source, as the source would. It does not
// block; it fails with errFull if the next Step must come first.
func (s *stepper) Deliver(ctx context.Context, source string, pods []*v1.Pod) error {
	if s.loop.mux.lookup(source) == nil {
		return fmt.Errorf("syncloop: no source is called %q", source)
	}
	if len(s.loop.mux.queue) == cap(s.loop.mux.queue) {
		return errFull
	}
	return s.loop.mux.deliver(ctx, source, pods)
}

// Step handles one pod of one input that waits: an operation, an event, held work or housekeeping
// that is due by the clock. The seed decides which one, but the operations of one source keep their
// order. Step reports whether there was one.
func (s *stepper) Step(ctx context.Context) bool {
	l := s.loop
	waits := l.gather(ctx)
	var choices []func()
	for from := range lanes {
		if waits[from] {
			choices = append(choices, func() { l.handle(ctx, from, 1) })
		}
	}
	now := l.options.Clock.Now()
	if at := l.schedule.retryAt; !at.IsZero() && !now.Before(at) {
		choices = append(choices, func() { l.retryHeld(ctx) })
	}
	select {
	case <-l.trigger:
		l.passSoon()
	default:
	}
	if at := l.schedule.passAt; !at.IsZero() && !now.Before(at) && l.Ready() {
		choices = append(choices, func() { s.pass(ctx) })
	}
	if len(choices) == 0 {
		return false
	}
	choices[s.random.IntN(len(choices))]()
	return true
}

// pass makes one housekeeping pass.
func (s *stepper) pass(ctx context.Context) {
	var wg sync.WaitGroup
	done := make(chan time.Duration, 1)
	s.loop.startPass(ctx, &wg, done)
	wg.Wait()
	select {
	case rest := <-done:
		s.loop.passDone(rest)
	default:
	}
}
