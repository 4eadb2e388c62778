package process

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/podwright/podwright/runtime"
)

// ForwardPort implements [cri.DirectForwarder]. Pods have the host's network, so the port is on
// the host's loopback address, 127.0.0.1 or, if that fails, ::1, whichever program listens there.
func (r *Runtime) ForwardPort(ctx context.Context, podSandboxID string, port int32, conn io.ReadWriter) error {
	leave, err := r.enter(ctx)
	if err != nil {
		return err
	}
	defer leave()
	if err := r.forwardPort(ctx, podSandboxID, port, conn); err != nil {
		return fmt.Errorf("forward port %d of sandbox %s: %w", port, podSandboxID, err)
	}
	return nil
}

func (r *Runtime) forwardPort(ctx context.Context, id string, port int32, conn io.ReadWriter) error {
	if port < 1 || port > 65535 {
		return fmt.Errorf("no port is %d: %w", port, runtime.ErrInvalid)
	}
	s := r.sandbox(id)
	if s == nil {
		return runtime.ErrNotFound
	}
	select {
	case <-s.stopped:
		return fmt.Errorf("the sandbox is not ready: %w", runtime.ErrFailedPrecondition)
	default:
	}
	// Only the end of this call ends the copying, so its error is never that of a connection that was closed here.
	copying, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	ended := make(chan error, 1)
	go func() { ended <- forward(copying, port, conn) }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
		return ctxError(ctx)
	case <-s.stopped:
		return fmt.Errorf("the sandbox was stopped: %w", runtime.ErrFailedPrecondition)
	case <-r.closing:
		return errClosed()
	}
}

// forward copies between conn and a port until the program at the port has no more to say, or ctx ends.
func forward(ctx context.Context, port int32, conn io.ReadWriter) error {
	pod, err := dialLoopback(ctx, port)
	if err != nil {
		return err
	}
	defer pod.Close()
	defer context.AfterFunc(ctx, func() { _ = pod.Close() })()
	left := make(chan error, 1) // why the caller can no longer be read
	// It ends with the caller's input, or when it writes after the end. The caller's Read cannot be interrupted.
	go func() {
		if _, err := io.Copy(pod, reading{conn, left}); err == nil {
			_ = pod.CloseWrite()
		} else if len(left) > 0 {
			_ = pod.Close()
		}
	}()
	_, err = io.Copy(conn, pod)
	select {
	case err = <-left:
		return fmt.Errorf("read from the client: %w", err)
	default:
		return err
	}
}

// reading reads what a caller sends. A failure to read, as opposed to one to pass it on, goes to failed.
type reading struct {
	io.Reader
	failed chan<- error
}

func (r reading) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		r.failed <- err
	}
	return n, err
}

// dialLoopback connects to a port of this host.
func dialLoopback(ctx context.Context, port int32) (*net.TCPConn, error) {
	var dialer net.Dialer
	var first error
	for _, host := range []string{"127.0.0.1", "::1"} {
		conn, err := dialer.DialContext(ctx, "tcp", net.JoinHostPort(host, strconv.Itoa(int(port))))
		if err == nil {
			return conn.(*net.TCPConn), nil
		}
		if first == nil {
			first = err
		}
		if !errors.Is(err, unix.ECONNREFUSED) {
			break
		}
	}
	if errors.Is(first, unix.ECONNREFUSED) {
		return nil, fmt.Errorf("nothing listens there: %w: %w", runtime.ErrFailedPrecondition, first)
	}
	return nil, first
}
