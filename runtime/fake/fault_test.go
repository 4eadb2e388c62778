package fake_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/utils/clock"
	testclock "k8s.io/utils/clock/testing"

	"github.com/podwright/podwright/runtime"
	"github.com/podwright/podwright/runtime/cri"
	"github.com/podwright/podwright/runtime/fake"
)

var errBroken = errors.New("broken")

// Which calls a fault hits.
func TestFaultMatch(t *testing.T) {
	for _, c := range []struct {
		name  string
		fault fake.Fault
		want  string // one letter per creation of a, b, a, b: x fails
	}{
		{"all", fake.Fault{}, "xxxx"},
		{"method", fake.Fault{Match: fake.Match{Method: fake.StartContainer}}, "...."},
		{"container", fake.Fault{Match: fake.Match{Container: "a"}}, "x.x."},
		{"pod", fake.Fault{Match: fake.Match{PodUID: uid, Pod: "pod"}}, "xxxx"},
		{"other pod", fake.Fault{Match: fake.Match{PodUID: "uid-2"}}, "...."},
		{"from", fake.Fault{From: 3}, "..xx"},
		{"times", fake.Fault{Times: 1}, "x..."},
		{"second of b", fake.Fault{Match: fake.Match{Container: "b"}, From: 2, Times: 1}, "...x"},
		{"func", fake.Fault{Match: fake.Match{Func: func(c fake.Call) bool { return c.Number == 2 }}}, ".x.."},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, fake.Options{})
			s := r.sandbox()
			c.fault.Err = errBroken
			remove := r.Inject(c.fault)
			got := ""
			create := func(i int) error {
				_, err := r.CreateContainer(r.ctx, s, containerConfig([]string{"a", "b"}[i%2], uint32(i)), sandboxConfig(0))
				return err
			}
			for i := range 4 {
				if err := create(i); errors.Is(err, errBroken) {
					got += "x"
				} else {
					r.must(err)
					got += "."
				}
			}
			if got != c.want {
				t.Errorf("hits %s, want %s", got, c.want)
			}
			remove()
			r.must(create(5))
		})
	}
}

// What a fault does: to the answer, and to the runtime.
func TestFaultEffect(t *testing.T) {
	for _, c := range []struct {
		name   string
		effect fake.Effect
		// step is how long the clock moves during the call, cancel whether
		// the caller then gives up, later how long the clock moves afterwards.
		step   time.Duration
		cancel bool
		later  time.Duration
		want   error
		exists bool
	}{
		{name: "none", exists: true},
		{name: "error", effect: fake.Effect{Err: errBroken}, want: errBroken},
		{name: "done and error", effect: fake.Effect{Err: errBroken, Done: true}, want: errBroken, exists: true},
		{name: "delay", effect: fake.Effect{Delay: time.Second}, step: time.Second, exists: true},
		{name: "delay cut off", effect: fake.Effect{Delay: time.Second}, cancel: true, later: time.Hour, want: runtime.ErrCanceled},
		{name: "hang", effect: fake.Effect{Hang: true}, cancel: true, later: time.Hour, want: runtime.ErrCanceled},
		{name: "done too late", effect: fake.Effect{Hang: true, Done: true}, cancel: true, want: runtime.ErrCanceled, exists: true},
		{name: "not yet done", effect: fake.Effect{Hang: true, Done: true, Late: time.Second}, cancel: true, want: runtime.ErrCanceled},
		{name: "done later", effect: fake.Effect{Hang: true, Done: true, Late: time.Second}, cancel: true, later: time.Second, want: runtime.ErrCanceled, exists: true},
		{name: "reserved", effect: fake.Effect{Err: runtime.ErrAlreadyExists}, want: runtime.ErrAlreadyExists},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, fake.Options{})
			arrived := make(chan struct{}, 2)
			match := fake.Match{Method: fake.RunPodSandbox, Func: func(fake.Call) bool {
				arrived <- struct{}{}
				return true
			}}
			r.Inject(fake.Fault{Match: match, Times: 1, Effect: c.effect})
			ctx, cancel := context.WithCancel(r.ctx)
			defer cancel()
			done := make(chan error, 1)
			go func() {
				_, err := r.RunPodSandbox(ctx, sandboxConfig(0), "")
				done <- err
			}()
			<-arrived
			if c.step > 0 {
				r.waitForWaiters(1)
				r.clock.Step(c.step)
			}
			if c.cancel {
				cancel()
			}
			err := <-done
			if !errors.Is(err, c.want) {
				t.Errorf("error %v, want %v", err, c.want)
			}
			r.clock.Step(c.later)
			list, err := r.ListPodSandbox(r.ctx, nil)
			r.must(err)
			if exists := len(list) == 1; exists != c.exists {
				t.Errorf("sandbox exists: %v, want %v", exists, c.exists)
			}
			// A create that took effect behind its caller's back reserves the name.
			_, err = r.RunPodSandbox(r.ctx, sandboxConfig(0), "")
			if reserved := errors.Is(err, runtime.ErrAlreadyExists); reserved != c.exists {
				t.Errorf("second create: %v, name reserved should be %v", err, c.exists)
			}
		})
	}
}

// A deadline is told apart from a cancellation.
func TestHangDeadline(t *testing.T) {
	r := newRig(t, fake.Options{})
	r.Inject(fake.Fault{Effect: fake.Effect{Hang: true}})
	ctx, cancel := context.WithTimeout(r.ctx, time.Millisecond)
	defer cancel()
	_, err := r.ListContainers(ctx, nil)
	r.wantClass("list", err, runtime.ErrDeadline)
	r.wantClass("list", err, context.DeadlineExceeded)
}

// racyClock steps between a call's reading of the time and its timer.
type racyClock struct {
	*testclock.FakeClock
	step []time.Duration // one per timer
}

func (c *racyClock) NewTimer(d time.Duration) clock.Timer {
	if len(c.step) > 0 {
		c.Step(c.step[0])
		c.step = c.step[1:]
	}
	return c.FakeClock.NewTimer(d)
}

// A clock that moves while a wait begins does not make the wait too long, because
// the clock may not be stepped again.
func TestWaitOnRacyClock(t *testing.T) {
	for _, steps := range [][]time.Duration{
		{5 * time.Second},
		{time.Second, 4 * time.Second},
		{time.Hour},
	} {
		c := &racyClock{FakeClock: testclock.NewFakeClock(start), step: steps}
		f := fake.New(fake.Options{Clock: c})
		f.Inject(fake.Fault{Effect: fake.Effect{Delay: 5 * time.Second}})
		if _, err := f.Version(t.Context(), ""); err != nil {
			t.Errorf("steps %v: %v", steps, err)
		}
	}
}

func TestPartialLists(t *testing.T) {
	r := newRig(t, fake.Options{})
	s := r.sandbox()
	a, b := r.run(s, "a", 0), r.run(s, "b", 0)
	remove := r.Inject(
		fake.Fault{Match: fake.Match{Method: fake.ListContainers}, Effect: fake.Effect{Keep: func(id string) bool { return id == b }}},
		fake.Fault{Match: fake.Match{Method: fake.ListPodSandbox}, Effect: fake.Effect{Keep: func(string) bool { return false }}},
		fake.Fault{Match: fake.Match{Method: fake.ListContainerStats}, Effect: fake.Effect{Keep: func(id string) bool { return id == b }}},
		fake.Fault{Match: fake.Match{Method: fake.ListPodSandboxStats}, Effect: fake.Effect{Keep: func(id string) bool { return id != s }}},
	)
	sizes := func() string {
		containers, err := r.ListContainers(r.ctx, nil)
		r.must(err)
		sandboxes, err := r.ListPodSandbox(r.ctx, nil)
		r.must(err)
		containerStats, err := r.ListContainerStats(r.ctx, nil)
		r.must(err)
		sandboxStats, err := r.ListPodSandboxStats(r.ctx, nil)
		r.must(err)
		return fmt.Sprint(len(containers), len(sandboxes), len(containerStats), len(sandboxStats))
	}
	if got := sizes(); got != "1 0 1 0" {
		t.Errorf("partial lists have %s entries, want 1 0 1 0", got)
	}
	r.status(a) // the status of what a list hides is there
	remove()
	if got := sizes(); got != "2 1 2 1" {
		t.Errorf("whole lists have %s entries, want 2 1 2 1", got)
	}
}

// The stop of a caller that gave up: goes on, or is forgotten
// (Options.AbandonStopOnCancel).
func TestCancelledStop(t *testing.T) {
	for _, abandon := range []bool{false, true} {
		t.Run(fmt.Sprintf("abandon=%v", abandon), func(t *testing.T) {
			options := scripted(fake.Script{IgnoreTERM: true})
			options.AbandonStopOnCancel = abandon
			r := newRig(t, options)
			id := r.run(r.sandbox(), "app", 0)
			ctx, cancel := context.WithCancel(r.ctx)
			done := r.async(func() error { return r.StopContainer(ctx, id, 10) })
			cancel()
			r.wantClass("stop", <-done, runtime.ErrCanceled)
			r.clock.Step(10 * time.Second)
			if !abandon {
				r.wantExit(id, 137, 10*time.Second)
				return
			}
			if got := r.status(id).GetState(); got != runtimeapi.ContainerState_CONTAINER_RUNNING {
				t.Fatalf("state %v, want the stop forgotten", got)
			}
			// The next stop is as good as the first.
			done = r.async(func() error { return r.StopContainer(r.ctx, id, 10) })
			r.clock.Step(10 * time.Second)
			r.must(<-done)
			r.wantExit(id, 137, 20*time.Second)
		})
	}
}

func TestCallsFailWhileTheRuntimeIsDown(t *testing.T) {
	r := newRig(t, scripted(fake.Script{IgnoreTERM: true}))
	id := r.run(r.sandbox(), "app", 0)
	stop := r.async(func() error { return r.StopContainer(r.ctx, id, 10) })
	r.SetDown(true)
	r.SetDown(true) // twice is once
	r.wantClass("call in flight", <-stop, runtime.ErrUnavailable)
	_, err := r.Version(r.ctx, cri.APIVersion)
	r.wantClass("call while down", err, runtime.ErrUnavailable)
	r.clock.Step(time.Minute)
	r.SetDown(false)
	// What had begun went on without the daemon.
	r.wantExit(id, 137, 10*time.Second)
}

func TestRebootAndLoseRecords(t *testing.T) {
	setUp := func(t *testing.T) (r *rig, s, id string) {
		r = newRig(t, fake.Options{})
		s = r.sandbox()
		return r, s, r.run(s, "app", 0)
	}
	t.Run("reboot keeps records", func(t *testing.T) {
		r, s, id := setUp(t)
		r.Reboot()
		r.wantExit(id, 255, 0)
		response, err := r.PodSandboxStatus(r.ctx, s, false)
		r.must(err)
		if st := response.GetStatus(); st.GetState() != runtimeapi.PodSandboxState_SANDBOX_NOTREADY || st.GetNetwork().GetIp() != "" {
			t.Errorf("sandbox after a reboot: %v", st)
		}
		_, err = r.RunPodSandbox(r.ctx, sandboxConfig(0), "")
		r.wantClass("same name", err, runtime.ErrAlreadyExists)
	})
	t.Run("wipe loses them", func(t *testing.T) {
		r, s, id := setUp(t)
		stop := r.async(func() error { return r.StopContainer(r.ctx, id, 10) })
		r.LoseRecords()
		if err := <-stop; err != nil && !errors.Is(err, runtime.ErrUnavailable) {
			t.Errorf("call in flight: %v", err)
		}
		_, err := r.ContainerStatus(r.ctx, id, false)
		r.wantClass("container", err, runtime.ErrNotFound)
		_, err = r.PodSandboxStatus(r.ctx, s, false)
		r.wantClass("sandbox", err, runtime.ErrNotFound)
		if got := r.Facts(uid, "app"); got.Running != 0 || got.Created != 1 {
			t.Errorf("facts %+v", got)
		}
		r.run(r.sandbox(), "app", 0) // names, images and addresses are there again
	})
}

func TestSetUnknown(t *testing.T) {
	r := newRig(t, scripted(fake.Script{Exit: &fake.Exit{After: time.Second}}))
	id := r.run(r.sandbox(), "app", 0)
	r.must(r.SetUnknown(id))
	r.clock.Step(time.Minute)
	if got := r.status(id).GetState(); got != runtimeapi.ContainerState_CONTAINER_UNKNOWN {
		t.Errorf("state %v", got)
	}
	r.must(r.StopContainer(r.ctx, id, 30))
	if got := r.status(id).GetState(); got != runtimeapi.ContainerState_CONTAINER_EXITED {
		t.Errorf("state after a stop: %v", got)
	}
	if got := r.Running(uid, "app"); got != 0 {
		t.Errorf("%d running", got)
	}
}

func TestPullTakesItsTimeAndMayFail(t *testing.T) {
	r := newRig(t, fake.Options{Registry: func(ref string, auth *runtimeapi.AuthConfig) fake.Pull {
		if auth.GetUsername() != "me" {
			return fake.Pull{Err: errBroken}
		}
		return fake.Pull{Took: time.Minute, Image: fake.Image{Size: 7, Username: "web"}}
	}})
	spec := &runtimeapi.ImageSpec{Image: "repo/web"}
	_, err := r.PullImage(r.ctx, spec, nil, nil)
	r.wantClass("pull without credentials", err, errBroken)
	auth := &runtimeapi.AuthConfig{Username: "me"}
	ctx, cancel := context.WithCancel(r.ctx)
	pull := r.async(func() error { _, err := r.PullImage(ctx, spec, auth, nil); return err })
	cancel()
	r.wantClass("cancelled pull", <-pull, runtime.ErrCanceled)
	r.clock.Step(time.Hour)
	present := func() *runtimeapi.Image {
		response, err := r.ImageStatus(r.ctx, &runtimeapi.ImageSpec{Image: "repo/web:latest"}, false)
		r.must(err)
		return response.GetImage()
	}
	if present() != nil {
		t.Error("a cancelled pull left an image")
	}
	pull = r.async(func() error { _, err := r.PullImage(r.ctx, spec, auth, sandboxConfig(0)); return err })
	r.clock.Step(time.Minute)
	r.must(<-pull)
	if got := present(); got.GetSize() != 7 || got.GetUsername() != "web" {
		t.Errorf("image %v", got)
	}
	if calls := r.Calls(fake.Match{Method: fake.PullImage, PodUID: uid}); len(calls) != 1 || calls[0].End.Sub(calls[0].Start) != time.Minute {
		t.Errorf("calls %v", calls)
	}
}

// A reopening that takes effect after its caller has given up: lines go to the old file until then, and to the
// new one from then on.
func TestLateReopening(t *testing.T) {
	for _, late := range []time.Duration{0, 5500 * time.Millisecond} {
		options := scripted(fake.Script{Log: []fake.Line{{After: time.Second, Every: time.Second, Text: "tick"}}})
		options.WriteLogs = true
		r := newRig(t, options)
		config := sandboxConfig(0)
		config.LogDirectory = t.TempDir()
		s, err := r.RunPodSandbox(r.ctx, config, "")
		r.must(err)
		c := containerConfig("app", 0)
		c.LogPath = "0.log"
		id, err := r.CreateContainer(r.ctx, s, c, config)
		r.must(err)
		r.must(r.StartContainer(r.ctx, id))
		r.clock.Step(2 * time.Second)
		_ = r.status(id)
		log := filepath.Join(config.LogDirectory, "0.log")
		r.must(os.Rename(log, log+".old"))
		ctx, cancel := context.WithCancel(r.ctx)
		r.Inject(fake.Fault{
			Match: fake.Match{Method: fake.ReopenContainerLog, Func: func(fake.Call) bool { cancel(); return true }},
			Times: 1, Effect: fake.Effect{Hang: true, Done: true, Late: late},
		})
		r.wantClass("reopen", r.ReopenContainerLog(ctx, id), runtime.ErrCanceled)
		r.clock.Step(8 * time.Second)
		_ = r.status(id)
		want := map[string]int{log + ".old": 2 + int(late/time.Second), log: 8 - int(late/time.Second)}
		for path, lines := range want {
			if text, err := os.ReadFile(path); strings.Count(string(text), "tick") != lines {
				t.Errorf("late by %v: %s has %q, %v; want %d lines", late, filepath.Base(path), text, err, lines)
			}
		}
	}
}

// A call that would still take effect takes none once the daemon has stopped or the machine has rebooted: nothing is
// left that would carry it out.
func TestNoEffectAfterTheDaemonStopped(t *testing.T) {
	for name, mishap := range map[string]func(r *rig){
		"reboot": func(r *rig) { r.Reboot() }, "lost records": func(r *rig) { r.LoseRecords() },
		"daemon restarted": func(r *rig) { r.SetDown(true); r.SetDown(false) },
	} {
		for _, givenUp := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, given up %v", name, givenUp), func(t *testing.T) {
				r := newRig(t, fake.Options{})
				arrived := make(chan struct{})
				match := fake.Match{Method: fake.RunPodSandbox, Func: func(fake.Call) bool {
					close(arrived)
					return true
				}}
				r.Inject(fake.Fault{Match: match, Times: 1, Effect: fake.Effect{Hang: true, Done: true, Late: 5 * time.Second}})
				ctx, cancel := context.WithCancel(r.ctx)
				defer cancel()
				done := make(chan error, 1)
				go func() {
					_, err := r.RunPodSandbox(ctx, sandboxConfig(0), "")
					done <- err
				}()
				<-arrived
				if givenUp {
					cancel()
					r.wantClass("given up", <-done, runtime.ErrCanceled)
				}
				mishap(r)
				if !givenUp {
					r.wantClass("in flight", <-done, runtime.ErrUnavailable)
				}
				r.clock.Step(time.Hour)
				list, err := r.ListPodSandbox(r.ctx, nil)
				if r.must(err); len(list) != 0 {
					t.Errorf("sandboxes afterwards: %v", list)
				}
			})
		}
	}
}
