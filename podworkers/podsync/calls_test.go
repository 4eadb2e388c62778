package podsync

import (
	"context"
	"errors"
	"fmt"
	goruntime "runtime"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/utils/clock"

	"github.com/podwright/podwright/internal/foreign"
	"github.com/podwright/podwright/internal/timing"
	"github.com/podwright/podwright/runtime"
	"github.com/podwright/podwright/runtime/cri"
)

// callee is a runtime that answers as configured.
type callee struct {
	cri.RuntimeService
	err error
	// hang makes starts wait for the end of their context.
	hang bool
	// took is how long a start takes if it does not hang.
	took    time.Duration
	started bool
	// exits makes starts end their goroutine.
	exits bool
}

func (c *callee) start(ctx context.Context) error {
	c.started = true
	if c.exits {
		goruntime.Goexit()
	}
	if c.hang {
		<-ctx.Done()
	}
	if timing.Sleep(ctx, clock.RealClock{}, c.took) != nil {
		return context.Cause(ctx)
	}
	return c.err
}

func (c *callee) RunPodSandbox(ctx context.Context, _ *runtimeapi.PodSandboxConfig, _ string) (string, error) {
	return "s1", c.start(ctx)
}

func (c *callee) CreateContainer(ctx context.Context, _ string, _ *runtimeapi.ContainerConfig, _ *runtimeapi.PodSandboxConfig) (string, error) {
	return "c1", c.start(ctx)
}
func (c *callee) StartContainer(ctx context.Context, _ string) error { return c.start(ctx) }
func (c *callee) StopContainer(context.Context, string, int64) error { return c.err }
func (c *callee) StopPodSandbox(context.Context, string) error       { return c.err }
func (c *callee) RemoveContainer(context.Context, string) error      { return c.err }
func (c *callee) RemovePodSandbox(context.Context, string) error     { return c.err }

// calling has each call of Calls, by name.
var calling = map[string]func(ctx context.Context, c *Calls) error{
	"RunPodSandbox": func(ctx context.Context, c *Calls) error { _, err := c.RunPodSandbox(ctx, nil, ""); return err },
	"CreateContainer": func(ctx context.Context, c *Calls) error {
		_, err := c.CreateContainer(ctx, "s1", nil, nil)
		return err
	},
	"StartContainer":   func(ctx context.Context, c *Calls) error { return c.StartContainer(ctx, "c1") },
	"StopContainer":    func(ctx context.Context, c *Calls) error { return c.StopContainer(ctx, "c1", 5) },
	"StopPodSandbox":   func(ctx context.Context, c *Calls) error { return c.StopPodSandbox(ctx, "s1") },
	"RemoveContainer":  func(ctx context.Context, c *Calls) error { return c.RemoveContainer(ctx, "c1") },
	"RemovePodSandbox": func(ctx context.Context, c *Calls) error { return c.RemovePodSandbox(ctx, "s1") },
}

// starts are the calls that outlast their step.
var starts = []string{"RunPodSandbox", "CreateContainer", "StartContainer"}

// TestCallsAreReported: D7: what a call for a pod has done is reported; a call that fails
// or is made for no pod reports nothing.
func TestCallsAreReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		want := map[string]string{
			"RunPodSandbox": "u made s1 in . u s1 running. ", "CreateContainer": "u made c1 in s1. u c1 created. ", "StartContainer": "u c1 running. ",
			"StopContainer": "u c1 exited. ", "StopPodSandbox": "u s1 exited. ", "RemoveContainer": "u removed c1. ", "RemovePodSandbox": "u removed s1. ",
		}
		for name, call := range calling {
			rt, got := &callee{}, ""
			c := NewCalls(rt, CallOptions{Cache: noted{&got}})
			if err := call(t.Context(), c); err != nil || got != "" {
				t.Errorf("%s for no pod: %v, %q", name, err, got)
			}
			if err := call(foreign.ForPod(t.Context(), "u"), c); err != nil || got != want[name] {
				t.Errorf("%s: %v, reported %q, want %q", name, err, got, want[name])
			}
			rt.err, got = errFake, ""
			if err := call(foreign.ForPod(t.Context(), "u"), c); !errors.Is(err, errFake) || got != "" {
				t.Errorf("%s that failed: %v, %q", name, err, got)
			}
			if err := call(foreign.ForPod(t.Context(), "u"), NewCalls(&callee{}, CallOptions{})); err != nil {
				t.Error(name, err)
			}
		}
	})
}

// noted is a cache that records its calls.
type noted struct{ got *string }

func (n noted) note(format string, args ...any) { *n.got += fmt.Sprintf(format+". ", args...) }

func (n noted) Report(uid types.UID, id string, state runtime.State) {
	n.note("%s %s %s", uid, id, state)
}

func (n noted) Made(uid types.UID, id, sandboxID string) {
	n.note("%s made %s in %s", uid, id, sandboxID)
}

func (n noted) Removed(uid types.UID, id string) { n.note("%s removed %s", uid, id) }

func (n noted) Described(uid types.UID, s *runtime.SandboxStatus) { n.note("%s is %s", uid, s.ID) }

func (n noted) ReadNow(_ context.Context, uid types.UID) (*runtime.PodStatus, error) {
	n.note("list %s", uid)
	return nothing(), nil
}

func (n noted) ReadObjects(_ context.Context, uid types.UID) (*runtime.PodStatus, error) {
	n.note("read %s", uid)
	return nothing(), nil
}

// TestGoexitIsNoAnswer (RT1): the outcome of a start is unknown if the runtime's client ended its
// goroutine: the start fails, and does not stay under way forever.
func TestGoexitIsNoAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := NewCalls(&callee{exits: true}, CallOptions{})
		for _, name := range starts {
			if err := calling[name](foreign.ForPod(t.Context(), "u"), c); !errors.Is(err, errGoexit) {
				t.Errorf("%s: %v", name, err)
			}
		}
		if err := c.open.unanswered("u"); err != nil {
			t.Error(err)
		}
	})
}

// TestMadeObjectsAreAwaited: an object is awaited from when it was made until a view shows
// it, it is removed, its pod is forgotten, or 10 s have passed.
func TestMadeObjectsAreAwaited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := foreign.ForPod(t.Context(), "u")
		c := NewCalls(&callee{}, CallOptions{})
		shown := &runtime.PodStatus{
			Sandboxes:  []*runtime.SandboxStatus{{ID: "s1"}},
			Containers: []*runtime.ContainerStatus{{ID: runtime.ContainerID{ID: "c1"}}},
		}
		for name, seen := range map[string]func(){
			"shown": func() {
				if err := c.awaitListed("u", shown); err != nil {
					t.Error(err)
				}
			},
			"removed":      func() { _ = c.RemoveContainer(ctx, "c1"); _ = c.RemovePodSandbox(ctx, "s1") },
			"forgotten":    func() { c.forget("u") },
			"given up for": func() { <-time.After(10 * time.Second) },
		} {
			for _, make := range []string{"RunPodSandbox", "CreateContainer"} {
				if err := calling[make](ctx, c); err != nil {
					t.Fatal(err)
				}
				for _, view := range []*runtime.PodStatus{nil, nothing()} {
					if c.awaitListed("u", view) == nil || c.awaitListed("other", view) != nil {
						t.Errorf("%s is not awaited", make)
					}
				}
				seen()
				if err := c.awaitListed("u", nil); err != nil {
					t.Errorf("%s is still awaited when it is %s: %v", make, name, err)
				}
			}
			if len(c.unlisted.made) > 0 {
				t.Error("memory is left")
			}
		}
		c.unlisted.add("u", "a")
		c.unlisted.add("u", "b")
		c.unlisted.remove("u", "a")
		if c.awaitListed("u", nil) == nil {
			t.Error("another object is not awaited")
		}
	})
}

// TestStartOutlastsItsStep: RT3: a step that is cancelled waits 3 s for a start that is under
// way, and the start continues for up to 4 min; a start that has not begun gets the step's context.
func TestStartOutlastsItsStep(t *testing.T) {
	for name, call := range calling {
		if !slices.Contains(starts, name) {
			continue
		}
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				for _, rt := range []*callee{{took: 2 * time.Second}, {took: time.Minute}, {hang: true}} {
					ctx, cancel := context.WithCancelCause(foreign.ForPod(t.Context(), "u"))
					c := NewCalls(rt, CallOptions{})
					time.AfterFunc(time.Second, func() { cancel(errFake) })
					began := time.Now()
					err := call(ctx, c)
					took, want, left := time.Since(began), 2*time.Second, false
					if rt.hang || rt.took > want {
						want, left = time.Second+startTimeout, true
					}
					if left != errors.Is(err, errFake) || left != (c.unanswered("u") != nil) || took != want {
						t.Errorf("%+v: %v after %s", rt, err, took)
					}
					began = time.Now()
					if err := call(ctx, NewCalls(&callee{hang: true}, CallOptions{})); !errors.Is(err, errFake) || time.Since(began) > 0 {
						t.Errorf("%v after %s", err, time.Since(began))
					}
					if !left {
						continue
					}
					<-time.After(time.Minute)
					synctest.Wait()
					if unknownOutcome := c.unknownOutcome("u"); (unknownOutcome != nil) != rt.hang {
						t.Errorf("%+v: after a minute: %v", rt, unknownOutcome)
					}
					<-time.After(openLimit - time.Minute - startTimeout)
					synctest.Wait()
					if err := c.unanswered("u"); err != nil {
						t.Errorf("the call goes on: %v", err)
					}
					if unknownOutcome := c.unknownOutcome("u"); (unknownOutcome != nil) != rt.hang {
						t.Errorf("%+v: just cut off: %v", rt, unknownOutcome)
					}
					<-time.After(lateCompletion)
					if err := c.unknownOutcome("u"); err != nil || len(c.open.byPod) > 0 {
						t.Errorf("%v, %d pods remembered", err, len(c.open.byPod))
					}
				}
			})
		})
	}
}

// TestCallsEndWithTheAgent: calls that still hang when the agent ends are cancelled and awaited.
func TestCallsEndWithTheAgent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := NewCalls(&callee{hang: true}, CallOptions{})
		step, cancel := context.WithCancel(foreign.ForPod(t.Context(), "u"))
		cancelled := time.AfterFunc(time.Second, cancel)
		defer cancelled.Stop()
		if err := calling["RunPodSandbox"](step, c); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		ctx, end := context.WithTimeout(t.Context(), 5*time.Second)
		defer end()
		began := time.Now()
		if err := c.Run(ctx); err != nil || time.Since(began) != 5*time.Second {
			t.Errorf("%v after %s", err, time.Since(began))
		}
		if err := c.unanswered("u"); err != nil {
			t.Error(err)
		}
		if err := calling["RunPodSandbox"](foreign.ForPod(t.Context(), "u"), c); !errors.Is(err, context.Canceled) {
			t.Errorf("a call after the end: %v", err)
		}
	})
}

// TestPanicOfAStartIsAnError: a runtime's panic in a start ends only that call.
func TestPanicOfAStartIsAnError(t *testing.T) {
	var panicked *foreign.PanicError
	_, err := NewCalls(panicking{}, CallOptions{}).RunPodSandbox(foreign.ForPod(t.Context(), "u"), nil, "")
	if !errors.As(err, &panicked) {
		t.Error(err)
	}
}

type panicking struct{ cri.RuntimeService }

func (panicking) RunPodSandbox(context.Context, *runtimeapi.PodSandboxConfig, string) (string, error) {
	panic("oops")
}

// TestContainerStartsOnlyAfterBeforeStart: HI8: a container is started only after BeforeStart has succeeded, which
// is called only for pods.
func TestContainerStartsOnlyAfterBeforeStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := &callee{}
		var answer error
		asked := 0
		c := NewCalls(rt, CallOptions{BeforeStart: func(_ context.Context, uid types.UID) error {
			if asked++; uid != "u" {
				t.Error(uid)
			}
			return answer
		}})
		ctx := foreign.ForPod(t.Context(), "u")
		if err := c.StartContainer(ctx, "c1"); err != nil || !rt.started {
			t.Error(err)
		}
		rt.started, answer = false, errFake
		if err := c.StartContainer(ctx, "c1"); !errors.Is(err, errFake) || rt.started {
			t.Error(err, rt.started)
		}
		if err := c.StartContainer(t.Context(), "c1"); err != nil || !rt.started || asked != 2 {
			t.Error(err, rt.started, asked)
		}
	})
}

// TestCutOffStartsDoNotPileUp: RT1. If each attempt to make a pod's sandbox is cut off, for months,
// only the calls that the runtime may still complete are remembered, not all of them.
func TestCutOffStartsDoNotPileUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := NewCalls(&callee{err: runtime.ErrDeadline}, CallOptions{})
		for range 100 {
			_, _ = c.RunPodSandbox(foreign.ForPod(t.Context(), "u"), nil, "")
			<-time.After(4 * time.Second)
		}
		if n := len(c.open.byPod["u"]); n > 3 {
			t.Errorf("%d calls are remembered", n)
		}
		if c.open.unknownOutcome("u") == nil {
			t.Error("the last call may still be completed")
		}
		<-time.After(time.Minute)
		if err := c.open.unknownOutcome("u"); err != nil || len(c.open.byPod) != 0 {
			t.Errorf("%v, %d pods are remembered", err, len(c.open.byPod))
		}
	})
}

// TestPodIsListedAfterACallThatFailed: B14, RT1. After a start that may have made something, the pod is listed until
// a list comes late enough to show all effects of the start; otherwise the objects that the calls made are read.
func TestPodIsListedAfterACallThatFailed(t *testing.T) {
	for name, test := range map[string]struct {
		rt *callee
		// over is when the call can have no further effect.
		over time.Duration
	}{
		"refused":   {&callee{err: errFake}, 0},
		"timed out": {&callee{err: runtime.ErrDeadline}, lateCompletion},
		"lost":      {&callee{err: runtime.ErrUnavailable}, lateCompletion},
		"not sent":  {&callee{err: runtime.ErrNotSent}, 0},
		"goexit":    {&callee{exits: true}, lateCompletion},
	} {
		for _, start := range starts {
			t.Run(name+" "+start, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					var got string
					c := NewCalls(test.rt, CallOptions{Cache: noted{&got}})
					ctx := foreign.ForPod(t.Context(), "u")
					read := func(want string) {
						t.Helper()
						got = ""
						if _, err := c.Read(t.Context(), "u"); err != nil || got != want+" u. " {
							t.Errorf("%q, %v; want %s", got, err, want)
						}
					}
					read("read")
					if err := calling[start](ctx, c); err == nil {
						t.Fatal("no error")
					}
					if c.knowsAll("u") {
						t.Error("what the call made is taken for known")
					}
					read("list")
					if test.over > 0 {
						read("list")
						<-time.After(test.over)
						read("list")
					}
					read("read")
					_ = calling[start](ctx, c)
					c.forget("u") // its next life begins without uncertain calls
					<-time.After(lateCompletion)
					_ = c.unknownOutcome("u")
					read("read")
				})
			})
		}
	}
	synctest.Test(t, func(t *testing.T) {
		var got string
		c := NewCalls(&callee{hang: true}, CallOptions{Cache: noted{&got}})
		step, cancel := context.WithCancel(foreign.ForPod(t.Context(), "u"))
		defer time.AfterFunc(time.Second, cancel).Stop()
		_ = calling["RunPodSandbox"](step, c)
		if _, err := c.Read(t.Context(), "u"); err != nil || got != "list u. " {
			t.Errorf("a call that is not answered: %q", got)
		}
		<-time.After(openLimit)
		synctest.Wait()
	})
}

// TestSandboxThatAStepReadsIsHandedIn: B14: the cache gets what a step read of a sandbox.
func TestSandboxThatAStepReadsIsHandedIn(t *testing.T) {
	var got string
	c := NewCalls(described{}, CallOptions{Cache: noted{&got}})
	for _, ctx := range []context.Context{t.Context(), foreign.ForPod(t.Context(), "u")} {
		if response, err := c.PodSandboxStatus(ctx, "s1", false); err != nil || response.GetStatus().GetId() != "s1" {
			t.Error(response, err)
		}
	}
	if got != "u is s1. " {
		t.Errorf("%q", got)
	}
}

type described struct{ cri.RuntimeService }

func (described) PodSandboxStatus(_ context.Context, id string, _ bool) (*runtimeapi.PodSandboxStatusResponse, error) {
	return &runtimeapi.PodSandboxStatusResponse{Status: &runtimeapi.PodSandboxStatus{Id: id}}, nil
}
