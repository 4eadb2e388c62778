package node

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"

	"github.com/podwright/podwright/syncloop/nodehooks"
)

// state is a node as the test wants it.
type state struct{ err error }

func (s *state) Ready() error { return s.err }

func (s *state) Conditions([]v1.NodeCondition) []v1.NodeCondition {
	c := v1.NodeCondition{Type: v1.NodeReady, Status: v1.ConditionTrue}
	if s.err != nil {
		c.Status = v1.ConditionFalse
	}
	return []v1.NodeCondition{c}
}

// runHooks runs hooks until the test ends.
func runHooks(t *testing.T, s *state, well <-chan struct{}, hooks nodehooks.Hooks) *Hooks {
	h := NewHooks(HookOptions{Hooks: hooks, RuntimeWell: well, State: s, Clock: clock.RealClock{}})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- h.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	return h
}

// TestFirstStatusComesWhenTheNodeIsReady, at once and not at the next look; after 120 s
// it comes in any case (section 16, fast status).
func TestFirstStatusComesWhenTheNodeIsReady(t *testing.T) {
	for name, ready := range map[string]time.Duration{"ready": 1234 * time.Millisecond, "never ready": 120 * time.Second} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began, s := time.Now(), &state{err: errors.New("not yet")}
				first := make(chan time.Duration, 1)
				h := runHooks(t, s, nil, nodehooks.Hooks{PublishStatus: func(context.Context, nodehooks.Status) error {
					select {
					case first <- time.Since(began):
					default:
					}
					return nil
				}})
				<-time.After(time.Second)
				h.Changed() // of something that does not make it ready
				synctest.Wait()
				if name == "ready" {
					<-time.After(ready - time.Since(began))
					synctest.Wait()
					s.err = nil
					h.Changed()
				}
				if at := <-first; at != ready {
					t.Errorf("after %v, want %v", at, ready)
				}
			})
		})
	}
}

// TestStatusFollowsItsSchedule: on change, and every 5 min anyway; the jitter is the
// hooks' own.
func TestStatusFollowsItsSchedule(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began, s, at := time.Now(), &state{}, []time.Duration{}
		h := runHooks(t, s, nil, nodehooks.Hooks{
			Rand:          func() float64 { return 0.5 }, // 10.2 s
			PublishStatus: func(context.Context, nodehooks.Status) error { at = append(at, time.Since(began)); return nil },
		})
		<-time.After(15 * time.Second)
		synctest.Wait()
		s.err = errors.New("down")
		h.Changed()
		h.Changed()
		synctest.Wait()
		<-time.After(6 * time.Minute)
		synctest.Wait()
		want := []time.Duration{0, 15 * time.Second, 15*time.Second + 30*10200*time.Millisecond}
		if !slices.Equal(at, want) {
			t.Errorf("published at %v, want %v", at, want)
		}
	})
}

// TestFailedStatusIsRepeated 5 times at once, each as its own attempt; a panic is a
// failure.
func TestFailedStatusIsRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		var attempts []int
		runHooks(t, &state{}, nil, nodehooks.Hooks{PublishStatus: func(_ context.Context, s nodehooks.Status) error {
			if time.Since(began) == 0 {
				attempts = append(attempts, s.Attempt)
			}
			panic("no connection")
		}})
		synctest.Wait()
		if !slices.Equal(attempts, []int{0, 1, 2, 3, 4}) {
			t.Errorf("attempts %v", attempts)
		}
	})
}

// TestLeaseWaitsForRegistration, which is repeated after 100 ms, doubling up to 7 s.
func TestLeaseWaitsForRegistration(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		var registered, renewed []time.Duration
		runHooks(t, &state{}, nil, nodehooks.Hooks{
			Register: func(context.Context) error {
				registered = append(registered, time.Since(began))
				if len(registered) < 9 {
					return errors.New("no server")
				}
				return nil
			},
			RenewLease: func(_ context.Context, d time.Duration) error {
				if d != 40*time.Second {
					t.Errorf("lease of %v", d)
				}
				renewed = append(renewed, time.Since(began))
				return nil
			},
		})
		<-time.After(time.Minute)
		synctest.Wait()
		ms := func(list ...int) (out []time.Duration) {
			for _, n := range list {
				out = append(out, time.Duration(n)*time.Millisecond)
			}
			return out
		}
		if want := ms(0, 100, 300, 700, 1500, 3100, 6300, 12700, 19700); !slices.Equal(registered, want) {
			t.Errorf("registered at %v, want %v", registered, want)
		}
		if want := ms(19700, 29700, 39700, 49700, 59700); !slices.Equal(renewed, want) {
			t.Errorf("renewed at %v, want %v", renewed, want)
		}
	})
}

// TestRuntimeReadyRunsOnce, when the runtime is well for the first time.
func TestRuntimeReadyRunsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		well, n := make(chan struct{}), 0
		runHooks(t, &state{}, well, nodehooks.Hooks{RuntimeReady: func(context.Context) error { n++; return errors.New("logged") }})
		<-time.After(time.Minute)
		synctest.Wait()
		if n != 0 {
			t.Error("called before the runtime is well")
		}
		close(well)
		<-time.After(time.Minute)
		synctest.Wait()
		if n != 1 {
			t.Errorf("called %d times", n)
		}
	})
}

// TestNoHookIsCalledAfterTheEnd: none needs to be set, and a Run that has ended calls none.
func TestNoHookIsCalledAfterTheEnd(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	fail := func(context.Context) error { t.Error("called"); return nil }
	for _, hooks := range []nodehooks.Hooks{{}, {RuntimeReady: fail, PublishStatus: func(ctx context.Context, _ nodehooks.Status) error { return fail(ctx) }}} {
		h := NewHooks(HookOptions{Hooks: hooks, State: &state{}, Clock: clock.RealClock{}})
		if err := h.Initialise(ctx); err != nil {
			t.Errorf("Initialise: %v", err)
		}
		if err := h.Run(ctx); err != nil {
			t.Errorf("Run: %v", err)
		}
	}
}

// TestInitialiseFailsWithItsName, also by a panic.
func TestInitialiseFailsWithItsName(t *testing.T) {
	for name, hook := range map[string]func(context.Context) error{
		"error": func(context.Context) error { return errors.New("no folder") },
		"panic": func(context.Context) error { panic("no folder") },
	} {
		h := NewHooks(HookOptions{Hooks: nodehooks.Hooks{Initialise: hook}, Clock: clock.RealClock{}})
		if err := h.Initialise(t.Context()); err == nil || !strings.HasPrefix(err.Error(), "NodeHooks.Initialise: ") || !strings.Contains(err.Error(), "no folder") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestGoneNodeRegistersAgain: a node that was deleted is registered again and shows at
// once how it is; one that is deleted again and again is looked at every 10 s, not in a
// busy loop (section 16, node registration).
func TestGoneNodeRegistersAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		var calls []string
		gone := 3
		note := func(what string) {
			calls = append(calls, what+" "+time.Since(began).Round(time.Second).String())
		}
		runHooks(t, &state{}, nil, nodehooks.Hooks{
			Rand:     func() float64 { return 0 },
			Register: func(context.Context) error { note("register"); return nil },
			PublishStatus: func(context.Context, nodehooks.Status) error {
				note("publish")
				if gone > 0 {
					gone--
					return fmt.Errorf("patch: %w", nodehooks.ErrNodeGone)
				}
				return nil
			},
		})
		<-time.After(time.Minute)
		synctest.Wait()
		want := []string{"register 0s", "publish 0s", "register 0s", "publish 0s", "publish 10s", "register 10s", "publish 10s"}
		if diff := cmp.Diff(want, calls); diff != "" {
			t.Error(diff)
		}
	})
}

// TestChangedPublishes: what the engine cannot see is published when the embedder says so,
// also if no condition changed; a channel that is closed says no more (section 16, node
// status).
func TestChangedPublishes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		var at []time.Duration
		changed := make(chan struct{}, 1)
		runHooks(t, &state{}, nil, nodehooks.Hooks{
			Changed:       changed,
			PublishStatus: func(context.Context, nodehooks.Status) error { at = append(at, time.Since(began)); return nil },
		})
		<-time.After(3 * time.Second)
		changed <- struct{}{}
		<-time.After(3 * time.Second)
		close(changed)
		<-time.After(time.Minute)
		synctest.Wait()
		want := []time.Duration{0, 3 * time.Second, 6 * time.Second}
		if diff := cmp.Diff(want, at); diff != "" {
			t.Error(diff)
		}
	})
}
