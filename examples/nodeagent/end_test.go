package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
)

// TestSecondSignalDuringTheEnd: it counts as long as something is under way. A first one that comes then asks for just that.
func TestSecondSignalDuringTheEnd(t *testing.T) {
	for _, c := range []struct {
		asked   bool
		signals int
		second  bool
	}{{false, 1, false}, {false, 2, true}, {true, 0, false}, {true, 1, true}} {
		synctest.Test(t, func(t *testing.T) {
			signals, failed, release := make(chan os.Signal, 2), errors.New("failed"), make(chan struct{})
			for range c.signals {
				signals <- syscall.SIGTERM
			}
			time.AfterFunc(time.Hour, func() { close(release) })
			begun := time.Now()
			err := (&agent{asked: c.asked}).unlessSignal(signals, func() error { <-release; return failed })
			if took := time.Since(begun); errors.Is(err, errSecondSignal) != c.second || errors.Is(err, failed) == c.second || (took == 0) != c.second {
				t.Errorf("%+v: %v after %v", c, err, took)
			}
			<-release
		})
	}
}

// TestPausedReaderOfStatuses: if --statuses names a pipe whose reader takes nothing, the agent ends all the same.
func TestPausedReaderOfStatuses(t *testing.T) {
	t.Parallel()
	manifests, root, statuses := t.TempDir(), t.TempDir(), filepath.Join(t.TempDir(), "statuses")
	if err := syscall.Mkfifo(statuses, 0o600); err != nil {
		t.Fatal(err)
	}
	pipe, err := syscall.Open(statuses, syscall.O_RDWR|syscall.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(pipe)
	for err == nil { // until it is full
		_, err = syscall.Write(pipe, make([]byte, 4096))
	}
	if !errors.Is(err, syscall.EAGAIN) {
		t.Fatal(err)
	}
	writeManifest(t, manifests, "web.yaml", pod("web", "host", "exec sleep 1000"))
	args := []string{"--manifests", manifests, "--root", root}
	drainAtEnd(t, args...)
	a := startAgent(t, append(args, "--statuses", statuses)...)
	a.awaitPhase("web", v1.PodRunning)
	if err := a.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	select {
	case <-a.read:
	case <-time.After(longest):
		t.Fatal("the agent waits for the reader")
	}
	if code := a.wait(); code != 0 {
		t.Errorf("exit code %d", code)
	}
}

// TestSecondSignalWhileClientsAreCutOff: the agent has stopped, but its local API waits for a client.
func TestSecondSignalWhileClientsAreCutOff(t *testing.T) {
	t.Parallel()
	a := startAgent(t, "--manifests", t.TempDir(), "--root", t.TempDir())
	conn, err := net.Dial("unix", strings.TrimPrefix(a.listen, "unix:"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := fmt.Fprint(conn, "GET /pods HTTP/1.1\r\nHost: localh"); err != nil {
		t.Fatal(err)
	}
	if code, _, problems := a.tells("pods"); code != 0 { // by now, it has accepted the other connection too
		t.Fatal(problems)
	}
	if err := a.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	await(t, "a second signal to count", func() error { // one within a second of the first does not
		select {
		case <-a.read:
			return nil
		default:
			_ = a.cmd.Process.Signal(syscall.SIGTERM) // it may just have ended
			return errors.New("the agent waits")
		}
	})
	if code := a.wait(); code != codeFailed || !strings.Contains(a.log(), "second signal\n") {
		t.Errorf("exit code %d", code)
	}
}
