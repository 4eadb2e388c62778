package pleg

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/runtime"
)

// tap is an event stream whose end a test holds.
type tap struct {
	mu    sync.Mutex
	tries []time.Time
	open  int // streams open now
	// refuse, if set, is the result of each try at once; end ends an open
	// stream with its value.
	refuse error
	end    chan error
	events chan *runtimeapi.ContainerEventResponse
}

func newTap() *tap {
	return &tap{end: make(chan error), events: make(chan *runtimeapi.ContainerEventResponse)}
}

func (s *tap) GetContainerEvents(ctx context.Context, to chan *runtimeapi.ContainerEventResponse, up func(runtimeapi.RuntimeService_GetContainerEventsClient)) error {
	s.mu.Lock()
	s.tries = append(s.tries, time.Now())
	refuse := s.refuse
	s.open++
	s.mu.Unlock()
	defer func() { s.mu.Lock(); s.open--; s.mu.Unlock() }()
	if refuse != nil {
		return refuse
	}
	up(nil)
	for {
		select {
		case e := <-s.events:
			to <- e
		case err := <-s.end:
			return err
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (s *tap) set(refuse error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refuse = refuse
}

// gaps returns the times between tries from the n-th on.
func (s *tap) gaps(n int) (gaps []time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := n + 1; i < len(s.tries); i++ {
		gaps = append(gaps, s.tries[i].Sub(s.tries[i-1]))
	}
	return gaps
}

func stoppedEvent(uid string) *runtimeapi.ContainerEventResponse {
	return &runtimeapi.ContainerEventResponse{
		ContainerId: uid + "/c", ContainerEventType: runtimeapi.ContainerEventType_CONTAINER_STOPPED_EVENT,
		PodSandboxStatus: &runtimeapi.PodSandboxStatus{Metadata: &runtimeapi.PodSandboxMetadata{Uid: uid}},
	}
}

// inStream is inBubble with a pod "p" and an event stream, which refuses
// connections with an error if that is not nil.
func inStream(t *testing.T, quiet time.Duration, refuse error, f func(*bench, *tap)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := newTap()
		s.refuse = refuse
		b := newBench(t, Options{Streamer: s, Rand: func() float64 { return 0 }, QuietPeriod: quiet})
		b.pod("p", "c")
		stop := b.run()
		synctest.Wait()
		b.events()
		f(b, s)
		stop()
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.open != 0 {
			t.Errorf("EV7: %d streams open after the stop", s.open)
		}
	})
}

// EV3, edge case 25: a stopped event leads to a refresh at once; PI13: whether the stream
// exists changes when, not what.
func TestStoppedEventLeadsToARefresh(t *testing.T) {
	inStream(t, 0, nil, func(b *bench, s *tap) {
		start := time.Now()
		b.container("p", "c", sExited, 3)
		s.events <- stoppedEvent("p")
		synctest.Wait()
		b.expect("event", "p: Died [p/c]")
		if time.Since(start) != 0 {
			b.t.Error("waited")
		}
		// 25: for a known exit it is one refresh and no event.
		calls := b.count("ListPodSandbox p")
		s.events <- stoppedEvent("p")
		synctest.Wait()
		b.expect("known exit")
		if got := b.count("ListPodSandbox p") - calls; got != 1 {
			b.t.Errorf("25: %d refreshes, want 1", got)
		}
	})
}

// EV2, EV3, EV5, edge case 26: no event changes state, as it did in EV1; what is of no use is
// counted. The statuses it carries are not looked at.
func TestEventsChangeNoState(t *testing.T) {
	inStream(t, 0, nil, func(b *bench, s *tap) {
		lie := stoppedEvent("p")
		lie.ContainersStatuses = []*runtimeapi.ContainerStatus{{Id: "p/c", State: sExited, ExitCode: 1}}
		future, seconds := stoppedEvent("p"), stoppedEvent("p")
		future.CreatedAt = time.Now().Add(time.Hour).UnixNano()
		seconds.CreatedAt = time.Now().Unix()
		started, foreign := stoppedEvent("p"), stoppedEvent("p")
		started.ContainerEventType = runtimeapi.ContainerEventType_CONTAINER_STARTED_EVENT
		foreign.PodSandboxStatus.Labels = map[string]string{"app": "theirs"}
		unnamed := stoppedEvent("p")
		unnamed.PodSandboxStatus = nil
		labelled := stoppedEvent("p")
		labelled.PodSandboxStatus = nil
		labelled.ContainersStatuses = []*runtimeapi.ContainerStatus{{Id: "p/c", Labels: podLabels("p")}}
		before := b.states("p")
		for _, e := range []*runtimeapi.ContainerEventResponse{lie, future, seconds, labelled, started, foreign, unnamed, stoppedEvent(""), {}, nil} {
			s.events <- e
			synctest.Wait()
		}
		b.expect("odd events")
		if got := b.states("p"); fmt.Sprint(got) != fmt.Sprint(before) {
			b.t.Errorf("status %v, want %v", got, before)
		}
		f := b.figures()
		if f.used != 4 || f.ignored != 6 {
			b.t.Errorf("used %d, ignored %d; want 4, 6", f.used, f.ignored)
		}
	})
}

// EV9: a storm of events for one pod is bounded by merging.
func TestEventStormIsMerged(t *testing.T) {
	inStream(t, 0, nil, func(b *bench, s *tap) {
		block := make(chan struct{})
		b.fail(hanging("ListPodSandbox", "p", true, block))
		for range 5000 {
			s.events <- stoppedEvent("p")
		}
		synctest.Wait()
		close(block)
		synctest.Wait()
		if got := b.count("ListPodSandbox p"); got != 2 {
			b.t.Errorf("%d refreshes for 5,000 events, want 2", got)
		}
	})
}

// EV6: the first retry comes at once, then 1 s doubling to 60 s; a stream that was up for a minute
// resets this, a shorter one does not; "not implemented" goes straight to the cap.
func TestStreamBacksOffUpToAMinute(t *testing.T) {
	type end struct {
		up            time.Duration
		unimplemented bool
		want          time.Duration
	}
	const s = time.Second
	for _, tc := range []struct {
		name   string
		random float64
		ends   []end
	}{
		{"doubling", 0, []end{{0, false, 0}, {0, false, s}, {0, false, 2 * s}, {0, false, 4 * s}, {0, false, 8 * s}, {0, false, 16 * s}, {0, false, 32 * s}, {0, false, 60 * s}, {0, false, 60 * s}}},
		{"jitter", 0.5, []end{{0, false, 0}, {0, false, 950 * time.Millisecond}}},
		{"short streams count on", 0, []end{{59 * s, false, 0}, {59 * s, false, s}, {59 * s, false, 2 * s}}},
		{"a minute starts over", 0, []end{{0, false, 0}, {0, false, s}, {60 * s, false, 0}, {0, false, s}}},
		{"29 not implemented", 0, []end{{0, true, 60 * s}, {0, true, 60 * s}}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var b streamBackoff
			for i, e := range tc.ends {
				if got := b.next(e.up, e.unimplemented, func() float64 { return tc.random }); got != e.want {
					t.Errorf("end %d: %v, want %v", i, got, e.want)
				}
			}
		})
	}
	var b streamBackoff
	for range 200 {
		if d := b.next(0, false, func() float64 { return 0 }); d > streamMaxBackoff || d < 0 {
			t.Fatalf("delay %v", d)
		}
	}
}

// EV4, EV6, EV7, edge cases 27 and 29: streams that end at once, with or without an
// error, or are not implemented: one watcher, back-off, without end, and everything
// else as without a stream.
func TestRefusedStreamIsRetried(t *testing.T) {
	for _, tc := range []struct {
		name   string
		refuse error
		tries  int // in 10 minutes
	}{
		{"27 ends", errors.New("reset"), 17},
		{"29 not implemented", runtime.ErrUnimplemented, 11},
	} {
		t.Run(tc.name, func(t *testing.T) {
			inStream(t, 0, tc.refuse, func(b *bench, s *tap) {
				pass(10*time.Minute + time.Second)
				if got := len(s.gaps(0)) + 1; got < tc.tries-1 || got > tc.tries+1 {
					b.t.Errorf("%d tries in 10 minutes, want %d: %v", got, tc.tries, s.gaps(0))
				}
				if err := b.Health().Err; err != nil {
					b.t.Errorf("EV4: %v", err)
				}
				b.container("p", "c", sExited)
				pass(1100 * time.Millisecond)
				b.expect("relist", "p: Died [p/c]")
			})
		})
	}
}

// Edge case 28, EV8: a restart of the runtime of 0.4 s: the stream is back within
// 2 s and everything is looked at once more.
func TestReconnectedStreamLooksAtEverything(t *testing.T) {
	inStream(t, 5*time.Second, nil, func(b *bench, s *tap) {
		pass(90 * time.Second)
		<-b.sub.Ready() // of the first relist
		s.set(errors.New("refused"))
		s.end <- nil // without an error
		b.container("p", "c", sExited)
		pass(400 * time.Millisecond)
		s.set(nil)
		start, lists := time.Now(), b.count("ListContainers")
		<-b.sub.Ready()
		if took := time.Since(start); took > 2*time.Second {
			b.t.Errorf("the exit during the gap was seen after %v", took)
		}
		pass(2 * time.Second)
		if !b.stream.healthy() {
			b.t.Error("stream is not back")
		}
		if b.count("ListContainers") == lists {
			b.t.Error("no early relist")
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.open != 1 {
			b.t.Errorf("%d streams open, want 1", s.open)
		}
	})
}

// B7: the quiet period holds only while nothing changes and the stream is up.
func TestQuietPeriodNeedsAnIdleNodeAndAStream(t *testing.T) {
	lists := func(b *bench, d time.Duration) int {
		before := b.count("ListContainers")
		pass(d)
		return b.count("ListContainers") - before
	}
	inStream(t, 5*time.Second, nil, func(b *bench, s *tap) {
		if got := lists(b, 10*time.Second); got < 9 {
			b.t.Errorf("%d relists in the first 10 s, want one a second", got)
		}
		pass(10*time.Second + 100*time.Millisecond)
		if got := lists(b, time.Minute); got != 12 {
			b.t.Errorf("%d relists in a quiet minute, want 12", got)
		}
		b.container("p", "c", sExited)
		s.events <- stoppedEvent("p")
		if got := lists(b, 8*time.Second); got < 7 {
			b.t.Errorf("%d relists in 8 s after a change, want one a second", got)
		}
		pass(20 * time.Second)
		s.set(errors.New("refused"))
		s.end <- errors.New("reset")
		if got := lists(b, 20*time.Second); got < 19 {
			b.t.Errorf("%d relists in 20 s without a stream, want one a second", got)
		}
	})
}

// RT6: a stream counts as a connection once it has been up for a second or has brought an event. A
// stream that ends at once without an error, as where events are turned off, does not.
func TestStreamThatEndsAtOnceIsNoConnection(t *testing.T) {
	now := time.Unix(1000, 0)
	var s streamState
	check := func(what string, want int64) {
		t.Helper()
		if _, got, _, _, _ := s.figures(now); got != want {
			t.Errorf("%s: %d connections, want %d", what, got, want)
		}
	}
	for i := range 5 {
		if again := s.up(now); again != (i > 0) {
			t.Errorf("try %d is taken for a reconnection: %t", i, again)
		}
		check("just asked for", 0)
		now = now.Add(500 * time.Millisecond)
		s.down(now)
		check("ended at once", 0)
	}
	s.up(now)
	now = now.Add(time.Second)
	check("up for a second", 1)
	check("seen again", 1)
	s.down(now)
	check("ended later", 1)
	s.up(now)
	s.count(false)
	s.count(true)
	check("brought events", 2)
	s.down(now)
	s.up(now)
	now = now.Add(time.Minute)
	s.down(now)
	check("up for a minute, not looked at meanwhile", 3)
	if _, _, errors, used, ignored := s.figures(now); errors != 8 || used != 1 || ignored != 1 {
		t.Errorf("%d ends, %d and %d events", errors, used, ignored)
	}
}
