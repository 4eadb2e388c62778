//go:build linux

package process

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"

	"github.com/podwright/podwright/runtime"
	"github.com/podwright/podwright/runtime/cri"
)

// listen serves each connection of a loopback port with f and returns the port.
func listen(t *testing.T, host string, f func(*net.TCPConn)) int32 {
	t.Helper()
	l, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
	must(t, err)
	var all sync.WaitGroup
	all.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			all.Go(func() {
				defer conn.Close()
				f(conn.(*net.TCPConn))
			})
		}
	})
	t.Cleanup(func() { l.Close(); all.Wait() })
	return int32(l.Addr().(*net.TCPAddr).Port)
}

// client is a caller's end of a connection: it sends what in has.
type client struct {
	in io.Reader
	shown
}

func (c *client) Read(p []byte) (int, error) { return c.in.Read(p) }

// echo sends everything back once the sender has ended its side.
func echo(conn *net.TCPConn) {
	data, _ := io.ReadAll(conn)
	_, _ = conn.Write(data)
}

// Everything arrives both ways, with the end of the client's side on its own (spec/runtime.md 27.8); many
// connections go on side by side, over IPv6 if the pod listens only there.
func TestForwardPort(t *testing.T) {
	r := newRuntime(t, Supervisor{})
	id := runSandbox(t, r)
	port := listen(t, "127.0.0.1", echo)
	var all sync.WaitGroup
	for i := range 100 {
		all.Go(func() {
			sent := strings.Repeat(fmt.Sprintf("connection %03d.", i), 10_000)
			c := &client{in: strings.NewReader(sent)}
			if err := r.ForwardPort(t.Context(), id, port, c); err != nil || c.String() != sent {
				t.Errorf("connection %d: %d bytes of %d came back, %v", i, len(c.String()), len(sent), err)
			}
		})
	}
	all.Wait()
	if l, err := net.Listen("tcp", "[::1]:0"); err != nil {
		t.Logf("this machine has no IPv6: %v", err)
		return
	} else {
		must(t, l.Close())
	}
	c := &client{in: strings.NewReader("six")}
	if err := r.ForwardPort(t.Context(), id, listen(t, "::1", echo), c); err != nil || c.String() != "six" {
		t.Errorf("over IPv6: %q, %v", c.String(), err)
	}
}

// What cannot be forwarded says why.
func TestForwardPortRefused(t *testing.T) {
	r := newRuntime(t, Supervisor{})
	ready, stopped := runSandbox(t, r), ""
	config := sandboxConfig(t)
	config.Metadata.Uid, config.Metadata.Attempt = "other", 1
	stopped, err := r.RunPodSandbox(t.Context(), config, "")
	must(t, err)
	must(t, r.StopPodSandbox(t.Context(), stopped))
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	free := int32(l.Addr().(*net.TCPAddr).Port)
	must(t, l.Close())
	port := listen(t, "127.0.0.1", echo)
	for name, tc := range map[string]struct {
		id   string
		port int32
		want error
		text string
	}{
		"unknown sandbox": {"none", port, runtime.ErrNotFound, "sandbox none"},
		"stopped sandbox": {stopped, port, runtime.ErrFailedPrecondition, "not ready"},
		"no port":         {ready, 0, runtime.ErrInvalid, "no port is 0"},
		"too high a port": {ready, 65536, runtime.ErrInvalid, "no port is 65536"},
		"nothing listens": {ready, free, runtime.ErrFailedPrecondition, "nothing listens"},
	} {
		err := r.ForwardPort(t.Context(), tc.id, tc.port, &client{in: strings.NewReader("")})
		if cri.Class(err) != tc.want || !strings.Contains(err.Error(), tc.text) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// stuck is a client that sends without end and takes nothing until it is let go.
type stuck struct {
	begun, release chan struct{}
	once           sync.Once
}

func (s *stuck) Read(p []byte) (int, error) { return copy(p, bytes.Repeat([]byte("x"), len(p))), nil }

func (s *stuck) Write([]byte) (int, error) {
	s.once.Do(func() { close(s.begun) })
	<-s.release
	return 0, errors.New("the client has gone")
}

// The caller, the sandbox and the runtime each end a connection, though neither its pod nor its client
// reads; so do the pod, and a client whose side fails.
func TestForwardPortEnds(t *testing.T) {
	closed := make(chan struct{}, 10)
	port := listen(t, "127.0.0.1", func(conn *net.TCPConn) { // reads nothing
		_, err := io.Copy(conn, neverEnding{})
		if err != nil {
			closed <- struct{}{}
		}
	})
	for name, tc := range map[string]struct {
		end  func(r *Runtime, id string, cancel context.CancelFunc) error
		want error
	}{
		"caller": {func(_ *Runtime, _ string, cancel context.CancelFunc) error { cancel(); return nil }, runtime.ErrCanceled},
		"sandbox": {func(r *Runtime, id string, _ context.CancelFunc) error {
			return r.StopPodSandbox(context.Background(), id)
		}, runtime.ErrFailedPrecondition},
		"runtime": {func(r *Runtime, _ string, _ context.CancelFunc) error { return r.Close(context.Background()) }, runtime.ErrUnavailable},
	} {
		r := newRuntime(t, Supervisor{})
		id := runSandbox(t, r)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		c := &stuck{begun: make(chan struct{}), release: make(chan struct{})}
		ended := make(chan error, 1)
		go func() { ended <- r.ForwardPort(ctx, id, port, c) }()
		<-c.begun
		must(t, tc.end(r, id, cancel))
		if err := <-ended; cri.Class(err) != tc.want {
			t.Errorf("%s: %v, want %v", name, err, tc.want)
		}
		<-closed // the pod is told, while the client still takes nothing
		close(c.release)
	}
	r := newRuntime(t, Supervisor{})
	id := runSandbox(t, r)
	never, end := io.Pipe()
	defer end.Close()
	c := &client{in: never}
	bye := listen(t, "127.0.0.1", func(conn *net.TCPConn) { _, _ = io.WriteString(conn, "bye") })
	if err := r.ForwardPort(t.Context(), id, bye, c); err != nil || c.String() != "bye" {
		t.Errorf("a pod that closes: %q, %v", c.String(), err)
	}
	broken := errors.New("the line is cut")
	quiet := listen(t, "127.0.0.1", echo)
	in, cut := io.Pipe()
	_ = cut.CloseWithError(broken)
	if err := r.ForwardPort(t.Context(), id, quiet, &client{in: in}); !errors.Is(err, broken) {
		t.Errorf("a client that fails: %v", err)
	}
}

// neverEnding is a source of bytes.
type neverEnding struct{}

func (neverEnding) Read(p []byte) (int, error) { return len(p), nil }
