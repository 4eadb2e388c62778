//go:build linux

package process

import (
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/podwright/podwright/internal/patience"
	"github.com/podwright/podwright/runtime/process/internal/osproc"
)

// gateEnv makes a supervisor of the test binary wait until its descriptor 5 ends, as if a disk did not answer.
const gateEnv = "PROCESS_TEST_GATE"

func awaitGate() {
	unix.CloseOnExec(5)
	gate := os.NewFile(5, "gate")
	_, _ = io.ReadAll(gate)
	gate.Close()
}

// slowSupervisor starts a supervisor that does nothing before the gate is open. Its agent was killed.
func slowSupervisor(t *testing.T, dir string) (command *exec.Cmd, open func()) {
	t.Helper()
	lock, err := lockFile(filepath.Join(dir, lockName))
	must(t, err)
	defer lock.Close()
	from, to, err := os.Pipe()
	must(t, err)
	from.Close()
	defer to.Close()
	gate, opener, err := os.Pipe()
	must(t, err)
	defer gate.Close()
	command = &exec.Cmd{
		Path: selfExecutable, Args: []string{shimName, dir}, Env: []string{shimEnv + "=1", gateEnv + "=1"},
		ExtraFiles: []*os.File{to, lock, gate}, SysProcAttr: &unix.SysProcAttr{Setsid: true},
	}
	must(t, command.Start())
	t.Cleanup(func() {
		_ = command.Process.Kill()
		_ = command.Wait()
		opener.Close()
	})
	return command, func() { opener.Close() }
}

// startingContainer returns a container that an agent was about to start when it was killed.
func startingContainer(t *testing.T) (root, dir, id string) {
	t.Helper()
	r := newRuntime(t, modes()[0].supervisor)
	id, err := r.CreateContainer(t.Context(), runSandbox(t, r), shell("sleep 1000"), nil)
	must(t, err)
	must(t, r.Close(t.Context()))
	dir = r.path(containersDir, id)
	touch(t, filepath.Join(dir, startingFile))
	return r.root, dir, id
}

// newOnSteppedClock calls New while the time passes.
func newOnSteppedClock(t *testing.T, root string) *Runtime {
	t.Helper()
	clock := clocktesting.NewFakeClock(time.Unix(1e9, 0))
	var r *Runtime
	var err error
	done := make(chan struct{})
	go func() {
		defer close(done)
		r, err = New(Options{Root: root, Clock: clock, Supervisor: modes()[0].supervisor})
	}()
	patience.Until(t, "New returns", func() bool {
		clock.Step(time.Second)
		select {
		case <-done:
			return true
		default:
			return false
		}
	})
	must(t, err)
	t.Cleanup(func() { must(t, r.Close(context.Background())) })
	return r
}

// The agent was killed while a supervisor waited for a disk before it started its container. If the next agent reports that
// the container has ended, that is not started later.
func TestSlowSupervisorStartsNothingLater(t *testing.T) {
	root, dir, id := startingContainer(t)
	command, open := slowSupervisor(t, dir)
	r := newOnSteppedClock(t, root)
	wantExit(t, status(t, r, id), Supervisor{}, 0)
	open()
	defer killMarked(t, id)
	var found map[string]osproc.Identity
	patience.Until(t, "the supervisor ends, or starts its container", func() bool {
		var err error
		found, err = osproc.FindByEnv(containerEnv, commandEnv, map[string]bool{id: true})
		must(t, err)
		return len(found) > 0 || !isAlive(command)
	})
	if len(found) > 0 {
		t.Errorf("%v was started after the end of the container was reported", found)
	}
}

// The agent was killed while a supervisor recorded what it had started. If the next agent takes its place, it no longer
// reads the output nor writes records.
func TestSlowSupervisorLeavesItsContainer(t *testing.T) {
	root, dir, id := startingContainer(t)
	supervisor, _ := slowSupervisor(t, dir)
	started := exec.Command("sleep", "1000")
	started.Env, started.SysProcAttr = []string{containerEnv + "=" + id}, &unix.SysProcAttr{Setsid: true}
	must(t, started.Start())
	defer func() { _ = started.Wait() }()
	r := newOnSteppedClock(t, root)
	patience.Until(t, "the supervisor ends", func() bool { return !isAlive(supervisor) })
	if got := info(t, r, id).PID; got != started.Process.Pid {
		t.Errorf("pid %d, want %d", got, started.Process.Pid)
	}
	must(t, r.StopContainer(t.Context(), id, 0))
}

// isAlive reports whether a command has not ended.
func isAlive(command *exec.Cmd) bool {
	id, err := osproc.Identify(command.Process.Pid)
	return err == nil && !gone(id)
}

// A supervisor that is done in time is left alone, and so is that of another container.
func TestSupervisorInTime(t *testing.T) {
	root, dir, id := startingContainer(t)
	_, otherDir, _ := startingContainer(t)
	other, _ := slowSupervisor(t, otherDir)
	_, open := slowSupervisor(t, dir)
	open()
	patience.Until(t, "the container is recorded", func() bool {
		ok, err := readRecord(dir, startedFile, &startedRecord{})
		return ok && err == nil
	})
	r := newOnSteppedClock(t, root)
	if s := status(t, r, id); s.GetState() != runtimeapi.ContainerState_CONTAINER_RUNNING || info(t, r, id).SupervisorPID == 0 {
		t.Errorf("%v", s)
	}
	must(t, r.StopContainer(t.Context(), id, 0))
	if !isAlive(other) {
		t.Error("the supervisor of another runtime was killed")
	}
}

// A lock that somebody else holds delays New, and does not keep it from returning.
func TestForeignLockDelaysNew(t *testing.T) {
	root, dir, id := startingContainer(t)
	lock, err := lockFile(filepath.Join(dir, lockName))
	must(t, err)
	defer lock.Close()
	wantExit(t, status(t, newOnSteppedClock(t, root), id), Supervisor{}, 0)
}
