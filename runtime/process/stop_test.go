//go:build linux

package process

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/podwright/podwright/internal/patience"
	"github.com/podwright/podwright/runtime"
	"github.com/podwright/podwright/runtime/cri"
	"github.com/podwright/podwright/runtime/process/internal/osproc"
)

// identities waits until the container has printed n process IDs and identifies the
// processes.
func identities(t *testing.T, r *Runtime, id string, n int) []osproc.Identity {
	t.Helper()
	var pids []int
	patience.Until(t, fmt.Sprintf("%d processes", n), func() bool {
		pids = nil
		for field := range strings.FieldsSeq(logText(t, r, id)) {
			if pid, err := strconv.Atoi(field); err == nil {
				pids = append(pids, pid)
			}
		}
		return len(pids) == n
	})
	var out []osproc.Identity
	for _, pid := range pids {
		i, err := osproc.Identify(pid)
		must(t, err)
		out = append(out, i)
	}
	return out
}

// A tree that ignores SIGTERM, with processes in groups of their own, is killed
// to the last one.
func TestStopKillsTree(t *testing.T) {
	eachMode(t, func(t *testing.T, supervisor Supervisor) {
		r := newRuntime(t, supervisor)
		id := runContainer(t, r, shell(`trap '' TERM
			sleep 1000 & echo $!
			(sleep 1000 & echo $!; sleep 1000) &
			set -m; sleep 1000 & echo $!
			wait; sleep 1000`))
		processes := identities(t, r, id, 3)
		must(t, r.StopContainer(t.Context(), id, 1))
		if s := status(t, r, id); s.GetExitCode() != 137 {
			t.Errorf("exit code %d, want 137", s.GetExitCode())
		}
		for _, p := range processes {
			patience.Until(t, fmt.Sprintf("process %d ends", p.PID), func() bool { return gone(p) })
		}
	})
}

// With a supervisor not even a daemon gets away: nothing outlives the container's
// own end.
func TestExitKillsDaemon(t *testing.T) {
	r := newRuntime(t, modes()[0].supervisor)
	end := t.TempDir() + "/end"
	id := runContainer(t, r, shell(`setsid sh -c 'setsid sleep 1000 & echo $!; sleep 1000' & echo $!
		`+waitForFile(end, "exit 5")))
	processes := identities(t, r, id, 2)
	touch(t, end)
	if s := waitExit(t, r, id); s.GetExitCode() != 5 {
		t.Errorf("exit code %d, want 5", s.GetExitCode())
	}
	for _, p := range processes {
		if !gone(p) {
			t.Errorf("process %d outlives its container", p.PID)
		}
	}
}

// The grace period is on the injected clock; ending the context ends the waiting,
// not the stop.
func TestGraceOnClock(t *testing.T) {
	eachMode(t, func(t *testing.T, supervisor Supervisor) {
		clock := clocktesting.NewFakeClock(time.Unix(1e9, 0))
		r, err := New(Options{Root: t.TempDir() + "/root", Supervisor: supervisor, Clock: clock})
		must(t, err)
		defer func() { must(t, r.Close(context.Background())) }()
		id := runContainer(t, r, shell("trap '' TERM; echo up; while :; do sleep 1000; done"))
		waitLine(t, r, id, "up")

		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- r.StopContainer(ctx, id, 3600) }()
		patience.Until(t, "the stop waits", func() bool { return clock.HasWaiters() })
		cancel()
		if err := <-done; cri.Class(err) != runtime.ErrCanceled {
			t.Errorf("cancelled stop: %v", err)
		}
		clock.Step(3599 * time.Second)
		if s := status(t, r, id).GetState(); s != runtimeapi.ContainerState_CONTAINER_RUNNING {
			t.Fatalf("killed before its time: %v", s)
		}
		clock.Step(time.Second)
		if s := waitExit(t, r, id); s.GetExitCode() != 137 {
			t.Errorf("exit code %d, want 137", s.GetExitCode())
		}
		patience.Until(t, "the second look for leftovers is due", clock.HasWaiters)
		clock.Step(scanAgain)
		patience.Until(t, "no timer stays", func() bool { return !clock.HasWaiters() })
		must(t, r.RemoveContainer(t.Context(), id))
	})
}

// The container's own stop signal is used, and sent once.
func TestStopSignal(t *testing.T) {
	eachMode(t, func(t *testing.T, supervisor Supervisor) {
		r := newRuntime(t, supervisor)
		id := runContainer(t, r, shell("trap 'echo usr1' USR1; trap 'echo usr2' USR2; trap 'echo term' TERM; echo $$; while :; do sleep 1000 & wait $!; done",
			func(c *runtimeapi.ContainerConfig) { c.StopSignal = runtimeapi.Signal_SIGNAL_SIGUSR1 }))
		main := identities(t, r, id, 1)[0]
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- r.StopContainer(ctx, id, 3600) }()
		waitLine(t, r, id, "usr1")
		must(t, r.beginStop(t.Context(), r.container(id), time.Hour)) // what a second call sends, it has sent
		must(t, unix.Kill(main.PID, unix.SIGUSR2))
		waitLine(t, r, id, "usr2") // a shell handles the lower of two signals first
		cancel()
		<-done
		must(t, r.StopContainer(t.Context(), id, 0))
		if got := logText(t, r, id); strings.Count(got, "usr1") != 1 || strings.Contains(got, "term") {
			t.Errorf("log %q", got)
		}
	})
}

func TestStopSignalNumbers(t *testing.T) {
	for value, name := range runtimeapi.Signal_name {
		n, err := stopSignal(runtimeapi.Signal(value))
		if err != nil || n < 1 || n > 64 {
			t.Errorf("%s: %d, %v", name, n, err)
		}
	}
	for s, want := range map[runtimeapi.Signal]int{
		runtimeapi.Signal_SIGNAL_RUNTIME_DEFAULT: 15, runtimeapi.Signal_SIGNAL_SIGUSR1: 10,
		runtimeapi.Signal_SIGNAL_SIGRTMIN: 34, runtimeapi.Signal_SIGNAL_SIGRTMINPLUS3: 37,
		runtimeapi.Signal_SIGNAL_SIGRTMAXMINUS1: 63, runtimeapi.Signal_SIGNAL_SIGRTMAX: 64,
	} {
		if n, _ := stopSignal(s); n != want {
			t.Errorf("%v: %d, want %d", s, n, want)
		}
	}
}

// The status shows the stop signal unless it is the default.
func TestStatusTellsStopSignal(t *testing.T) {
	for value := range runtimeapi.Signal_name {
		n, _ := stopSignal(runtimeapi.Signal(value))
		if again, err := stopSignal(signalOf(n)); err != nil || again != n {
			t.Errorf("%v is %d and is told as %v, which is %d", runtimeapi.Signal(value), n, signalOf(n), again)
		}
	}
	for want, c := range map[runtimeapi.Signal]runtimeapi.Signal{
		runtimeapi.Signal_SIGNAL_SIGUSR1:         runtimeapi.Signal_SIGNAL_SIGUSR1,
		runtimeapi.Signal_SIGNAL_RUNTIME_DEFAULT: runtimeapi.Signal_SIGNAL_SIGTERM,
	} {
		r := newRuntime(t, modes()[0].supervisor)
		id := runContainer(t, r, shell("sleep 1000", func(config *runtimeapi.ContainerConfig) { config.StopSignal = c }))
		response, err := r.ContainerStatus(t.Context(), id, false)
		must(t, err)
		if got := response.GetStatus().GetStopSignal(); got != want {
			t.Errorf("%v is told as %v, want %v", c, got, want)
		}
	}
}

// A supervisor that is asked to end passes that on.
func TestSupervisorPassesTerm(t *testing.T) {
	r := newRuntime(t, modes()[0].supervisor)
	id := runContainer(t, r, shell("trap 'exit 9' TERM; echo up; while :; do sleep 1000 & wait $!; done"))
	waitLine(t, r, id, "up")
	must(t, unix.Kill(info(t, r, id).SupervisorPID, unix.SIGTERM))
	if s := waitExit(t, r, id); s.GetExitCode() != 9 {
		t.Errorf("exit code %d, want 9", s.GetExitCode())
	}
}

// A second Runtime in the same program is still the parent: nothing is unknown.
func TestReopenInProcess(t *testing.T) {
	eachMode(t, func(t *testing.T, supervisor Supervisor) {
		r := newRuntime(t, supervisor)
		dir := t.TempDir()
		script := "echo up; " + waitForFile(dir+"/exit", "exit 6")
		early := runContainer(t, r, shell(script))
		late, err := r.CreateContainer(t.Context(), info(t, r, early).SandboxID, shell(script, func(c *runtimeapi.ContainerConfig) {
			c.Metadata.Name, c.LogPath = "late", "late.log"
			c.Command[2] = strings.ReplaceAll(script, "/exit", "/late")
		}), nil)
		must(t, err)
		must(t, r.StartContainer(t.Context(), late))
		p := r.containers[early].run.process.Identity()
		child := p
		if supervisor.enabled() {
			child = r.containers[early].run.supervisor.Identity()
		}
		must(t, r.Close(t.Context()))
		touch(t, dir+"/exit")
		patience.Until(t, "the first container ends", func() bool { return gone(p) })
		if supervisor.enabled() {
			waitExitRecord(t, r, early)
		}
		r = openRuntime(t, r.root, supervisor)
		touch(t, dir+"/late")
		for _, id := range []string{early, late} {
			if s := waitExit(t, r, id); s.GetExitCode() != 6 {
				t.Errorf("exit code %d (%s), want 6", s.GetExitCode(), s.GetMessage())
			}
		}
		patience.Until(t, "no zombie stays", func() bool { return !child.IsChild() })
	})
}

// Close ends calls under way, keeps containers, and says so to later calls.
func TestCloseEndsCallsAndKeepsContainers(t *testing.T) {
	eachMode(t, func(t *testing.T, supervisor Supervisor) {
		r := newRuntime(t, supervisor)
		id := runContainer(t, r, shell("trap '' TERM; echo up; sleep 1000"))
		waitLine(t, r, id, "up")
		pid := info(t, r, id).PID
		stop, exec := make(chan error, 1), make(chan error, 1)
		go func() { stop <- r.StopContainer(t.Context(), id, 3600) }()
		go func() {
			_, _, err := r.ExecSync(t.Context(), id, []string{"sleep", "1000"}, 0)
			exec <- err
		}()
		patience.Until(t, "the stop waits", func() bool {
			r.mu.Lock()
			defer r.mu.Unlock()
			return r.containers[id].timer != nil
		})
		must(t, r.Close(t.Context()))
		for _, err := range []error{<-stop, <-exec, r.StartContainer(t.Context(), id)} {
			if cri.Class(err) != runtime.ErrUnavailable {
				t.Errorf("%v, want class %v", err, runtime.ErrUnavailable)
			}
		}
		must(t, r.Close(t.Context()))
		if _, err := os.Stat(fmt.Sprintf("/proc/%d", pid)); err != nil {
			t.Errorf("the container did not survive: %v", err)
		}
		again := openRuntime(t, r.root, supervisor)
		if got := info(t, again, id).PID; got != pid {
			t.Errorf("pid %d, want %d", got, pid)
		}
	})
}
