//go:build linux

package process

import (
	"context"
	"errors"
	"fmt"
	goruntime "runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/podwright/podwright/internal/patience"
	"github.com/podwright/podwright/runtime"
	"github.com/podwright/podwright/runtime/cri"
	"github.com/podwright/podwright/runtime/process/internal/osproc"
)

func itoa(n int) string { return strconv.Itoa(n) }

// The time-out is on the injected clock and kills everything the command started;
// what it had written is returned.
func TestExecTimeout(t *testing.T) {
	clock := clocktesting.NewFakeClock(time.Unix(1e9, 0))
	r, err := New(Options{Root: t.TempDir() + "/root", Clock: clock})
	must(t, err)
	defer func() { must(t, r.Close(context.Background())) }()
	id := runContainer(t, r, shell("sleep 1000"))
	defer func() { must(t, r.RemoveContainer(context.Background(), id)) }()
	ready := t.TempDir() + "/ready"
	type result struct {
		stdout string
		err    error
	}
	done := make(chan result, 1)
	go func() {
		stdout, _, err := r.ExecSync(t.Context(), id,
			[]string{"/bin/sh", "-c", "trap '' TERM; sleep 1000 & echo $! $$; echo >" + ready + "; wait; sleep 1000"}, time.Minute)
		done <- result{string(stdout), err}
	}()
	patience.Until(t, "the command is up", func() bool { return readFile(t, ready) != "" && clock.HasWaiters() })
	var processes []osproc.Identity
	clock.Step(time.Minute)
	got := <-done
	if cri.Class(got.err) != runtime.ErrDeadline {
		t.Errorf("error %v", got.err)
	}
	for field := range strings.FieldsSeq(got.stdout) {
		pid, err := strconv.Atoi(field)
		must(t, err)
		if i, err := osproc.Identify(pid); err == nil {
			processes = append(processes, i)
		}
	}
	if !strings.Contains(got.stdout, " ") {
		t.Fatalf("output before the time-out is lost: %q", got.stdout)
	}
	for _, p := range processes {
		patience.Until(t, fmt.Sprintf("process %d ends", p.PID), func() bool { return gone(p) })
	}
}

// A command that does not end although it was killed, as on a file system that hangs, takes no thread (probe.md 9.5). While there are
// eight of a container, no other begins in it; other containers' do.
func TestCommandsThatDoNotEndAreBounded(t *testing.T) {
	r := newRuntime(t, Supervisor{})
	sandbox := runSandbox(t, r)
	run := func(name string) string {
		id, err := r.CreateContainer(t.Context(), sandbox, shell("sleep 1000", func(c *runtimeapi.ContainerConfig) { c.Metadata.Name = name }), nil)
		must(t, err)
		must(t, r.StartContainer(t.Context(), id))
		return id
	}
	id, other := run("main"), run("other")
	c := r.container(id)
	ends := make(chan struct{})
	for range maxDying {
		var out, errOut capture
		files, err := pipeFiles(&c.record, false, &out, &errOut)
		must(t, err)
		j, err := r.startJob(c, c.run, []string{"sleep", "1000"}, files)
		must(t, err)
		j.ended = ends
		r.abort(j)
	}
	try := func(id string) error {
		_, _, err := r.ExecSync(t.Context(), id, []string{"true"}, 0)
		return err
	}
	if err := try(id); cri.Class(err) != runtime.ErrDeadline {
		t.Errorf("a ninth command: %v", err)
	}
	err := r.ExecStream(t.Context(), id, []string{"true"}, cri.Streams{})
	if cri.Class(err) != runtime.ErrDeadline {
		t.Errorf("a ninth command with streams: %v", err)
	}
	must(t, try(other))
	close(ends)
	patience.Until(t, "commands begin again", func() bool { return try(id) == nil })
	patience.Until(t, "none is counted", func() bool { return r.dying(c) == 0 })
}

// A container's end ends the commands in it.
func TestExecEndsWithContainer(t *testing.T) {
	eachMode(t, func(t *testing.T, supervisor Supervisor) {
		r := newRuntime(t, supervisor)
		id := runContainer(t, r, shell("sleep 1000"))
		ready := t.TempDir() + "/ready"
		done := make(chan error, 1)
		go func() {
			_, _, err := r.ExecSync(t.Context(), id, []string{"/bin/sh", "-c", "echo >" + ready + "; sleep 1000"}, 0)
			done <- err
		}()
		patience.Until(t, "the command is up", func() bool { return readFile(t, ready) != "" })
		must(t, r.StopContainer(t.Context(), id, 0))
		if err := <-done; cri.Class(err) != runtime.ErrFailedPrecondition {
			t.Errorf("error %v", err)
		}
	})
}

// What a command leaves in the background, even in a session of its own, ends with the container,
// also if no agent runs then: the next one ends it.
func TestBackgroundEndsWithContainer(t *testing.T) {
	eachMode(t, func(t *testing.T, supervisor Supervisor) {
		for _, agentRuns := range []bool{true, false} {
			t.Run(fmt.Sprintf("agent runs %v", agentRuns), func(t *testing.T) {
				root, end := t.TempDir(), t.TempDir()+"/end"
				r := openRuntime(t, root, supervisor)
				sandbox := runSandbox(t, r)
				run := func(name, script string) string {
					id, err := r.CreateContainer(t.Context(), sandbox, shell(script, func(c *runtimeapi.ContainerConfig) { c.Metadata.Name = name }), nil)
					must(t, err)
					must(t, r.StartContainer(t.Context(), id))
					return id
				}
				id, other := run("main", waitForFile(end, "exit 0")), run("other", "sleep 1000")
				left := background(t, r, id, "setsid sleep 1000 & echo $!")
				others := background(t, r, other, "sleep 1000 & echo $!")
				process, err := osproc.Identify(info(t, r, id).PID)
				must(t, err)
				if !agentRuns {
					must(t, r.Close(t.Context()))
				}
				touch(t, end)
				if !agentRuns {
					patience.Until(t, "the container ends", func() bool { return gone(process) })
					if supervisor.enabled() {
						waitExitRecord(t, r, id)
					}
					r = openRuntime(t, root, supervisor)
				}
				waitExit(t, r, id)
				patience.Until(t, "the process in the background ends", func() bool { return gone(left) })
				if gone(others) {
					t.Error("what runs in the background of another container is gone")
				}
				must(t, r.StopContainer(t.Context(), other, 0))
				patience.Until(t, "the process in the background of the other ends", func() bool { return gone(others) })
			})
		}
	})
}

// background runs a script that prints the pid of a process it leaves in the background.
func background(t *testing.T, r *Runtime, container, script string) osproc.Identity {
	t.Helper()
	out, _, err := r.ExecSync(t.Context(), container, []string{"/bin/sh", "-c", script}, 0)
	must(t, err)
	pid, err := strconv.Atoi(strings.TrimSpace(string(out)))
	must(t, err)
	id, err := osproc.Identify(pid)
	must(t, err)
	return id
}

// A background process that keeps the output open does not keep the call; output
// is bounded; what cannot run has no exit status.
func TestExecOutput(t *testing.T) {
	r := newRuntime(t, Supervisor{})
	id := runContainer(t, r, shell("sleep 1000"))
	run := func(script string) (string, error) {
		stdout, _, err := r.ExecSync(t.Context(), id, []string{"/bin/sh", "-c", script}, 0)
		return string(stdout), err
	}
	background(t, r, id, "sleep 1000 & echo $!")

	out, err := run(fmt.Sprintf("head -c %d /dev/zero", maxExecOutput+100_000))
	must(t, err)
	if len(out) != maxExecOutput {
		t.Errorf("%d bytes of output, want the limit %d", len(out), maxExecOutput)
	}
	var exit *runtime.ExitError
	if _, err = run("kill -9 $$"); !errors.As(err, &exit) || exit.Code != 137 {
		t.Errorf("killed command: %v", err)
	}
	_, _, err = r.ExecSync(t.Context(), id, []string{"no-such-command"}, 0)
	if err == nil || errors.As(err, &exit) || !strings.Contains(err.Error(), "no-such-command") {
		t.Errorf("missing command: %v", err)
	}
	if _, _, err = r.ExecSync(t.Context(), id, nil, 0); cri.Class(err) != runtime.ErrInvalid {
		t.Errorf("no command: %v", err)
	}
}

// A failed start is the container's end, with the words for the user.
func TestStartFails(t *testing.T) {
	eachMode(t, func(t *testing.T, supervisor Supervisor) {
		r := newRuntime(t, supervisor)
		for name, c := range map[string]struct {
			change func(*runtimeapi.ContainerConfig)
			says   string
		}{
			"missing command": {func(c *runtimeapi.ContainerConfig) { c.Command = []string{"no-such-command"} }, "no-such-command"},
			"missing folder":  {func(c *runtimeapi.ContainerConfig) { c.WorkingDir = "/no/such/folder" }, "/no/such/folder"},
			"too large": {func(c *runtimeapi.ContainerConfig) {
				c.Envs = []*runtimeapi.KeyValue{{Key: "BIG", Value: []byte(strings.Repeat("x", 1<<20))}}
			}, "too large"},
		} {
			t.Run(name, func(t *testing.T) {
				id, err := r.CreateContainer(t.Context(), runSandboxNamed(t, r, name), shell("true", c.change), nil)
				must(t, err)
				if err := r.StartContainer(t.Context(), id); err == nil || !strings.Contains(err.Error(), c.says) {
					t.Errorf("start: %v", err)
				}
				s := waitExit(t, r, id)
				if s.GetExitCode() != codeStartError || s.GetReason() != reasonStartError || !strings.Contains(s.GetMessage(), c.says) {
					t.Errorf("status %v", s)
				}
				if err := r.StartContainer(t.Context(), id); cri.Class(err) != runtime.ErrFailedPrecondition {
					t.Errorf("second start: %v", err)
				}
			})
		}
	})
}

func runSandboxNamed(t *testing.T, r *Runtime, name string) string {
	t.Helper()
	config := sandboxConfig(t)
	config.Metadata.Name = name
	id, err := r.RunPodSandbox(t.Context(), config, "")
	must(t, err)
	return id
}

// A binary that does not call Shim is not run again and again: one start fails,
// clearly.
func TestNoSupervisorInBinary(t *testing.T) {
	r := newRuntime(t, Supervisor{executable: "/bin/true"})
	id, err := r.CreateContainer(t.Context(), runSandbox(t, r), shell("true"), nil)
	must(t, err)
	if err := r.StartContainer(t.Context(), id); err == nil || !strings.Contains(err.Error(), "supervisor") {
		t.Errorf("start: %v", err)
	}
	if s := waitExit(t, r, id); s.GetExitCode() != codeStartError {
		t.Errorf("status %v", s)
	}
}

// Idle supervised containers cost the agent no goroutine.
func TestNoGoroutinePerContainer(t *testing.T) {
	r := newRuntime(t, modes()[0].supervisor)
	runContainer(t, r, shell("sleep 1000"))
	before := goruntime.NumGoroutine()
	for i := range 10 {
		id, err := r.CreateContainer(t.Context(), runSandboxNamed(t, r, itoa(i)), shell("sleep 1000"), nil)
		must(t, err)
		must(t, r.StartContainer(t.Context(), id))
	}
	patience.Until(t, "goroutines end", func() bool { return goruntime.NumGoroutine() <= before })
}

// A slow reader of events is told that it missed some.
func TestEventsOverflow(t *testing.T) {
	r := newRuntime(t, Supervisor{})
	events := make(chan *runtimeapi.ContainerEventResponse)
	up, done := make(chan struct{}), make(chan error, 1)
	go func() {
		done <- r.GetContainerEvents(t.Context(), events, func(runtimeapi.RuntimeService_GetContainerEventsClient) { close(up) })
	}()
	<-up
	for range eventBuffer + 2 {
		r.publish("none", "none", runtimeapi.ContainerEventType_CONTAINER_CREATED_EVENT)
	}
	if err := <-done; cri.Class(err) != runtime.ErrExhausted {
		t.Errorf("error %v", err)
	}
}
