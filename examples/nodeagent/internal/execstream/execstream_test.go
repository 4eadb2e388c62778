package execstream

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/gorilla/websocket"

	"github.com/podwright/podwright/runtime"
	"github.com/podwright/podwright/runtime/cri"
)

// dial connects to a server that serves one command; served is closed when Serve has returned.
func dial(t *testing.T, ctx context.Context, wants Wants, run func(ctx context.Context, s cri.Streams) error) (conn *websocket.Conn, served <-chan struct{}) {
	t.Helper()
	over := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer close(over)
		conn, err := (&websocket.Upgrader{Subprotocols: []string{Protocol}}).Upgrade(w, r, nil)
		if err != nil {
			t.Error(err)
			return
		}
		Serve(ctx, conn, wants, run)
	}))
	t.Cleanup(server.Close)
	dialer := websocket.Dialer{Subprotocols: []string{Protocol}}
	conn, response, err := dialer.DialContext(t.Context(), "ws"+strings.TrimPrefix(server.URL, "http"), nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := response.Body.Close(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() }) // closed by most tests
	return conn, over
}

// TestStreams: input, both outputs, sizes, and each way to end reach the other side.
func TestStreams(t *testing.T) {
	for _, c := range []struct {
		end  error
		want string
		code int
	}{
		{nil, "", 0},
		{&runtime.ExitError{Code: 3}, "", 3},
		{errors.New("no such program"), "no such program", 0},
	} {
		long := strings.Repeat("x", 3*maxMessage+1)
		conn, served := dial(t, t.Context(), Wants{Stdin: true}, func(_ context.Context, s cri.Streams) error {
			in, err := io.ReadAll(s.Stdin)
			if err != nil {
				return err
			}
			if _, err := s.Stdout.Write(in); err != nil {
				return err
			}
			if _, err := io.WriteString(s.Stderr, "err"); err != nil {
				return err
			}
			return c.end
		})
		var stdout, stderr bytes.Buffer
		err := Run(t.Context(), conn, cri.Streams{Stdin: strings.NewReader(long), Stdout: &stdout, Stderr: &stderr})
		<-served
		exit, _ := errors.AsType[Exit](err)
		if stdout.String() != long || stderr.String() != "err" || exit.Code != c.code || (err == nil) != (c.end == nil) || c.want != "" && err.Error() != c.want {
			t.Errorf("%v: %d bytes, %q, %v", c.end, stdout.Len(), stderr.String(), err)
		}
	}
	sizes := make(chan cri.TerminalSize, 2)
	sizes <- cri.TerminalSize{Width: 80, Height: 24}
	sizes <- cri.TerminalSize{Width: 120, Height: 50}
	conn, _ := dial(t, t.Context(), Wants{TTY: true}, func(_ context.Context, s cri.Streams) error {
		for size := range s.Resize {
			if size.Width == 120 && size.Height == 50 && s.Stdin == nil && s.Stderr == nil && s.TTY {
				return nil
			}
		}
		return errors.New("the size did not come")
	})
	if err := Run(t.Context(), conn, cri.Streams{TTY: true, Resize: sizes}); err != nil {
		t.Error(err)
	}
}

// TestServerThatEnds: a command that ends because its server does has no end that counts, unless it has a code.
func TestServerThatEnds(t *testing.T) {
	for _, c := range []struct{ end, want error }{
		{fmt.Errorf("exec: %w", context.Canceled), ErrCutOff},
		{&runtime.ExitError{Code: 3}, Exit{3}},
		{nil, nil},
	} {
		ctx, end := context.WithCancel(t.Context())
		conn, served := dial(t, ctx, Wants{}, func(ctx context.Context, _ cri.Streams) error {
			<-ctx.Done()
			return c.end
		})
		end()
		if err := Run(t.Context(), conn, cri.Streams{}); !errors.Is(err, c.want) {
			t.Errorf("%v: %v, want %v", c.end, err, c.want)
		}
		<-served
	}
}

// TestClientsThatHang: a client that does not read and one that goes end their command alone, at the latest
// when the server ends.
func TestClientsThatHang(t *testing.T) {
	flood := func(ctx context.Context, s cri.Streams) error {
		for ctx.Err() == nil {
			if _, err := s.Stdout.Write(make([]byte, maxMessage)); err != nil {
				return err
			}
		}
		return ctx.Err()
	}
	ctx, end := context.WithCancel(t.Context())
	defer end()
	_, served := dial(t, ctx, Wants{}, flood) // never read
	gone, left := dial(t, t.Context(), Wants{Stdin: true}, func(ctx context.Context, _ cri.Streams) error {
		<-ctx.Done()
		return ctx.Err()
	})
	if err := gone.Close(); err != nil {
		t.Fatal(err)
	}
	<-left
	end()
	<-served
}

// TestMessagesThatAreNone: what a client should not send harms nothing.
func TestMessagesThatAreNone(t *testing.T) {
	conn, served := dial(t, t.Context(), Wants{Stdin: true}, func(_ context.Context, s cri.Streams) error {
		in, err := io.ReadAll(s.Stdin)
		if err == nil && string(in) != "good" {
			err = errors.New(string(in))
		}
		return err
	})
	for _, message := range []string{"", "\x04{", "\x04{\"Width\": -1}", "\x63?", "\xff", "\xff\x09", "\x00good", "\xff\x00"} {
		if err := conn.WriteMessage(websocket.BinaryMessage, []byte(message)); err != nil {
			t.Fatal(err)
		}
	}
	if err := Run(t.Context(), conn, cri.Streams{}); err != nil {
		t.Error(err)
	}
	<-served
	for _, text := range []string{"", "[]", `{"status": "Failure"}`, `{"status": "Failure", "reason": "NonZeroExitCode", "details": {"causes": [{"reason": "ExitCode", "message": "x"}]}}`} {
		if decodeEnd([]byte(text)) == nil {
			t.Errorf("%q is a success", text)
		}
	}
}
