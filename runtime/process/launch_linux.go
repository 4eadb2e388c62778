package process

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"
	"k8s.io/utils/clock"

	"github.com/podwright/podwright/internal/durable"
	"github.com/podwright/podwright/runtime/process/internal/launch"
	"github.com/podwright/podwright/runtime/process/internal/osproc"
)

// containerEnv is in the environment of a container's process and of the commands run in it.
// It serves to find a container whose starter was killed between the fork and the record of it,
// and what commands in it left behind once it has ended.
const containerEnv = "PODWRIGHT_CONTAINER_ID"

// commandEnv is in the environment of commands too, which are not the container.
const commandEnv = "PODWRIGHT_COMMAND"

// startContainer starts the process of a container as a child of the caller,
// records it on disk, and starts to copy its output. supervisor is the caller's
// identity if it is one. On error nothing runs.
func startContainer(dir string, record *containerRecord, supervisor osproc.Identity, clock clock.PassiveClock) (*osproc.Process, *output, error) {
	files, err := openOutputFiles(dir, record)
	if err != nil {
		return nil, nil, err
	}
	defer files.close()
	null, err := os.Open(os.DevNull)
	if err != nil {
		return nil, nil, err
	}
	defer null.Close()
	output, err := openOutput(dir, record, clock)
	if err != nil {
		return nil, nil, err
	}
	spec := launchSpec(record)
	spec.PrivateMounts, spec.Mounts = record.privateMounts(), record.Mounts
	spec.Stdin, spec.Stdout, spec.Stderr = null, files.stdout, files.stderr

	started := startedRecord{Supervisor: supervisor, StartedAt: clock.Now()}
	pid, fd, err := launch.Start(spec)
	if err != nil {
		output.close(false)
		return nil, nil, err
	}
	process, err := adoptChild(pid, fd)
	if err == nil {
		started.Process = process.Identity()
		if err = writeRecord(dir, startedFile, started); err == nil {
			return process, output, nil
		}
		// A process that is not on record would be lost if its parent ended.
		process.Close()
		killChild(pid)
	}
	output.close(true)
	return nil, nil, err
}

// outputOf returns a function that reports whether the output of a process is this container's. Unlike a look at its
// environment, that cannot hang.
func (c *container) outputOf() func(pid int) bool {
	dir, err := filepath.EvalSymlinks(c.dir) // as the kernel names the files
	fifos := []string{filepath.Join(dir, stdoutFile), filepath.Join(dir, stderrFile)}
	return func(pid int) bool {
		for fd := 1; fd <= 2 && err == nil; fd++ {
			if to, err := os.Readlink(fmt.Sprintf("/proc/%d/fd/%d", pid, fd)); err == nil && slices.Contains(fifos, to) {
				return true
			}
		}
		return false
	}
}

// adoptChild makes a handle from a child just forked, which leads a session, and its pidfd.
// On error nothing runs.
func adoptChild(pid, fd int) (*osproc.Process, error) {
	process, err := osproc.Adopt(pid, fd)
	if err != nil {
		killChild(pid)
	}
	return process, err
}

// killChild kills the group of a child just forked, and reaps it.
func killChild(pid int) {
	_ = unix.Kill(-pid, unix.SIGKILL)
	reap(pid, 0)
}

// launchSpec is what a container's process and commands run in it have in common.
func launchSpec(record *containerRecord) launch.Spec {
	env := append(record.Env[:len(record.Env):len(record.Env)], containerEnv+"="+record.ID)
	return launch.Spec{
		Args: record.Args, Env: env, Dir: record.Dir, Root: record.Root,
		User: record.User, NoNewPrivs: record.NoNewPrivs,
	}
}

// reap returns the wait status of a child. ok is false if there is none: the process
// still runs (with WNOHANG), is not a child, or was reaped elsewhere.
func reap(pid, options int) (status unix.WaitStatus, ok bool) {
	for {
		got, err := unix.Wait4(pid, &status, options, nil)
		if !errors.Is(err, unix.EINTR) {
			return status, err == nil && got == pid
		}
	}
}

// start starts a supervisor for the container in dir and returns what
// it started and a handle on it; the supervisor is a child of this process.
func (s Supervisor) start(dir string) (startedRecord, *osproc.Process, error) {
	lock, err := lockFile(filepath.Join(dir, lockName))
	if err != nil {
		return startedRecord{}, nil, err
	}
	defer lock.Close() // the supervisor's copy keeps the lock
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return startedRecord{}, nil, err
	}
	defer null.Close()
	from, to, err := os.Pipe()
	if err != nil {
		return startedRecord{}, nil, err
	}
	defer from.Close()
	// Small and fast: one thread for Go code, little garbage, and, in a build with
	// the race detector, no pause of a second at the end.
	env := []string{shimEnv + "=1", "GOMAXPROCS=1", "GOGC=20", "GORACE=atexit_sleep_ms=0"}
	fd := -1
	pid, err := syscall.ForkExec(s.executable, []string{shimName, dir}, &syscall.ProcAttr{
		Dir:   "/",
		Env:   env,
		Files: []uintptr{null.Fd(), null.Fd(), null.Fd(), to.Fd(), lock.Fd()},
		Sys:   &syscall.SysProcAttr{Setsid: true, PidFD: &fd},
	})
	to.Close()
	if err != nil {
		return startedRecord{}, nil, fmt.Errorf("start a supervisor: %w", err)
	}
	process, err := adoptChild(pid, fd)
	if err != nil {
		return startedRecord{}, nil, fmt.Errorf("start a supervisor: %w", err)
	}
	answer, err := io.ReadAll(from)
	var h handshake
	if err == nil {
		err = json.Unmarshal(answer, &h)
	}
	switch {
	case h.Error != "":
		reap(pid, 0)
		process.Close()
		return startedRecord{}, nil, errors.New(h.Error)
	case err != nil || h.Started == nil:
		_ = process.Signal(unix.SIGKILL)
		reap(pid, 0)
		process.Close()
		return startedRecord{}, nil, errors.Join(errors.New("the supervisor ended before it started the container"), err)
	}
	return *h.Started, process, nil
}

// lockFile opens and locks a file, without waiting. The lock ends with the last
// copy of the descriptor, even if a process is killed.
func lockFile(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if durable.DiskFault(err) { // an existing file will do: a lock takes no right to write
		if existing, openErr := os.Open(path); openErr == nil {
			f, err = existing, nil
		} else if durable.Scarce(openErr) {
			err = openErr
		}
	}
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		f.Close()
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	return f, nil
}
