//go:build linux

package process

import (
	"context"
	"errors"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/podwright/podwright/internal/patience"
	"github.com/podwright/podwright/runtime"
	"github.com/podwright/podwright/runtime/cri"
	"github.com/podwright/podwright/runtime/process/internal/osproc"
)

// killFunc replaces osproc.KillByEnv.
type killFunc func(variable string, since map[string]uint64) error

// runtimeWithKill returns a runtime without supervisors whose looks for leftovers are a test's.
func runtimeWithKill(t *testing.T, kill killFunc) (*Runtime, *clocktesting.FakeClock) {
	t.Helper()
	clock := clocktesting.NewFakeClock(time.Unix(1e9, 0))
	r, err := New(Options{Root: filepath.Join(t.TempDir(), "root"), Clock: clock})
	must(t, err)
	r.leftovers.kill = kill
	t.Cleanup(func() { must(t, r.Close(context.Background())) })
	return r, clock
}

// A container is not stopped, and its record not removed, before its leftovers were looked for.
func TestRemovalWaitsForLeftovers(t *testing.T) {
	asked, proceed := make(chan struct{}, 1), make(chan struct{})
	r, _ := runtimeWithKill(t, func(variable string, since map[string]uint64) error {
		asked <- struct{}{}
		<-proceed
		return osproc.KillByEnv(variable, since)
	})
	release := sync.OnceFunc(func() { close(proceed) })
	defer release()
	id := runContainer(t, r, shell("sleep 1000"))
	sandbox := info(t, r, id).SandboxID
	left := background(t, r, id, "setsid sleep 1000 & echo $!")
	done := make(chan error, 3)
	go func() { done <- r.StopContainer(t.Context(), id, 0) }()
	<-asked
	go func() { done <- r.StopPodSandbox(t.Context(), sandbox) }()
	go func() { done <- r.RemoveContainer(t.Context(), id) }()
	patience.Until(t, "the sandbox is being stopped", func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		return r.sandboxes[sandbox].record.NotReady
	})
	select {
	case err := <-done:
		t.Fatalf("a call returned before the leftovers were looked for: %v", err)
	default:
	}
	release()
	for range 3 {
		must(t, <-done)
	}
	patience.Until(t, "the process in the background ends", func() bool { return gone(left) })
	if r.container(id) != nil {
		t.Error("the container is still there")
	}
}

// If the runtime is closed before the leftovers were looked for, the next one looks.
func TestCloseBeforeLeftovers(t *testing.T) {
	asked, proceed := make(chan struct{}, 1), make(chan struct{})
	r, _ := runtimeWithKill(t, func(string, map[string]uint64) error {
		asked <- struct{}{}
		<-proceed
		return errors.New("the agent is dying")
	})
	id := runContainer(t, r, shell("sleep 1000"))
	left := background(t, r, id, "setsid sleep 1000 & echo $!")
	removed, closed := make(chan error, 1), make(chan error, 1)
	go func() { removed <- r.RemoveContainer(t.Context(), id) }()
	<-asked
	go func() { closed <- r.Close(t.Context()) }()
	if err := <-removed; cri.Class(err) != runtime.ErrUnavailable {
		t.Errorf("remove: %v", err)
	}
	close(proceed)
	must(t, <-closed)
	if gone(left) {
		t.Fatal("it was killed already")
	}
	r = openRuntime(t, r.root, Supervisor{})
	patience.Until(t, "the process in the background ends", func() bool { return gone(left) })
	must(t, r.RemoveContainer(t.Context(), id))
}

// What the first look missed is found by the second, which a removal does not wait for.
func TestSecondLookForLeftovers(t *testing.T) {
	looks := 0
	r, clock := runtimeWithKill(t, func(variable string, since map[string]uint64) error {
		if looks++; looks == 1 {
			return nil
		}
		return osproc.KillByEnv(variable, since)
	})
	id := runContainer(t, r, shell("sleep 1000"))
	left := background(t, r, id, "setsid sleep 1000 & echo $!")
	must(t, r.RemoveContainer(t.Context(), id))
	patience.Until(t, "the second look is due", clock.HasWaiters)
	if gone(left) {
		t.Fatal("it was killed already")
	}
	clock.Step(scanAgain)
	patience.Until(t, "the process in the background ends", func() bool { return gone(left) })
}

// A look that failed is repeated after a second, and again when another container ends. It says
// since when the processes can have run.
func TestFailedLookIsRepeated(t *testing.T) {
	looks := make(chan map[string]uint64, 10)
	r, clock := runtimeWithKill(t, func(_ string, since map[string]uint64) error {
		looks <- maps.Clone(since)
		return errors.New("no more descriptors")
	})
	want := map[string]uint64{}
	sandbox := runSandbox(t, r)
	run := func(name string) string {
		id, err := r.CreateContainer(t.Context(), sandbox, shell("sleep 1000", func(c *runtimeapi.ContainerConfig) { c.Metadata.Name = name }), nil)
		must(t, err)
		must(t, r.StartContainer(t.Context(), id))
		process, err := osproc.Identify(info(t, r, id).PID)
		must(t, err)
		want[id] = process.StartTime
		return id
	}
	check := func() {
		t.Helper()
		if got := <-looks; !maps.Equal(got, want) {
			t.Errorf("looked for %v, want %v", got, want)
		}
	}
	must(t, r.RemoveContainer(t.Context(), run("first")))
	check()
	patience.Until(t, "the second look is due", clock.HasWaiters)
	clock.Step(scanAgain)
	check()
	second := run("second")
	must(t, r.RemoveContainer(t.Context(), second))
	check()
}

// If the main process has ended and its record is damaged, a command that runs is not taken for
// the container.
func TestCommandIsNotTheContainer(t *testing.T) {
	r := newRuntime(t, Supervisor{})
	id := runContainer(t, r, shell("sleep 1000"))
	left := background(t, r, id, "setsid sleep 1000 & echo $!")
	pid := info(t, r, id).PID
	must(t, r.Close(t.Context()))
	must(t, unix.Kill(pid, unix.SIGKILL))
	reap(pid, 0)
	must(t, os.WriteFile(r.path(containersDir, id, startedFile), []byte("{"), 0o600))
	r = openRuntime(t, r.root, Supervisor{})
	if s := status(t, r, id); s.GetState() != runtimeapi.ContainerState_CONTAINER_EXITED {
		t.Errorf("status %v", s)
	}
	patience.Until(t, "the command ends", func() bool { return gone(left) })
}

// A New that fails leaves no goroutine, and the folder to the next.
func TestFailedNewLeavesNothing(t *testing.T) {
	r := newRuntime(t, Supervisor{})
	runContainer(t, r, shell("sleep 1000"))
	id, err := r.CreateContainer(t.Context(), runSandboxNamed(t, r, "unrecorded"), shell("sleep 1000"), nil)
	must(t, err)
	must(t, r.StartContainer(t.Context(), id))
	pid := info(t, r, id).PID
	must(t, r.Close(t.Context()))
	// Something that cannot be replaced is in the place of the record.
	started := r.path(containersDir, id, startedFile)
	must(t, os.Remove(started))
	must(t, os.MkdirAll(filepath.Join(started, "full"), 0o700))

	before := goleak.IgnoreCurrent()
	if broken, err := New(Options{Root: r.root}); err == nil {
		must(t, broken.Close(t.Context()))
		t.Fatal("the start of a container cannot be recorded, and New succeeds")
	}
	goleak.VerifyNone(t, before)
	must(t, os.RemoveAll(started))
	r = openRuntime(t, r.root, Supervisor{})
	if got := info(t, r, id).PID; got != pid {
		t.Errorf("pid %d, want %d", got, pid)
	}
}

// A child that cannot be identified would be lost: it is killed and reaped.
func TestChildNotAdoptedIsKilled(t *testing.T) {
	fd := -1
	child := exec.Command("sleep", "1000")
	child.SysProcAttr = &unix.SysProcAttr{Setsid: true, PidFD: &fd}
	must(t, child.Start())
	release := useDescriptors(t, 0)
	_, err := adoptChild(child.Process.Pid, fd)
	release()
	if err == nil {
		t.Error("it was adopted without a descriptor to read /proc with")
	}
	if err := child.Wait(); !errors.Is(err, unix.ECHILD) {
		t.Errorf("the child was not reaped: %v", err)
	}
}
