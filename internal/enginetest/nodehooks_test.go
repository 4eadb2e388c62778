package enginetest_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright"
	"github.com/podwright/podwright/runtime/fake"
	"github.com/podwright/podwright/syncloop/nodehooks"
)

// hookCalls records when hooks are called, as times since the start.
type hookCalls struct {
	mu    sync.Mutex
	begin time.Time
	at    map[string][]time.Duration
	last  nodehooks.Status
}

func newHookCalls() *hookCalls {
	return &hookCalls{begin: time.Now(), at: map[string][]time.Duration{}}
}

func (c *hookCalls) note(name string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at[name] = append(c.at[name], time.Since(c.begin))
	return len(c.at[name])
}

func (c *hookCalls) of(name string) []time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.at[name])
}

func hooked(t *testing.T, hooks nodehooks.Hooks, rt *fake.Runtime) *rig {
	return newRig(t, rt, t.TempDir(), func(c *podwright.Config) { c.NodeHooks = hooks })
}

// TestInitialiseIsFirst: section 16, initialise modules: the hook runs first and once. If it fails
// or panics, Run ends with an error.
func TestInitialiseIsFirst(t *testing.T) {
	for name, hook := range map[string]func(context.Context) error{
		"fails":  func(context.Context) error { return errors.New("no data directory") },
		"panics": func(context.Context) error { panic("no data directory") },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rt := fake.New(fake.Options{})
				r := hooked(t, nodehooks.Hooks{Initialise: hook}, rt)
				err := r.engine.Run(t.Context())
				if err == nil || !strings.Contains(err.Error(), "NodeHooks.Initialise: ") || !strings.Contains(err.Error(), "no data directory") {
					t.Errorf("Run: %v", err)
				}
				if n := len(rt.Calls(fake.Match{})); n != 0 {
					t.Errorf("%d runtime calls", n)
				}
			})
		})
	}
	t.Run("succeeds", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c, rt := newHookCalls(), fake.New(fake.Options{})
			r := hooked(t, nodehooks.Hooks{Initialise: func(context.Context) error {
				if n := len(rt.Calls(fake.Match{})); n != 0 {
					t.Errorf("%d runtime calls before", n)
				}
				c.note("initialise")
				return nil
			}}, rt).start()
			r.set(newPod("web"))
			r.phase("uid-web", v1.PodRunning, time.Minute)
			if n := len(c.of("initialise")); n != 1 {
				t.Errorf("called %d times", n)
			}
		})
	})
}

// TestRuntimeReadyRunsOnce: section 16, runtime-dependent modules: the hook runs once, when the
// runtime is first healthy, even if the hook fails or the runtime goes away and comes back; RH1.
func TestRuntimeReadyRunsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, rt := newHookCalls(), fake.New(fake.Options{})
		rt.SetConditions(false, true)
		r := hooked(t, nodehooks.Hooks{RuntimeReady: func(context.Context) error {
			c.note("ready")
			panic("failure is only logged")
		}}, rt).start()
		<-time.After(20 * time.Second)
		if n := len(c.of("ready")); n != 0 {
			t.Errorf("called %d times before the runtime was good", n)
		}
		for _, good := range []bool{true, false, true} {
			rt.SetConditions(good, true)
			<-time.After(20 * time.Second)
		}
		if n := len(c.of("ready")); n != 1 {
			t.Errorf("called %d times, want once", n)
		}
		r.set(newPod("web"))
		r.phase("uid-web", v1.PodRunning, time.Minute)
	})
}

// TestRegisterRepeatsUntilDone: section 16, node registration: the engine retries after 100 ms, doubled up to 7 s,
// until the hook succeeds, and then never calls it again. Lease and status wait for it. A panic counts as a failure.
func TestRegisterRepeatsUntilDone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newHookCalls()
		r := hooked(t, nodehooks.Hooks{
			Register: func(context.Context) error {
				switch n := c.note("register"); {
				case n == 2:
					panic("no such address")
				case n < 9:
					return errors.New("refused")
				}
				return nil
			},
			RenewLease: func(_ context.Context, d time.Duration) error {
				if d != 40*time.Second {
					t.Errorf("lease of %v", d)
				}
				if c.note("lease") == 2 {
					return errors.New("refused")
				}
				return nil
			},
			PublishStatus: func(context.Context, nodehooks.Status) error { c.note("status"); return nil },
		}, fake.New(fake.Options{})).start()
		<-time.After(50 * time.Second)
		const want = "[0s 100ms 300ms 700ms 1.5s 3.1s 6.3s 12.7s 19.7s]"
		if got := fmt.Sprint(c.of("register")); got != want {
			t.Errorf("register at %s, want %s", got, want)
		}
		// Renewed at 25 % of its duration.
		if got := fmt.Sprint(c.of("lease")); got != "[19.7s 29.7s 39.7s 49.7s]" {
			t.Errorf("lease at %s", got)
		}
		if got := c.of("status"); len(got) != 1 || got[0] != 19700*time.Millisecond {
			t.Errorf("status at %v", got)
		}
		r.stop()
		before := len(c.of("lease"))
		<-time.After(time.Minute)
		if len(c.of("lease")) != before {
			t.Error("the lease is renewed after Run has ended")
		}
	})
}

// TestNodeStatusFollowsChanges: section 16, node status and fast status: the status is published
// first when the node is Ready, then on every change and every 5 min, with up to 5 attempts.
func TestNodeStatusFollowsChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, rt := newHookCalls(), fake.New(fake.Options{})
		rt.SetConditions(false, true)
		var attempts []int
		hooked(t, nodehooks.Hooks{PublishStatus: func(_ context.Context, s nodehooks.Status) error {
			c.note("status")
			c.mu.Lock()
			defer c.mu.Unlock()
			attempts = append(attempts, s.Attempt)
			if s.Attempt < 4 && len(attempts) < 5 {
				return errors.New("conflict")
			}
			c.last = s
			return nil
		}}, rt).start()
		ready := func() v1.ConditionStatus {
			c.mu.Lock()
			defer c.mu.Unlock()
			if len(c.last.Conditions) == 0 {
				return ""
			}
			return c.last.Conditions[len(c.last.Conditions)-1].Status
		}
		<-time.After(30 * time.Second)
		if n := len(c.of("status")); n != 0 {
			t.Errorf("%d calls while the node is not ready", n)
		}
		rt.SetConditions(true, true)
		<-time.After(1200 * time.Millisecond) // the engine asks the runtime every second, and looks at the node every 100 ms
		c.mu.Lock()
		tried := fmt.Sprint(attempts)
		c.mu.Unlock()
		if tried != "[0 1 2 3 4]" || ready() != v1.ConditionTrue {
			t.Errorf("attempts %s, Ready %q", tried, ready())
		}
		<-time.After(4 * time.Minute)
		if n := len(c.of("status")); n != 5 {
			t.Errorf("%d calls although nothing changed", n)
		}
		<-time.After(70 * time.Second)
		if n := len(c.of("status")); n != 6 {
			t.Errorf("%d calls, want one after 5 min", n)
		}
		rt.SetConditions(false, true)
		<-time.After(6 * time.Second)
		if n := len(c.of("status")); n != 7 || ready() != v1.ConditionFalse {
			t.Errorf("%d calls, Ready %q, want news at once", n, ready())
		}
	})
}

// TestFastStatusEndsAfterTwoMinutes: section 16, fast status: after 120 s the status is published even if the node is not Ready.
func TestFastStatusEndsAfterTwoMinutes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, rt := newHookCalls(), fake.New(fake.Options{})
		rt.SetConditions(false, true)
		hooked(t, nodehooks.Hooks{PublishStatus: func(context.Context, nodehooks.Status) error { c.note("status"); return nil }}, rt).start()
		<-time.After(3 * time.Minute)
		if got := c.of("status"); len(got) != 1 || got[0] != 2*time.Minute {
			t.Errorf("status at %v, want once at 2 min", got)
		}
	})
}
