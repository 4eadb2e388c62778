package runtimetest

import (
	"context"
	"errors"
	"strings"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/runtime"
	"github.com/podwright/podwright/runtime/cri"
)

func execCases() []namedCase {
	return []namedCase{
		{"output is split by stream", execOutput},
		{"an exit code is an ExitStatus error", execExitCode},
		{"a run over the timeout is a deadline error", execTimeout},
		{"a cancelled context ends it", execCancelled},
		{"an exited container runs nothing", execExited},
		{"a command does not start a created container", execCreated},
		{"the container's environment is seen", execEnvironment},
		{"large output arrives whole", execLarge},
		{"commands run side by side", execConcurrent},
	}
}

func execOutput(e *env) {
	s := e.sandbox()
	id := e.start(s, Program{Run: Forever})
	stdout, stderr, err := e.exec(id, Program{Stdout: []string{"one", "two"}, Stderr: []string{"three"}}, 30*time.Second)
	e.must(err)
	if stdout != "one\ntwo\n" || stderr != "three\n" {
		e.Errorf("stdout %q stderr %q, want one two, three", stdout, stderr)
	}
	stdout, stderr, err = e.exec(id, Program{Unterminated: "no newline"}, 0)
	e.must(err)
	if stdout != "no newline" || stderr != "" {
		e.Errorf("stdout %q stderr %q, want no newline, nothing", stdout, stderr)
	}
}

// execExitCode: the output of a failed command is returned; probes and hooks show it.
func execExitCode(e *env) {
	s := e.sandbox()
	id := e.start(s, Program{Run: Forever})
	for _, code := range []int{1, 42, 255} {
		stdout, _, err := e.exec(id, Program{Stdout: []string{"out"}, Exit: code}, 30*time.Second)
		var exit interface{ ExitStatus() int }
		if !errors.As(err, &exit) {
			e.Fatalf("exit code %d: error %v has no ExitStatus", code, err)
		}
		if exit.ExitStatus() != code {
			e.Errorf("exit status %d, want %d", exit.ExitStatus(), code)
		}
		if stdout != "out\n" {
			e.Errorf("stdout %q of a command that failed, want %q", stdout, "out\n")
		}
	}
	if got := e.status(id).GetState(); got != runtimeapi.ContainerState_CONTAINER_RUNNING {
		e.Errorf("container state %v after failed commands", got)
	}
}

func execTimeout(e *env) {
	s := e.sandbox()
	id := e.start(s, Program{Run: Forever})
	_, _, err := e.exec(id, Program{Run: Forever}, time.Second)
	if cri.Class(err) != runtime.ErrDeadline {
		e.Errorf("error %v, want class %v", err, runtime.ErrDeadline)
	}
	var exit interface{ ExitStatus() int }
	if errors.As(err, &exit) {
		e.Errorf("a command that was cut off has exit status %d", exit.ExitStatus())
	}
	_, _, err = e.exec(id, Program{}, 30*time.Second)
	e.must(err)
}

func execCancelled(e *env) {
	s := e.sandbox()
	id := e.start(s, Program{Run: Forever})
	ctx, cancel := context.WithCancel(e.ctx)
	ended := make(chan error, 1)
	go func() {
		_, _, err := e.Runtime.ExecSync(ctx, id, e.Command(Program{Run: Forever}), 0)
		ended <- err
	}()
	// Later commands have ended by now, so the first one runs. The case is about a command that runs:
	// containerd 2.4 can hold up the end of a container for 30 s if a command in it was cut off at its start.
	for range 3 {
		_, _, err := e.exec(id, Program{}, 30*time.Second)
		e.must(err)
	}
	cancel()
	if err := <-ended; cri.Class(err) != runtime.ErrCanceled {
		e.Errorf("error %v, want class %v", err, runtime.ErrCanceled)
	}
}

// execExited: the error is not an exit code of a command.
func execExited(e *env) {
	s := e.sandbox()
	e.wantNoExec(e.finish(s, Program{}).GetId())
}

// execCreated: a runtime may run commands in a container that has not been started, which does
// not start it. A refusal is not an exit code of a command.
func execCreated(e *env) {
	s := e.sandbox()
	id := e.create(s, Program{Run: Forever})
	_, _, err := e.exec(id, Program{}, 30*time.Second)
	var exit interface{ ExitStatus() int }
	if errors.As(err, &exit) {
		e.Errorf("error %v, want one without an exit status", err)
	}
	if got := e.status(id).GetState(); got != runtimeapi.ContainerState_CONTAINER_CREATED {
		e.Errorf("container state %v, want created", got)
	}
}

func (e *env) wantNoExec(id string) {
	e.Helper()
	_, _, err := e.exec(id, Program{}, 30*time.Second)
	var exit interface{ ExitStatus() int }
	if err == nil || errors.As(err, &exit) {
		e.Errorf("error %v, want one without an exit status", err)
	}
}

func execEnvironment(e *env) {
	s := e.sandbox()
	id := e.start(s, Program{Run: Forever}, func(c *runtimeapi.ContainerConfig) {
		c.Envs = []*runtimeapi.KeyValue{{Key: "COLOUR", Value: []byte("dark red")}}
		c.WorkingDir = e.WorkingDir
	})
	stdout, _, err := e.exec(id, Program{Env: []string{"COLOUR"}, WorkingDir: true}, 30*time.Second)
	e.must(err)
	if want := "dark red\n" + e.WorkingDir + "\n"; stdout != want {
		e.Errorf("stdout %q, want %q", stdout, want)
	}
}

func execLarge(e *env) {
	s := e.sandbox()
	id := e.start(s, Program{Run: Forever})
	var want []string
	for i := range 64 {
		want = append(want, strings.Repeat(string(rune('a'+i%26)), 1000))
	}
	stdout, _, err := e.exec(id, Program{Stdout: want}, 0)
	e.must(err)
	if stdout != strings.Join(want, "\n")+"\n" {
		e.Errorf("got %d bytes of output, want %d", len(stdout), len(want)*1001)
	}
}

func execConcurrent(e *env) {
	s := e.sandbox()
	id := e.start(s, Program{Run: Forever})
	e.together(8, func(i int) error {
		_, _, err := e.exec(id, Program{Exit: i + 1, Run: 50 * time.Millisecond}, 0)
		var exit interface{ ExitStatus() int }
		if !errors.As(err, &exit) || exit.ExitStatus() != i+1 {
			return errors.Join(errors.New("wrong exit status"), err)
		}
		return nil
	})
}
