//go:build linux

package process

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/utils/clock"

	"github.com/podwright/podwright/internal/durable"
	"github.com/podwright/podwright/internal/patience"
	"github.com/podwright/podwright/runtime"
	"github.com/podwright/podwright/runtime/process/internal/osproc"
)

// waitForFile is a script that waits for a file and exits with a code.
func waitForFile(path, then string) string {
	return "while ! [ -e " + path + " ]; do sleep 0.02; done; " + then
}

func touch(t *testing.T, path string) {
	t.Helper()
	must(t, os.WriteFile(path, nil, 0o600))
}

// Kill -9 of the agent, start again: same process, nothing restarted, and the
// exit code is known, or honestly unknown.
func TestAgentKilledContainerRuns(t *testing.T) {
	eachMode(t, func(t *testing.T, supervisor Supervisor) {
		dir := t.TempDir()
		a := startAgent(t, supervisor.enabled(), "echo before; "+
			waitForFile(dir+"/talk", "echo after; ")+waitForFile(dir+"/exit", "echo bye; exit 7"))
		before := processOf(t, a)
		// Without a supervisor a line dies with an agent that has read it and not yet written it.
		patience.Until(t, "line before", func() bool {
			files, err := filepath.Glob(filepath.Join(a.logs, "*", "*"))
			must(t, err)
			return len(files) == 1 && strings.Contains(readFile(t, files[0]), " before\n")
		})
		a.kill(t)
		touch(t, dir+"/talk") // output while no agent reads it

		r := openRuntime(t, a.root, supervisor)
		s := status(t, r, a.container)
		if s.GetState() != runtimeapi.ContainerState_CONTAINER_RUNNING {
			t.Fatalf("after the agent's restart: %v", s)
		}
		if got := info(t, r, a.container).PID; got != before.PID {
			t.Errorf("pid %d, before it was %d", got, before.PID)
		}
		waitLine(t, r, a.container, "after")
		touch(t, dir+"/exit")
		wantExit(t, waitExit(t, r, a.container), supervisor, 7)
		if got := logText(t, r, a.container); got != "before\nafter\nbye\n" {
			t.Errorf("log %q", got)
		}
	})
}

// The container ends while there is no agent.
func TestAgentKilledContainerEnds(t *testing.T) {
	eachMode(t, func(t *testing.T, supervisor Supervisor) {
		dir := t.TempDir()
		a := startAgent(t, supervisor.enabled(), waitForFile(dir+"/exit", "exit 0"))
		p := processOf(t, a)
		started := startedOf(t, a)
		a.kill(t)
		touch(t, dir+"/exit")
		patience.Until(t, "the container ends", func() bool { return gone(p) })
		if supervisor.enabled() {
			patience.Until(t, "the supervisor ends", func() bool { return gone(started.Supervisor) })
		}
		r := openRuntime(t, a.root, supervisor)
		s := status(t, r, a.container)
		if s.GetState() != runtimeapi.ContainerState_CONTAINER_EXITED {
			t.Fatalf("state %v", s.GetState())
		}
		wantExit(t, s, supervisor, 0)
		// What was found stays found: a third agent reports the same.
		must(t, r.Close(t.Context()))
		again := status(t, openRuntime(t, a.root, supervisor), a.container)
		if again.GetFinishedAt() != s.GetFinishedAt() || again.GetExitCode() != s.GetExitCode() {
			t.Errorf("the end changed from %v to %v", s, again)
		}
	})
}

// wantExit wants the code if there was a supervisor, otherwise an unknown end that
// cannot be taken for success.
func wantExit(t *testing.T, s *runtimeapi.ContainerStatus, supervisor Supervisor, code int32) {
	t.Helper()
	if !supervisor.enabled() {
		code = codeUnknown
		if s.GetReason() != reasonUnknown {
			t.Errorf("reason %q, want %q", s.GetReason(), reasonUnknown)
		}
	}
	if s.GetExitCode() != code {
		t.Errorf("exit code %d (%s: %s), want %d", s.GetExitCode(), s.GetReason(), s.GetMessage(), code)
	}
}

func startedOf(t *testing.T, a *agent) startedRecord {
	t.Helper()
	var started startedRecord
	ok, err := readRecord(filepath.Join(a.root, containersDir, a.container), startedFile, &started)
	if err != nil || !ok {
		t.Fatal(ok, err)
	}
	return started
}

func processOf(t *testing.T, a *agent) osproc.Identity {
	t.Helper()
	return startedOf(t, a).Process
}

func gone(id osproc.Identity) bool {
	p, err := osproc.Open(id)
	if err == nil {
		p.Close()
	}
	return errors.Is(err, os.ErrProcessDone)
}

// A killed supervisor: the container runs on, is logged and can be stopped; its
// end is unknown.
func TestSupervisorKilled(t *testing.T) {
	for _, agentToo := range []bool{false, true} {
		t.Run(map[bool]string{false: "agent lives", true: "agent killed too"}[agentToo], func(t *testing.T) {
			dir := t.TempDir()
			supervisor := modes()[0].supervisor
			var r *Runtime
			var id string
			script := "trap '' TERM; echo up; " + waitForFile(dir+"/talk", "echo after; sleep 1000")
			if agentToo {
				a := startAgent(t, true, script)
				started := startedOf(t, a)
				a.kill(t)
				must(t, unix.Kill(started.Supervisor.PID, unix.SIGKILL))
				patience.Until(t, "the supervisor ends", func() bool { return gone(started.Supervisor) })
				r, id = openRuntime(t, a.root, supervisor), a.container
			} else {
				r = newRuntime(t, supervisor)
				id = runContainer(t, r, shell(script))
				waitLine(t, r, id, "up")
				must(t, unix.Kill(info(t, r, id).SupervisorPID, unix.SIGKILL))
				patience.Until(t, "the agent takes over", func() bool { return info(t, r, id).SupervisorPID == 0 })
			}
			i := info(t, r, id)
			if i.PID == 0 || status(t, r, id).GetState() != runtimeapi.ContainerState_CONTAINER_RUNNING {
				t.Fatalf("the container is lost: %+v", i)
			}
			touch(t, dir+"/talk")
			waitLine(t, r, id, "after")
			must(t, r.ReopenContainerLog(t.Context(), id))
			must(t, r.StopContainer(t.Context(), id, 0))
			wantExit(t, status(t, r, id), Supervisor{}, 0)
		})
	}
}

// A pid that now belongs to another process is not the container, and not killed.
func TestReusedPid(t *testing.T) {
	stranger := exec.Command("sleep", "1000")
	stranger.SysProcAttr = &unix.SysProcAttr{Setsid: true}
	must(t, stranger.Start())
	defer func() { _ = stranger.Process.Kill(); _ = stranger.Wait() }()
	id, err := osproc.Identify(stranger.Process.Pid)
	must(t, err)
	for _, c := range []struct {
		name   string
		change func(*osproc.Identity)
	}{
		{"same boot", func(i *osproc.Identity) { i.StartTime-- }},
		{"other boot", func(i *osproc.Identity) { i.BootID = "other" }},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRuntime(t, Supervisor{})
			container, err := r.CreateContainer(t.Context(), runSandbox(t, r), shell("true"), nil)
			must(t, err)
			must(t, r.Close(t.Context()))
			forged := id
			c.change(&forged)
			must(t, writeRecord(r.path(containersDir, container), startedFile, startedRecord{Process: forged}))

			r = openRuntime(t, r.root, Supervisor{})
			s := status(t, r, container)
			if s.GetState() != runtimeapi.ContainerState_CONTAINER_EXITED {
				t.Errorf("a stranger's process is taken for the container: %v", s)
			}
			wantExit(t, s, Supervisor{}, 0)
			must(t, r.RemoveContainer(t.Context(), container))
			if gone(id) {
				t.Fatal("a stranger was killed")
			}
		})
	}
}

// The number of a container's session may be that of another one by now, whose leader has ended too. Only one that has
// a process with the container's output is killed, then all of it.
func TestReusedSession(t *testing.T) {
	for name, ours := range map[string]bool{"stranger's": false, "container's": true} {
		t.Run(name, func(t *testing.T) {
			r := newRuntime(t, Supervisor{})
			container, err := r.CreateContainer(t.Context(), runSandbox(t, r), shell("true"), nil)
			must(t, err)
			must(t, r.Close(t.Context()))
			input, in, err := os.Pipe()
			must(t, err)
			defer in.Close()
			out, output, err := os.Pipe()
			must(t, err)
			defer out.Close()
			leader := exec.Command("sh", "-c", "exec 3<&0; env -i cat <&3 & echo $!; cat <&3 & echo $!")
			leader.Stdin, leader.Stdout, leader.SysProcAttr = input, output, &unix.SysProcAttr{Setsid: true}
			if ours {
				path := r.path(containersDir, container, stderrFile)
				must(t, unix.Mkfifo(path, 0o600))
				fifo, err := os.OpenFile(path, os.O_RDWR, 0)
				must(t, err)
				defer fifo.Close()
				leader.Stderr = fifo
			}
			must(t, leader.Start())
			input.Close()
			output.Close()
			forged, err := osproc.Identify(leader.Process.Pid)
			must(t, err)
			if !ours {
				forged.StartTime--
			}
			for range 2 {
				var pid int
				_, err := fmt.Fscanln(out, &pid)
				must(t, err)
				patience.Until(t, "it runs", func() bool { return readFile(t, fmt.Sprintf("/proc/%d/comm", pid)) == "cat\n" })
			}
			must(t, leader.Wait())
			must(t, writeRecord(r.path(containersDir, container), startedFile, startedRecord{Process: forged}))

			r = openRuntime(t, r.root, Supervisor{})
			must(t, r.RemoveContainer(t.Context(), container))
			// A process with a pending kill does nothing more.
			_, _ = io.WriteString(in, "alive\n")
			in.Close()
			answer, err := io.ReadAll(out)
			if alive := string(answer) == "alive\n"; alive == ours {
				t.Errorf("answer %q, %v", answer, err)
			}
		})
	}
}

// After a reboot nothing is ready and nothing runs.
func TestNothingRunsAfterAReboot(t *testing.T) {
	r := newRuntime(t, Supervisor{})
	sandbox := runSandbox(t, r)
	created, err := r.CreateContainer(t.Context(), sandbox, shell("true"), nil)
	must(t, err)
	must(t, r.Close(t.Context()))
	record := r.sandboxes[sandbox].record
	record.BootID = "other"
	must(t, writeRecord(r.path(sandboxesDir), sandbox+".json", record))

	r = openRuntime(t, r.root, Supervisor{})
	response, err := r.PodSandboxStatus(t.Context(), sandbox, false)
	must(t, err)
	if got := response.GetStatus().GetState(); got != runtimeapi.PodSandboxState_SANDBOX_NOTREADY {
		t.Errorf("sandbox state %v", got)
	}
	if err := r.StartContainer(t.Context(), created); err == nil {
		t.Error("a container started in a sandbox of an earlier boot")
	}
}

// The agent was killed between the fork and the record of the process.
func TestKilledWhileStarting(t *testing.T) {
	t.Run("process runs", func(t *testing.T) {
		// Its child inherits the mark and leads a session too: it is not the container.
		ready := t.TempDir() + "/ready"
		a := startAgent(t, false, "setsid sh -c 'echo >"+ready+"; sleep 1000' & wait")
		p := processOf(t, a)
		patience.Until(t, "the child is up", func() bool { return readFile(t, ready) != "" })
		a.kill(t)
		must(t, os.Remove(filepath.Join(a.root, containersDir, a.container, startedFile)))
		r := openRuntime(t, a.root, Supervisor{})
		if got := info(t, r, a.container).PID; got != p.PID {
			t.Errorf("found pid %d, want %d", got, p.PID)
		}
		must(t, r.StopContainer(t.Context(), a.container, 0))
		if !gone(p) {
			t.Error("still runs")
		}
		killMarked(t, a.container)
	})
	t.Run("process does not run", func(t *testing.T) {
		r := newRuntime(t, Supervisor{})
		id, err := r.CreateContainer(t.Context(), runSandbox(t, r), shell("true"), nil)
		must(t, err)
		must(t, r.Close(t.Context()))
		touch(t, r.path(containersDir, id, startingFile))
		r = openRuntime(t, r.root, Supervisor{})
		wantExit(t, status(t, r, id), Supervisor{}, 0)
	})
}

// killMarked kills what escaped from a container without a supervisor.
func killMarked(t *testing.T, container string) {
	t.Helper()
	must(t, osproc.KillByEnv(containerEnv, map[string]uint64{container: 0}))
}

// Records that cannot be read cost what they describe, and nothing else.
func TestDamagedRecords(t *testing.T) {
	r := newRuntime(t, Supervisor{})
	sandbox := runSandbox(t, r)
	good, err := r.CreateContainer(t.Context(), sandbox, shell("true"), nil)
	must(t, err)
	must(t, r.Close(t.Context()))
	must(t, os.WriteFile(r.path(sandboxesDir, strings.Repeat("a", 64)+".json"), []byte("{"), 0o600))
	must(t, os.WriteFile(r.path(sandboxesDir, "b.json"+durable.Suffix), []byte("{"), 0o600))
	must(t, os.Mkdir(r.path(containersDir, "half"), 0o700))
	must(t, os.Mkdir(r.path(containersDir, "bad"), 0o700))
	must(t, os.WriteFile(r.path(containersDir, "bad", containerFile), []byte("null"), 0o600))

	r = openRuntime(t, r.root, Supervisor{})
	list, err := r.ListContainers(t.Context(), nil)
	must(t, err)
	if len(list) != 1 || list[0].GetId() != good {
		t.Errorf("containers %v, want %s", list, good)
	}
	if _, err := os.Stat(r.path(containersDir, "half")); !os.IsNotExist(err) {
		t.Errorf("a half-made container stays: %v", err)
	}
	entries, err := os.ReadDir(r.path(sandboxesDir))
	must(t, err)
	if slices.ContainsFunc(entries, func(e os.DirEntry) bool { return strings.HasSuffix(e.Name(), durable.Suffix) }) {
		t.Error("a temporary file stays")
	}
}

// Two runtimes on one folder would fight.
func TestFolderInUse(t *testing.T) {
	r := newRuntime(t, Supervisor{})
	if second, err := New(Options{Root: r.root}); err == nil {
		_ = second.Close(t.Context())
		t.Fatal("a second runtime opened the folder")
	}
	must(t, r.Close(t.Context()))
	if _, err := r.Version(t.Context(), ""); !errors.Is(err, runtime.ErrNotSent) {
		t.Errorf("a call of a closed runtime: %v, want ErrNotSent", err)
	}
	openRuntime(t, r.root, Supervisor{})
}

// A container whose log cannot be opened when an agent starts, as on a disk that is read-only for a while, runs on, and
// is logged again once that is over.
func TestAdoptedContainerDoesNotWaitForItsLog(t *testing.T) {
	root, dir := filepath.Join(t.TempDir(), "root"), t.TempDir()
	r := openRuntime(t, root, Supervisor{})
	id := runContainer(t, r, shell(waitForFile(dir+"/talk", "head -c 300000 /dev/zero | tr '\\0' '\\n'; touch "+dir+"/said; ")+
		waitForFile(dir+"/again", "echo back; sleep 1000")))
	log := status(t, r, id).GetLogPath()
	must(t, r.Close(t.Context()))
	must(t, os.RemoveAll(filepath.Dir(log)))
	must(t, os.WriteFile(filepath.Dir(log), nil, 0o600)) // nothing can be opened below it
	r = openRuntime(t, root, Supervisor{})
	touch(t, dir+"/talk")
	patience.Until(t, "the container has written more than a pipe holds", func() bool {
		_, err := os.Stat(dir + "/said")
		return err == nil
	})
	if err := r.ReopenContainerLog(t.Context(), id); err == nil {
		t.Error("a log that cannot be opened was reopened")
	}
	must(t, os.Remove(filepath.Dir(log)))
	touch(t, dir+"/again")
	waitLine(t, r, id, "back")
	must(t, r.ReopenContainerLog(t.Context(), id))
}

// crowded is a listener on a node that is out of open files for a while.
type crowded struct {
	net.Listener
	failures int
	conns    chan net.Conn
}

func (c *crowded) Accept() (net.Conn, error) {
	if c.failures > 0 {
		c.failures--
		return nil, &net.OpError{Op: "accept", Err: unix.ENFILE}
	}
	conn, ok := <-c.conns
	if !ok {
		return nil, net.ErrClosed
	}
	return conn, nil
}

// A supervisor that could not accept requests for a while answers them afterwards: otherwise the log of its container
// would be rotated no more.
func TestSupervisorAnswersAfterAcceptFailed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &shim{clock: clock.RealClock{}, output: &output{}}
		listener := &crowded{failures: 3, conns: make(chan net.Conn)}
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			s.answerAll(listener)
		}()
		agent, supervisor := net.Pipe()
		defer agent.Close()
		select {
		case listener.conns <- supervisor:
		case <-time.After(time.Minute):
			t.Fatal("the supervisor accepts no more requests")
		}
		_, err := io.WriteString(agent, controlReopen+"\n")
		must(t, err)
		answer, err := io.ReadAll(agent)
		if must(t, err); string(answer) != controlOK+"\n" {
			t.Errorf("answer %q", answer)
		}
		close(listener.conns)
		<-ended
	})
}

// A supervisor waits for the rest of a container's tree to die, and not without a limit for what hangs in the kernel.
func TestSupervisorDoesNotWaitForWhatCannotDie(t *testing.T) {
	const step = restWait - restPoll
	for _, c := range []struct {
		name       string
		children   int // die one after the other, each after a step
		hangs      bool
		unkillable error
		want       time.Duration
	}{
		{name: "none"},
		{name: "slow", children: 3, want: 3 * step},
		{name: "hangs", children: 1, hangs: true, want: step + restWait},
		{name: "unkillable", children: 1, unkillable: unix.EPERM},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &shim{clock: clock.RealClock{}}
				begin := time.Now()
				last, left := begin, c.children
				s.reapRest(func() error { return c.unkillable }, func() (int, error) {
					switch {
					case left > 0 && time.Since(last) >= step:
						left, last = left-1, time.Now()
						return 1, nil
					case left == 0 && !c.hangs:
						return -1, unix.ECHILD
					}
					return 0, nil
				})
				if took := time.Since(begin); took < c.want || took > c.want+4*restPoll {
					t.Errorf("took %v, want %v", took, c.want)
				}
			})
		})
	}
}
