//go:build linux

package process

import (
	"fmt"
	"os"
	goruntime "runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/internal/patience"
	"github.com/podwright/podwright/runtime/process/internal/osproc"
)

// leaderlessEnv makes the test binary a program whose main thread ends, which is legal, while another one goes on. The
// kernel shows such a process as a zombie.
const leaderlessEnv = "PROCESS_TEST_LEADERLESS"

func runLeaderless() {
	end := func() {
		goruntime.LockOSThread()
		if unix.Gettid() == unix.Getpid() {
			_, _, _ = unix.Syscall(unix.SYS_EXIT, 0, 0, 0)
		}
	}
	end()
	for { // the main thread runs another goroutine, if not this one
		go func() {
			end()
			select {}
		}()
		goruntime.Gosched()
		if zombie(os.Getpid()) {
			break
		}
	}
	select {}
}

// zombie reports whether the kernel shows a process as a zombie.
func zombie(pid int) bool {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	return err == nil && strings.Contains(string(data), "\nState:\tZ")
}

// leaderless is a container of that program.
func leaderless(c *runtimeapi.ContainerConfig) {
	self, _ := os.Executable()
	c.Command = []string{self}
	c.Envs = append(c.Envs, &runtimeapi.KeyValue{Key: leaderlessEnv, Value: []byte("1")})
}

// A container whose main thread has ended while others go on runs. An agent that starts finds it, and it can be stopped.
func TestLeaderlessContainerRuns(t *testing.T) {
	eachMode(t, func(t *testing.T, supervisor Supervisor) {
		r := newRuntime(t, supervisor)
		id := runContainer(t, r, shell("", leaderless))
		pid := info(t, r, id).PID
		patience.Until(t, "the main thread ends", func() bool { return zombie(pid) })
		process, err := osproc.Identify(pid)
		must(t, err)
		must(t, r.Close(t.Context()))
		defer func() { must(t, osproc.KillSession(process)) }()
		r = openRuntime(t, r.root, supervisor)
		if s := status(t, r, id); s.GetState() != runtimeapi.ContainerState_CONTAINER_RUNNING || info(t, r, id).PID != pid {
			t.Fatalf("%v, pid %d, want %d", s, info(t, r, id).PID, pid)
		}
		must(t, r.StopContainer(t.Context(), id, 0))
		if s := status(t, r, id); supervisor.enabled() && s.GetExitCode() != 137 {
			t.Errorf("%v", s)
		}
	})
}

// Such a process that a container leaves behind is killed, and does not keep its container from ending.
func TestLeaderlessChildEndsWithContainer(t *testing.T) {
	r := newRuntime(t, modes()[0].supervisor)
	self, err := os.Executable()
	must(t, err)
	dir := t.TempDir()
	id := runContainer(t, r, shell(leaderlessEnv+"=1 setsid "+self+" & echo $!; "+waitForFile(dir+"/exit", "exit 0")))
	child := identities(t, r, id, 1)[0]
	defer func() { must(t, osproc.KillSession(child)) }()
	patience.Until(t, "the main thread ends", func() bool { return zombie(child.PID) })
	touch(t, dir+"/exit")
	if s := waitExit(t, r, id); s.GetExitCode() != 0 {
		t.Errorf("exit code %d (%s), want 0", s.GetExitCode(), s.GetMessage())
	}
	if !gone(child) {
		t.Error("the child runs")
	}
}
