package cri

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/podwright/podwright/internal/timing"
	"github.com/podwright/podwright/runtime"
)

// DialError says why [Dial] could not connect. It unwraps to the cause, so
// errors.Is finds fs.ErrNotExist, fs.ErrPermission, runtime.ErrUnavailable,
// runtime.ErrInvalid (the endpoint's form) or a context error.
type DialError struct {
	// Endpoint as given to Dial.
	Endpoint string
	// Hint says what to do about it.
	Hint string
	// Err is the cause.
	Err error
}

// Error names endpoint, cause and hint.
func (e *DialError) Error() string {
	return fmt.Sprintf("container runtime at %q: %v; %s", e.Endpoint, e.Err, e.Hint)
}

// Unwrap returns Err.
func (e *DialError) Unwrap() error { return e.Err }

// maxSocketPath is how many bytes a unix socket address holds, without the final zero.
const maxSocketPath = 107

// socketPath returns the path of the socket that endpoint names.
func socketPath(endpoint string) (string, error) {
	const want = "use a unix socket, such as unix:///run/containerd/containerd.sock"
	refuse := func(format string, args ...any) (string, error) {
		cause := fmt.Errorf("%w: %s", runtime.ErrInvalid, fmt.Sprintf(format, args...))
		return "", &DialError{Endpoint: endpoint, Hint: want, Err: cause}
	}
	path := endpoint
	if scheme, rest, ok := strings.Cut(endpoint, "://"); ok {
		if scheme != "unix" {
			return refuse("scheme %q is not supported", scheme)
		}
		path = rest
	}
	switch {
	case endpoint == "":
		return refuse("no endpoint given")
	case !strings.HasPrefix(path, "/"):
		return refuse("not an absolute path")
	case strings.ContainsRune(path, 0):
		return refuse("path with a zero byte")
	case len(path) > maxSocketPath:
		return refuse("path of %d bytes, a socket's may have %d", len(path), maxSocketPath)
	}
	return path, nil
}

// connect tries until the runtime answers with its version, the time is up, or waiting
// cannot help.
func (c *Client) connect(parent context.Context, path string) error {
	ctx, cancel := timing.WithTimeout(parent, c.options.Clock, c.options.ConnectTimeout)
	defer cancel()
	var last *DialError
	for pause := time.Duration(0); ; pause = reconnectFirst {
		if timing.Sleep(ctx, c.options.Clock, pause) != nil {
			if err := parent.Err(); err != nil {
				return &DialError{Endpoint: c.endpoint, Hint: "connecting was given up", Err: err}
			}
			if last == nil {
				last = &DialError{Endpoint: c.endpoint, Hint: "allow more time to connect", Err: ctx.Err()}
			}
			return last
		}
		failed := c.attempt(ctx, path)
		if failed == nil {
			return nil
		}
		if last == nil || !cutShort(failed.Err) {
			last = failed
		}
		if !worthWaiting(last.Err) {
			return last
		}
	}
}

// attempt connects once. It tries a bare connection first, because its errors tell
// much more than gRPC's.
func (c *Client) attempt(ctx context.Context, path string) *DialError {
	failed := func(err error, hint string) *DialError {
		return &DialError{Endpoint: c.endpoint, Hint: hint, Err: err}
	}
	var d net.Dialer
	conn, err := d.DialContext(ctx, "unix", path)
	switch info, statErr := os.Stat(path); {
	case err == nil:
		_ = conn.Close()
	case errors.Is(err, fs.ErrPermission):
		return failed(err, "run as root or as a member of the group that owns the socket")
	case statErr == nil && info.Mode().Type() != fs.ModeSocket:
		return failed(notSocketError(info.Mode().Type()), "give the path of the runtime's CRI socket")
	case errors.Is(err, fs.ErrNotExist):
		return failed(err, "is the runtime running, and is this its socket?")
	case errors.Is(err, syscall.ECONNREFUSED):
		return failed(err, "nothing listens on the socket: is the runtime running?")
	default:
		return failed(err, "is the runtime running, and is this its socket?")
	}
	_, err = call(ctx, c, "Version", noLimit, c.runtime.Version, versionRequest(APIVersion))
	switch class := Class(err); {
	case err == nil:
		return nil
	case class == runtime.ErrUnimplemented:
		return failed(err, "this is not a CRI v1 runtime; with containerd, check that disabled_plugins in its configuration does not name cri")
	case class == runtime.ErrDeadline:
		return failed(err, "it accepts connections but does not answer: is the runtime overloaded, or is this another service's socket?")
	default:
		return failed(err, "is this the runtime's CRI socket?")
	}
}

// notSocketError describes a path that is not a socket.
type notSocketError fs.FileMode

func (e notSocketError) Error() string {
	switch fs.FileMode(e) {
	case fs.ModeDir:
		return "this is a folder, not a socket"
	case 0:
		return "this is a file, not a socket"
	default:
		return "this is not a socket"
	}
}

// cutShort reports whether an attempt to connect ran out of time. Its error says less
// than an earlier one.
func cutShort(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && (errors.Is(op, context.DeadlineExceeded) || errors.Is(op, context.Canceled))
}

// worthWaiting reports whether a runtime that is just starting may look like
// this.
func worthWaiting(err error) bool {
	return errors.Is(err, fs.ErrNotExist) ||
		errors.Is(err, syscall.ECONNREFUSED) ||
		errors.Is(err, syscall.EAGAIN) ||
		Class(err) == runtime.ErrUnavailable
}
