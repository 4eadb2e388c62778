package cri_test

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	goruntime "runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc"

	"github.com/podwright/podwright/runtime"
	"github.com/podwright/podwright/runtime/cri"
)

// Every refusal names the endpoint and says what to do; Dial does not wait where
// waiting cannot help (the time-out here is longer than a test may take).
func TestDialRefusesAtOnce(t *testing.T) {
	folder := filepath.Dir(newSocket(t))
	file := filepath.Join(folder, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	notCRI := filepath.Join(folder, "notcri")
	serveBare(t, notCRI)
	for _, tc := range []struct {
		name, endpoint, wantText string
		want                     error
	}{
		{"empty", "", "no endpoint given; use a unix socket, such as unix:///run/", runtime.ErrInvalid},
		{"tcp", "tcp://127.0.0.1:1234", `scheme "tcp" is not supported; use a unix socket`, runtime.ErrInvalid},
		{"http", "http://localhost/", "use a unix socket", runtime.ErrInvalid},
		{"npipe", "npipe:////./pipe/containerd", "use a unix socket", runtime.ErrInvalid},
		{"relative path", "run/containerd.sock", "not an absolute path", runtime.ErrInvalid},
		{"two slashes", "unix://run/containerd.sock", "not an absolute path", runtime.ErrInvalid},
		{"host and port", "localhost:1234", "not an absolute path", runtime.ErrInvalid},
		{"zero byte", "/run/a\x00b", "zero byte", runtime.ErrInvalid},
		{"too long", "/" + strings.Repeat("x", 200), "path of 201 bytes", runtime.ErrInvalid},
		{"file", "unix://" + file, "this is a file, not a socket; give the path", nil},
		{"folder", folder, "this is a folder, not a socket", nil},
		{"gRPC without CRI", notCRI, "not a CRI v1 runtime; with containerd, check", runtime.ErrUnimplemented},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c, err := cri.Dial(t.Context(), tc.endpoint, cri.Options{ConnectTimeout: time.Hour})
			if err == nil {
				_ = c.Close()
				t.Fatal("connected")
			}
			var dialError *cri.DialError
			if !errors.As(err, &dialError) || dialError.Endpoint != tc.endpoint {
				t.Errorf("got %#v, want a DialError of endpoint %q", err, tc.endpoint)
			}
			if !strings.Contains(err.Error(), tc.wantText) {
				t.Errorf("got %q, want it to contain %q", err, tc.wantText)
			}
			if tc.want != nil && !errors.Is(err, tc.want) {
				t.Errorf("got %v, want errors.Is %v", err, tc.want)
			}
		})
	}
}

func TestDialWithoutPermission(t *testing.T) {
	socket := newSocket(t)
	serve(t, socket, &server{})
	if err := os.Chmod(socket, 0); err != nil {
		t.Fatal(err)
	}
	if os.Geteuid() == 0 {
		// Root may do anything, so this thread becomes another user for
		// file access; only the folder must let it in.
		if err := os.Chmod(filepath.Dir(socket), 0o755); err != nil {
			t.Fatal(err)
		}
		goruntime.LockOSThread()
		defer goruntime.UnlockOSThread()
		if err := unix.Setfsuid(65534); err != nil {
			t.Fatal(err)
		}
		defer func() { _ = unix.Setfsuid(0) }()
	}
	c, err := cri.Dial(t.Context(), socket, cri.Options{ConnectTimeout: time.Hour})
	if err == nil {
		_ = c.Close()
		t.Fatal("connected")
	}
	if !errors.Is(err, fs.ErrPermission) || !strings.Contains(err.Error(), "run as root") {
		t.Errorf("got %v, want a permission error with a hint", err)
	}
}

// A missing listener may mean a runtime that is just starting, so these wait for the
// time-out, then say what was seen last.
func TestDialGivesUp(t *testing.T) {
	folder := filepath.Dir(newSocket(t))
	dead := filepath.Join(folder, "dead")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: dead, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	l.SetUnlinkOnClose(false)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	talker := filepath.Join(folder, "http")
	serveRaw(t, talker, "HTTP/1.1 400 Bad Request\r\n\r\n")
	silent := filepath.Join(folder, "silent")
	serveRaw(t, silent, "")

	for _, tc := range []struct {
		name, endpoint, wantText string
		want                     error
	}{
		{"no file", filepath.Join(folder, "none"), "is the runtime running", fs.ErrNotExist},
		{"nothing listens", dead, "nothing listens on the socket", unix.ECONNREFUSED},
		{"another protocol", talker, "is this the runtime's CRI socket?", runtime.ErrUnavailable},
		{"no answer", silent, "does not answer", runtime.ErrDeadline},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c, err := cri.Dial(t.Context(), tc.endpoint, cri.Options{ConnectTimeout: 250 * time.Millisecond})
			if err == nil {
				_ = c.Close()
				t.Fatal("connected")
			}
			if !errors.Is(err, tc.want) || !strings.Contains(err.Error(), tc.wantText) || !strings.Contains(err.Error(), tc.endpoint) {
				t.Errorf("got %v, want endpoint, %q and errors.Is %v", err, tc.wantText, tc.want)
			}
		})
	}
}

// When the time is up during an attempt, the error still tells what was wrong before.
func TestDialTellsWhatWasWrong(t *testing.T) {
	missing := newSocket(t)
	synctest.Test(t, func(t *testing.T) {
		for range 30 { // an attempt is due at the very end, and may or may not be made
			_, err := cri.Dial(t.Context(), missing, cri.Options{ConnectTimeout: 300 * time.Millisecond})
			if !errors.Is(err, fs.ErrNotExist) {
				t.Fatal(err)
			}
		}
	})
}

func TestDialEndsWithContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := cri.Dial(ctx, newSocket(t), cri.Options{ConnectTimeout: time.Hour})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want the context's error", err)
	}
}

// A node boots: the agent may be faster than the runtime.
func TestDialWaitsForTheRuntime(t *testing.T) {
	socket := newSocket(t)
	done := make(chan error, 1)
	ctx := t.Context()
	go func() {
		c, err := cri.Dial(ctx, socket, cri.Options{ConnectTimeout: time.Minute})
		if err == nil {
			err = c.Close()
		}
		done <- err
	}()
	serve(t, socket, &server{})
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// A path may hold what a URL may not.
func TestDialAnyPath(t *testing.T) {
	socket := filepath.Join(filepath.Dir(newSocket(t)), "a %2F?b#c")
	serve(t, socket, &server{})
	c := dial(t, "unix://"+socket, cri.Options{})
	if _, err := c.Version(t.Context(), cri.APIVersion); err != nil {
		t.Error(err)
	}
}

// serveBare serves gRPC without any service.
func serveBare(t *testing.T, socket string) {
	t.Helper()
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	g := grpc.NewServer()
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = g.Serve(l)
	}()
	t.Cleanup(func() { g.Stop(); <-done })
}

// serveRaw answers every connection with text and keeps it open.
func serveRaw(t *testing.T, socket, text string) {
	t.Helper()
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			defer func() { _ = conn.Close() }()
			_, _ = conn.Write([]byte(text))
		}
	}()
	t.Cleanup(func() { _ = l.Close(); <-done })
}
