package fake_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/runtime"
	"github.com/podwright/podwright/runtime/fake"
)

// One step over an hour: the container ended when its script says, not when it was
// looked at.
func TestExitIsStampedWithItsMoment(t *testing.T) {
	r := newRig(t, scripted(fake.Script{Exit: &fake.Exit{After: 5 * time.Second, Code: 3, Message: "bye"}}))
	id := r.run(r.sandbox(), "app", 0)
	r.clock.Step(5*time.Second - 1)
	if got := r.status(id).GetState(); got != runtimeapi.ContainerState_CONTAINER_RUNNING {
		t.Fatalf("state %v before the end", got)
	}
	r.clock.Step(time.Hour)
	r.wantExit(id, 3, 5*time.Second)
	if st := r.status(id); st.GetReason() != "Error" || st.GetMessage() != "bye" {
		t.Errorf("reason %q message %q", st.GetReason(), st.GetMessage())
	}
}

// A script of no length ends within the start call, with the clock standing
// still.
func TestExitAtOnce(t *testing.T) {
	r := newRig(t, scripted(fake.Script{Exit: &fake.Exit{}}))
	s := r.sandbox()
	for attempt := range uint32(3) {
		id := r.run(s, "app", attempt)
		r.wantExit(id, 0, 0)
		if got := r.status(id).GetReason(); got != "Completed" {
			t.Errorf("reason %q", got)
		}
	}
}

func TestCrashesThenRuns(t *testing.T) {
	r := newRig(t, scripted(fake.Script{Crashes: 2, Crash: fake.Exit{After: time.Second}}))
	s := r.sandbox()
	var ids []string
	for attempt := range uint32(3) {
		ids = append(ids, r.run(s, "app", attempt))
		r.clock.Step(2 * time.Second)
	}
	for i, id := range ids[:2] {
		r.wantExit(id, 1, time.Duration(2*i+1)*time.Second)
	}
	if got := r.status(ids[2]).GetState(); got != runtimeapi.ContainerState_CONTAINER_RUNNING {
		t.Errorf("third run: %v", got)
	}
	if got, want := r.Facts(uid, "app"), (fake.Facts{Created: 3, Started: 3, Running: 1, MaxRunning: 1}); got != want {
		t.Errorf("facts %+v, want %+v", got, want)
	}
	r.must(r.Doubled())
	r.run(s, "app", 3)
	if err := r.Doubled(); err == nil || !strings.Contains(err.Error(), "uid-1/app (2)") {
		t.Errorf("two running containers of one name: %v", err)
	}
}

func TestCreateAndStartFailures(t *testing.T) {
	broken := errors.New("broken")
	r := newRig(t, fake.Options{Script: func(l fake.Launch) fake.Script {
		if l.Container == "create" {
			return fake.Script{CreateErr: broken}
		}
		return fake.Script{StartErr: broken}
	}})
	s := r.sandbox()
	_, err := r.CreateContainer(r.ctx, s, containerConfig("create", 0), sandboxConfig(0))
	r.wantClass("create", err, broken)
	id, err := r.CreateContainer(r.ctx, s, containerConfig("start", 0), sandboxConfig(0))
	r.must(err)
	r.wantClass("start", r.StartContainer(r.ctx, id), broken)
	r.wantExit(id, 128, 0)
	if got := r.Running(uid, "start"); got != 0 {
		t.Errorf("%d running after a failed start", got)
	}
}

// StopContainer: which signal ends the container, when, with what code
// (spec/runtime.md 16.2, 16.6).
func TestStopSignalsThenKills(t *testing.T) {
	for _, c := range []struct {
		name   string
		script fake.Script
		grace  int64
		steps  []time.Duration
		code   int32
		after  time.Duration
	}{
		{"SIGTERM at once", fake.Script{OnTERM: fake.Exit{Code: 143}}, 30, nil, 143, 0},
		{"SIGTERM takes its time", fake.Script{OnTERM: fake.Exit{After: 4 * time.Second}}, 30, []time.Duration{4 * time.Second}, 0, 4 * time.Second},
		{"slower than its grace", fake.Script{OnTERM: fake.Exit{After: 31 * time.Second}}, 30, []time.Duration{29 * time.Second, time.Second}, 137, 30 * time.Second},
		{"ignored", fake.Script{IgnoreTERM: true}, 2, []time.Duration{time.Minute}, 137, 2 * time.Second},
		{"no grace", fake.Script{}, 0, nil, 137, 0},
		{"ends by itself meanwhile", fake.Script{IgnoreTERM: true, Exit: &fake.Exit{After: time.Second, Code: 5}}, 30, []time.Duration{time.Second}, 5, time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, scripted(c.script))
			id := r.run(r.sandbox(), "app", 0)
			done := r.async(func() error { return r.StopContainer(r.ctx, id, c.grace) })
			for _, d := range c.steps {
				r.clock.Step(d)
			}
			r.must(<-done)
			r.wantExit(id, c.code, c.after)
		})
	}
}

func TestStopShorterOvertakes(t *testing.T) {
	r := newRig(t, scripted(fake.Script{IgnoreTERM: true}))
	id := r.run(r.sandbox(), "app", 0)
	long := r.async(func() error { return r.StopContainer(r.ctx, id, 600) })
	r.clock.Step(5 * time.Second)
	short := r.async(func() error { return r.StopContainer(r.ctx, id, 1) })
	r.clock.Step(time.Second)
	r.must(<-short)
	r.must(<-long)
	r.wantExit(id, 137, 6*time.Second)
}

func TestContainerIsReadyAfterReadyAfter(t *testing.T) {
	r := newRig(t, scripted(fake.Script{ReadyAfter: 3 * time.Second}))
	id := r.run(r.sandbox(), "app", 0)
	probe := func() int {
		_, _, err := r.ExecSync(r.ctx, id, []string{"probe"}, time.Second)
		var exit *runtime.ExitError
		if errors.As(err, &exit) {
			return exit.Code
		}
		r.must(err)
		return 0
	}
	if r.Ready(uid, "app") || probe() != 1 {
		t.Error("ready too early")
	}
	r.clock.Step(3 * time.Second)
	if !r.Ready(uid, "app") || probe() != 0 {
		t.Error("not ready in time")
	}
	r.must(r.Exit(uid, "app", fake.Exit{Code: 1}))
	if r.Ready(uid, "app") {
		t.Error("ready after its end")
	}
	r.wantClass("exit of what does not run", r.Exit(uid, "app", fake.Exit{}), runtime.ErrNotFound)
}

// Time on the clock, not in the test: a command cut off at its limit, one that
// dies with its container, and one that just takes long.
func TestExecTakesTime(t *testing.T) {
	script := fake.Script{Exec: func(e fake.Exec) fake.ExecResult {
		return fake.ExecResult{Took: 10 * time.Second, Stdout: e.Cmd[0]}
	}}
	exec := func(r *rig, id string, timeout time.Duration) (<-chan error, *string) {
		var out string
		return r.async(func() error {
			stdout, _, err := r.ExecSync(r.ctx, id, []string{"hello"}, timeout)
			out = string(stdout)
			return err
		}), &out
	}
	t.Run("done", func(t *testing.T) {
		r := newRig(t, scripted(script))
		done, out := exec(r, r.run(r.sandbox(), "app", 0), 0)
		r.clock.Step(10 * time.Second)
		r.must(<-done)
		if *out != "hello" {
			t.Errorf("stdout %q", *out)
		}
	})
	t.Run("timeout", func(t *testing.T) {
		r := newRig(t, scripted(script))
		done, _ := exec(r, r.run(r.sandbox(), "app", 0), 4*time.Second)
		r.clock.Step(4 * time.Second)
		r.wantClass("exec", <-done, runtime.ErrDeadline)
	})
	t.Run("container dies", func(t *testing.T) {
		r := newRig(t, scripted(script))
		done, _ := exec(r, r.run(r.sandbox(), "app", 0), 0)
		r.must(r.Exit(uid, "app", fake.Exit{}))
		var exit *runtime.ExitError
		if err := <-done; !errors.As(err, &exit) || exit.Code != 137 {
			t.Errorf("error %v, want exit code 137", err)
		}
	})
}

// Lines carry the moment they were due; none comes after the end.
func TestLogLines(t *testing.T) {
	options := scripted(fake.Script{
		Log: []fake.Line{
			{Text: "begin"},
			{After: time.Second, Every: time.Second, Text: "tick"},
			{After: 2 * time.Second, Stderr: true, Text: "late"},
			{After: time.Minute, Text: "never"},
		},
		Exit: &fake.Exit{After: 2500 * time.Millisecond},
	})
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
	r.clock.Step(time.Hour)
	r.wantExit(id, 0, 2500*time.Millisecond)
	got, err := os.ReadFile(filepath.Join(config.LogDirectory, "0.log"))
	r.must(err)
	want := "2026-01-02T03:04:05Z stdout F begin\n" +
		"2026-01-02T03:04:06Z stdout F tick\n" +
		"2026-01-02T03:04:07Z stderr F late\n" +
		"2026-01-02T03:04:07Z stdout F tick\n"
	if string(got) != want {
		t.Errorf("log:\n%s\nwant:\n%s", got, want)
	}
}

// No folder, no start, as with real runtimes.
func TestLogFolderMissing(t *testing.T) {
	r := newRig(t, fake.Options{WriteLogs: true})
	config := sandboxConfig(0)
	config.LogDirectory = filepath.Join(t.TempDir(), "absent")
	s, err := r.RunPodSandbox(r.ctx, config, "")
	r.must(err)
	c := containerConfig("app", 0)
	c.LogPath = "0.log"
	id, err := r.CreateContainer(r.ctx, s, c, config)
	r.must(err)
	r.wantClass("start", r.StartContainer(r.ctx, id), os.ErrNotExist)
	if got := r.status(id).GetState(); got != runtimeapi.ContainerState_CONTAINER_CREATED {
		t.Errorf("state %v", got)
	}
}

// Creation order is total even when the clock stands still (spec/runtime.md 1.3).
func TestCreationTimesAreStrict(t *testing.T) {
	r := newRig(t, fake.Options{})
	s := r.sandbox()
	before := int64(0)
	for attempt := range uint32(5) {
		st := r.status(r.run(s, "app", attempt))
		if st.GetCreatedAt() <= before || st.GetStartedAt() < st.GetCreatedAt() {
			t.Errorf("attempt %d: created %d started %d, before it %d", attempt, st.GetCreatedAt(), st.GetStartedAt(), before)
		}
		before = st.GetCreatedAt()
	}
}
