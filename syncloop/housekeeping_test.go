package syncloop

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/podwright/podwright/internal/problem"
)

// housekeeperFunc adapts a function to Housekeeper.
type housekeeperFunc func(ctx context.Context, fence func(func())) error

func (f housekeeperFunc) Housekeep(ctx context.Context, fence func(func())) (time.Duration, error) {
	return 0, f(ctx, fence)
}

// passes records when passes began, relative to begin.
type passes struct {
	begin time.Time
	body  housekeeperFunc
	rest  time.Duration

	mu sync.Mutex
	at []time.Duration
}

func (p *passes) Housekeep(ctx context.Context, fence func(func())) (time.Duration, error) {
	p.mu.Lock()
	p.at = append(p.at, time.Since(p.begin))
	p.mu.Unlock()
	if p.body != nil {
		return p.rest, p.body(ctx, fence)
	}
	return p.rest, nil
}

// from makes later passes relative to begin.
func (p *passes) from(begin time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.begin = begin
}

// take returns when passes began since the last take.
func (p *passes) take() []time.Duration {
	synctest.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	at := p.at
	p.at = nil
	return at
}

func (p *passes) want(t *testing.T, what string, at ...time.Duration) {
	t.Helper()
	if diff := cmp.Diff(at, p.take()); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

const ms = time.Millisecond

func TestHousekeepingSchedule(t *testing.T) { // R3, SG1, B6, section 2
	synctest.Test(t, func(t *testing.T) {
		source, l := newScripted("file"), &log{}
		p := &passes{begin: time.Now()}
		loop, stop := run(t, l, Options{Sources: []Source{source}, Housekeeper: p})
		defer stop()
		loop.TriggerHousekeeping()
		pass(10 * time.Second)
		p.want(t, "never before all sources are ready")

		source.set()
		pass(100 * ms)
		p.want(t, "soon after the last source became ready", 10*time.Second+10*ms)
		pass(4*time.Second - 90*ms)
		p.want(t, "every 2 s", 12*time.Second+10*ms, 14*time.Second+10*ms)

		loop.TriggerHousekeeping()
		loop.TriggerHousekeeping()
		pass(50 * ms)
		p.want(t, "not twice within 200 ms")
		pass(150 * ms)
		p.want(t, "once 200 ms have passed", 14*time.Second+210*ms)
		pass(time.Second)
		loop.TriggerHousekeeping()
		pass(20 * ms)
		p.want(t, "at once if the last pass is long ago", 15*time.Second+220*ms)
	})
}

func TestPassesDoNotOverlap(t *testing.T) { // HK2, B5, L5
	synctest.Test(t, func(t *testing.T) {
		source, l := newScripted("file"), &log{}
		running, release := 0, make(chan struct{})
		p := &passes{begin: time.Now(), body: func(_ context.Context, fence func(func())) error {
			running++
			defer func() { running-- }()
			if running > 1 {
				t.Error("two passes at once")
			}
			<-release
			fence(func() { l.add("fenced") })
			return errors.New("incomplete")
		}}
		loop, stop := run(t, l, Options{Sources: []Source{source}, Housekeeper: p})
		defer stop()
		source.set()
		pass(time.Second)
		for range 10 {
			loop.TriggerHousekeeping()
			pass(time.Second)
		}
		p.want(t, "one pass is under way", 10*ms)
		source.set(newPod("a", "a"))
		l.want(t, "the loop goes on meanwhile", "create a")
		if err := problem.Health(loop.Problems()); err != nil {
			t.Error(err)
		}
		pass(5 * time.Minute)
		if err := problem.Health(loop.Problems()); err == nil {
			t.Error("healthy while a pass takes 5 minutes (L6)")
		}
		close(release)
		pass(20 * ms)
		l.want(t, "what was triggered meanwhile is one more pass", "fenced", "fenced")
	})
}

func TestFenceHoldsHandlers(t *testing.T) { // B5
	synctest.Test(t, func(t *testing.T) {
		source, l := newScripted("file"), &log{}
		release := make(chan struct{})
		p := housekeeperFunc(func(_ context.Context, fence func(func())) error {
			fence(func() {
				l.add("fence up")
				<-release
				l.add("fence down")
			})
			return nil
		})
		_, stop := run(t, l, Options{Sources: []Source{source}, Housekeeper: p})
		defer stop()
		source.set()
		pass(time.Second)
		source.set(newPod("a", "a"))
		l.want(t, "nothing is handled behind the fence", "fence up")
		close(release)
		l.want(t, "afterwards it is", "fence down", "create a")
	})
}

func TestHousekeeperPanic(t *testing.T) { // B9
	synctest.Test(t, func(t *testing.T) {
		source, l := newScripted("file"), &log{}
		p := &passes{begin: time.Now(), body: func(_ context.Context, fence func(func())) error {
			fence(func() { panic("housekeeper bug") })
			return nil
		}}
		_, stop := run(t, l, Options{Sources: []Source{source}, Housekeeper: p})
		defer stop()
		source.set()
		pass(3 * time.Second)
		p.want(t, "it is called again", 10*ms, 2*time.Second+10*ms)
		source.set(newPod("a", "a"))
		l.want(t, "the fence is down", "create a")
	})
}

// TestTimersUnderLoad: a stream of operations without a pause starves neither
// housekeeping nor held work.
func TestTimersUnderLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source, l := newScripted("file"), &log{}
		p := &passes{begin: time.Now()}
		loop, stop := run(t, l, Options{Sources: []Source{source}, Housekeeper: p})
		defer stop()
		source.set()
		pass(time.Second)
		p.take()
		// Every dispatch takes 30 ms and there is always one more.
		end := time.Now().Add(10 * time.Second)
		l.on(func(Work) { pass(30 * ms) })
		events := func() {
			for time.Now().Before(end) {
				_ = loop.mux.deliver(t.Context(), "file", nil)
				_ = loop.mux.deliver(t.Context(), "file", newPods(5))
			}
		}
		events()
		if got := len(p.take()); got < 4 {
			t.Errorf("%d housekeeping passes in 10 s of load, want about 5", got)
		}
	})
}
