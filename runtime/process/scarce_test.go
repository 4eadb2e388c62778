//go:build linux

package process

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/podwright/podwright/internal/patience"
)

// useDescriptors leaves only some descriptors until the returned function is called.
func useDescriptors(t *testing.T, free int) (release func()) {
	t.Helper()
	var old unix.Rlimit
	must(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &old))
	must(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 256, Max: old.Max}))
	var held []int
	for {
		fd, err := unix.Open(os.DevNull, unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			break
		}
		held = append(held, fd)
	}
	for _, fd := range held[:free] {
		unix.Close(fd)
	}
	return sync.OnceFunc(func() {
		for _, fd := range held[free:] {
			unix.Close(fd)
		}
		must(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &old))
	})
}

// supervisedWithClock returns a runtime with supervisors on a fake clock. At the end its pods are removed.
func supervisedWithClock(t *testing.T) (*Runtime, *clocktesting.FakeClock) {
	t.Helper()
	return runtimeOnClock(t, modes()[0].supervisor)
}

func runtimeOnClock(t *testing.T, supervisor Supervisor) (*Runtime, *clocktesting.FakeClock) {
	t.Helper()
	clock := clocktesting.NewFakeClock(time.Unix(1e9, 0))
	root := filepath.Join(t.TempDir(), "root")
	r, err := New(Options{Root: root, Clock: clock, Supervisor: supervisor})
	must(t, err)
	t.Cleanup(func() {
		must(t, r.Close(context.Background()))
		openRuntime(t, root, supervisor)
	})
	return r, clock
}

// endUnread ends a container with code 0 while the agent has no descriptor to read that with.
func endUnread(t *testing.T, r *Runtime, clock *clocktesting.FakeClock) (id string, release func()) {
	t.Helper()
	id = runContainer(t, r, shell("trap 'exit 0' TERM; echo up; while :; do sleep 1000 & wait $!; done"))
	waitLine(t, r, id, "up")
	pid := info(t, r, id).PID
	release = useDescriptors(t, 0)
	t.Cleanup(release)
	must(t, unix.Kill(pid, unix.SIGTERM))
	patience.Until(t, "the agent looks again later", clock.HasWaiters)
	return id, release
}

// wantSuccess wants exit code 0, from the runtime and on disk.
func wantSuccess(t *testing.T, r *Runtime, id string) {
	t.Helper()
	if s := status(t, r, id); s.GetExitCode() != 0 || s.GetReason() != reasonCompleted {
		t.Errorf("exit code %d (%s: %s), want 0", s.GetExitCode(), s.GetReason(), s.GetMessage())
	}
	var exit exitRecord
	if ok, err := readRecord(r.container(id).dir, exitFile, &exit); !ok || err != nil || exit.Code != 0 {
		t.Errorf("on disk: %v, %v, %+v", ok, err, exit)
	}
}

// An end that cannot be read for a moment, as on a node that is out of open files, is not unknown.
func TestExitIsReadOnceItCanBe(t *testing.T) {
	r, clock := supervisedWithClock(t)
	id, release := endUnread(t, r, clock)
	release()
	clock.Step(lookAgain)
	waitExit(t, r, id)
	wantSuccess(t, r, id)
}

// An end that cannot be read for long is unknown, as a pod must not wait for it without a limit. What the supervisor
// wrote stays, and counts as soon as it can be read.
func TestExitThatCannotBeReadIsKept(t *testing.T) {
	r, clock := supervisedWithClock(t)
	id, release := endUnread(t, r, clock)
	c := r.container(id)
	for range lookTimes - 1 {
		if status(t, r, id).GetState() != runtimeapi.ContainerState_CONTAINER_RUNNING {
			t.Fatal("the agent has given up early")
		}
		patience.Until(t, "the agent looks again later", clock.HasWaiters)
		clock.Step(lookAgain)
	}
	must(t, r.wait(t.Context(), c.exited))
	wantExit(t, status(t, r, id), Supervisor{}, 0)
	release()
	patience.Until(t, "the record is found", func() bool {
		clock.Step(saveAgain)
		r.mu.Lock()
		defer r.mu.Unlock()
		return !c.unsaved
	})
	wantSuccess(t, r, id)
}

// A container runs on if its supervisor is killed and what that left cannot be looked for: the agent holds its process.
func TestRunningContainerNeedsNoLook(t *testing.T) {
	r, clock := supervisedWithClock(t)
	id := runContainer(t, r, shell("sleep 1000"))
	before := info(t, r, id)
	release := useDescriptors(t, 0)
	t.Cleanup(release)
	must(t, unix.Kill(before.SupervisorPID, unix.SIGKILL))
	for range lookTimes - 1 {
		patience.Until(t, "the agent looks again later", clock.HasWaiters)
		clock.Step(lookAgain)
	}
	patience.Until(t, "the agent takes the supervisor's place", func() bool { return info(t, r, id).SupervisorPID == 0 })
	release()
	if now := info(t, r, id); now.PID != before.PID || status(t, r, id).GetState() != runtimeapi.ContainerState_CONTAINER_RUNNING {
		t.Errorf("%v with process %d, want it to run on as %d", status(t, r, id).GetState(), now.PID, before.PID)
	}
}

// A container whose process could not be held when it was started, or found, can be stopped, and commands run in it.
func TestProcessIsHeldOnceItCanBe(t *testing.T) {
	r := newRuntime(t, modes()[0].supervisor)
	id := runContainer(t, r, shell("sleep 1000"))
	lose := func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		c := r.containers[id]
		c.run.process.Close()
		c.run = &run{supervisor: c.run.supervisor, child: c.run.child}
	}
	lose()
	if _, _, err := r.ExecSync(t.Context(), id, []string{"true"}, 0); err != nil {
		t.Errorf("exec: %v", err)
	}
	lose()
	release := useDescriptors(t, 0)
	err := r.StopContainer(t.Context(), id, 0)
	release()
	if !errors.Is(err, unix.EMFILE) {
		t.Errorf("stop without a descriptor: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience.Of(10*time.Second))
	defer cancel()
	must(t, r.StopContainer(ctx, id, 0))
}

// If its supervisor was killed too, the agent takes its place.
func TestUnheldProcessOutlivesItsSupervisor(t *testing.T) {
	r := newRuntime(t, modes()[0].supervisor)
	id := runContainer(t, r, shell("sleep 1000"))
	i := info(t, r, id)
	r.mu.Lock()
	c := r.containers[id]
	c.run.process.Close()
	c.run = &run{supervisor: c.run.supervisor, child: c.run.child}
	r.mu.Unlock()
	must(t, unix.Kill(i.SupervisorPID, unix.SIGKILL))
	patience.Until(t, "the agent takes over", func() bool { return info(t, r, id).SupervisorPID == 0 })
	if got := info(t, r, id).PID; got != i.PID || status(t, r, id).GetState() != runtimeapi.ContainerState_CONTAINER_RUNNING {
		t.Errorf("pid %d, want %d", got, i.PID)
	}
}

// An agent that is out of open files while it starts harms no container: New fails, or finds all.
func TestStartWithFewDescriptors(t *testing.T) {
	eachMode(t, func(t *testing.T, supervisor Supervisor) {
		r := newRuntime(t, supervisor)
		pids := map[string]int{}
		sandbox := runSandbox(t, r)
		for _, name := range []string{"a", "b", "c"} {
			id, err := r.CreateContainer(t.Context(), sandbox, shell("sleep 1000", func(c *runtimeapi.ContainerConfig) {
				c.Metadata.Name, c.LogPath = name, name+".log"
			}), nil)
			must(t, err)
			must(t, r.StartContainer(t.Context(), id))
			pids[id] = info(t, r, id).PID
		}
		must(t, r.Close(t.Context()))
		opened := 0
		for free := range 24 {
			release := useDescriptors(t, free)
			few, err := New(Options{Root: r.root, Supervisor: supervisor})
			release()
			if err != nil {
				continue
			}
			opened++
			wantRunning(t, few, pids)
			must(t, few.Close(t.Context()))
		}
		if opened == 0 || opened == 24 {
			t.Errorf("New succeeded %d times: the test proves nothing", opened)
		}
		r = openRuntime(t, r.root, supervisor)
		wantRunning(t, r, pids)
		for id, pid := range pids {
			if got := info(t, r, id).PID; got != pid {
				t.Errorf("pid %d, want %d", got, pid)
			}
		}
	})
}

func wantRunning(t *testing.T, r *Runtime, pids map[string]int) {
	t.Helper()
	for id := range pids {
		if r.container(id) == nil {
			t.Error("a container is not found")
		} else if s := status(t, r, id); s.GetState() != runtimeapi.ContainerState_CONTAINER_RUNNING {
			t.Errorf("%v, %s", s.GetState(), s.GetMessage())
		}
	}
}
