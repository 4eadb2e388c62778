package execstream

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gorilla/websocket"

	"github.com/podwright/podwright/runtime"
	"github.com/podwright/podwright/runtime/cri"
)

// onePipe is a listener with one connection.
type onePipe chan net.Conn

func (p onePipe) Accept() (net.Conn, error) {
	if conn, ok := <-p; ok {
		return conn, nil
	}
	return nil, net.ErrClosed
}
func (onePipe) Close() error   { return nil }
func (onePipe) Addr() net.Addr { return &net.UnixAddr{} }

// dialPipe is dial in virtual time, over a connection that holds nothing: what the client does not read, the server
// has not sent.
func dialPipe(t *testing.T, ctx context.Context, wants Wants, run func(ctx context.Context, s cri.Streams) error) (conn *websocket.Conn, served <-chan struct{}) {
	t.Helper()
	near, far := net.Pipe()
	over, calls := make(chan struct{}), make(onePipe, 1)
	calls <- far
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer close(over)
		conn, err := (&websocket.Upgrader{Subprotocols: []string{Protocol}}).Upgrade(w, r, nil)
		if err != nil {
			t.Error(err)
			return
		}
		Serve(ctx, conn, wants, run)
	})}
	go func() { _ = server.Serve(calls) }() // ends with calls
	t.Cleanup(func() { close(calls) })
	dialer := websocket.Dialer{
		Subprotocols:   []string{Protocol},
		NetDialContext: func(context.Context, string, string) (net.Conn, error) { return near, nil },
	}
	conn, response, err := dialer.DialContext(t.Context(), "ws://agent", nil)
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
	return conn, over
}

// TestClientThatReadsNothingForHours: it counts as gone, so that its place is free, whether its command writes, is
// silent or has ended. Its runtime hears it by the context alone.
func TestClientThatReadsNothingForHours(t *testing.T) {
	for name, run := range map[string]func(ctx context.Context, s cri.Streams) error{
		"writes": func(ctx context.Context, s cri.Streams) error {
			_, _ = s.Stdout.Write(make([]byte, 10*maxMessage))
			<-ctx.Done()
			return ctx.Err()
		},
		"is silent": func(ctx context.Context, _ cri.Streams) error { <-ctx.Done(); return ctx.Err() },
		"has ended": func(context.Context, cri.Streams) error { return nil },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				_, served := dialPipe(t, t.Context(), Wants{}, run)
				begun := time.Now()
				<-served
				if took := time.Since(begun); took < unread || took > unread+time.Minute {
					t.Errorf("it was given up after %s", took)
				}
			})
		})
	}
}

// TestClientThatPauses: its command goes on, and it gets all output and the command's code once it reads, also if the
// command has ended long before.
func TestClientThatPauses(t *testing.T) {
	for name, c := range map[string]struct {
		works  time.Duration
		output string
	}{
		"the command goes on": {time.Minute, "late"}, "the command is silent": {time.Hour, "late"}, "the command has ended": {0, ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				conn, served := dialPipe(t, t.Context(), Wants{}, func(ctx context.Context, s cri.Streams) error {
					select {
					case <-time.After(c.works):
					case <-ctx.Done():
						return ctx.Err()
					}
					if c.output != "" {
						if _, err := io.WriteString(s.Stdout, c.output); err != nil {
							return err
						}
					}
					return &runtime.ExitError{Code: 3}
				})
				<-time.After(30 * time.Minute)
				var out bytes.Buffer
				err := Run(t.Context(), conn, cri.Streams{Stdout: &out})
				if exit, _ := errors.AsType[Exit](err); out.String() != c.output || exit.Code != 3 {
					t.Errorf("%q, %v", out.String(), err)
				}
				<-served
			})
		})
	}
}

// TestServerEndsDuringAPause: a client that reads nothing holds up the end of the server for moments, whatever is
// under way.
func TestServerEndsDuringAPause(t *testing.T) {
	for name, run := range map[string]func(ctx context.Context, s cri.Streams) error{
		"the command writes": func(ctx context.Context, s cri.Streams) error {
			for {
				if _, err := s.Stdout.Write(make([]byte, maxMessage)); err != nil {
					<-ctx.Done()
					return ctx.Err()
				}
			}
		},
		"the command is silent": func(ctx context.Context, _ cri.Streams) error { <-ctx.Done(); return ctx.Err() },
		"the command has ended": func(context.Context, cri.Streams) error { return nil },
		"it writes then": func(ctx context.Context, s cri.Streams) error {
			<-ctx.Done()
			_, err := s.Stdout.Write([]byte("last"))
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, end := context.WithCancel(t.Context())
				_, served := dialPipe(t, ctx, Wants{}, run)
				<-time.After(time.Hour)
				end()
				begun := time.Now()
				<-served
				if took := time.Since(begun); took > 3*lastWords {
					t.Errorf("it took %s", took)
				}
			})
		})
	}
}

// TestClientThatSlowlyReadsTheEnd: it may leave when it likes; sizes and pings that it sends meanwhile harm nothing.
func TestClientThatSlowlyReadsTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conn, served := dialPipe(t, t.Context(), Wants{TTY: true}, func(context.Context, cri.Streams) error { return nil })
		_, message, err := conn.ReadMessage()
		if err != nil || message[0] != status || decodeEnd(message[1:]) != nil {
			t.Errorf("%q, %v", message, err)
		}
		<-time.After(time.Minute)
		for range 3 {
			size := append([]byte{resize}, `{"Width": 80, "Height": 24}`...)
			if err := errors.Join(conn.WriteMessage(websocket.BinaryMessage, size), conn.WriteControl(websocket.PingMessage, []byte("there?"), time.Time{})); err != nil {
				t.Error(err)
			}
		}
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
		left := time.Now()
		<-served
		if took := time.Since(left); took > time.Second {
			t.Errorf("the place was free %s after the client had gone", took)
		}
	})
}

// TestPingsOfThePausedClient: answers that it does not read break nothing.
func TestPingsOfThePausedClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conn, served := dialPipe(t, t.Context(), Wants{}, func(ctx context.Context, s cri.Streams) error {
			select {
			case <-time.After(time.Hour):
			case <-ctx.Done():
				return ctx.Err()
			}
			_, err := io.WriteString(s.Stdout, "late")
			return err
		})
		for range 3 {
			if err := conn.WriteControl(websocket.PingMessage, []byte("there?"), time.Time{}); err != nil {
				t.Error(err)
			}
		}
		<-time.After(2 * time.Hour)
		var out bytes.Buffer
		if err := Run(t.Context(), conn, cri.Streams{Stdout: &out}); err != nil || out.String() != "late" {
			t.Errorf("%q, %v", out.String(), err)
		}
		<-served
	})
}

// TestCommandThatPauses: a command that does not read its input for long gets all of it once it does, with its end.
func TestCommandThatPauses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conn, served := dialPipe(t, t.Context(), Wants{Stdin: true}, func(ctx context.Context, s cri.Streams) error {
			<-time.After(time.Hour)
			reading := context.AfterFunc(ctx, func() { _ = s.Stdin.(io.Closer).Close() })
			defer reading()
			in, err := io.ReadAll(s.Stdin)
			if err != nil {
				return err
			}
			_, err = s.Stdout.Write(in)
			return err
		})
		ctx, giveUp := context.WithTimeout(t.Context(), 3*time.Hour)
		defer giveUp()
		input, typed := io.Pipe()
		go func() {
			for _, text := range []string{"first ", "second"} {
				_, _ = io.WriteString(typed, text)
				<-time.After(time.Minute)
			}
			_ = typed.Close()
		}()
		var out bytes.Buffer
		if err := Run(ctx, conn, cri.Streams{Stdin: input, Stdout: &out}); err != nil || out.String() != "first second" {
			t.Errorf("%q, %v", out.String(), err)
		}
		<-served
	})
}

// TestCommandThatTakesNoSizes: it gets its input and the end of that all the same; one that takes sizes late gets the newest.
func TestCommandThatTakesNoSizes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var input []byte
		var size cri.TerminalSize
		conn, served := dialPipe(t, t.Context(), Wants{Stdin: true, TTY: true}, func(ctx context.Context, s cri.Streams) (err error) {
			defer context.AfterFunc(ctx, func() { _ = s.Stdin.(io.Closer).Close() })()
			input, err = io.ReadAll(s.Stdin)
			size = <-s.Resize
			return err
		})
		go func() {
			for _, message := range []string{
				string(resize) + `{"Width":80,"Height":24}`, string(resize) + `{"Width":90,"Height":25}`, string(stdin) + "text",
				string(resize) + `{"Width":100,"Height":26}`, string([]byte{closed, stdin}),
			} {
				if err := conn.WriteMessage(websocket.BinaryMessage, []byte(message)); err != nil {
					t.Error(err)
				}
			}
		}()
		ctx, giveUp := context.WithTimeout(t.Context(), time.Hour)
		defer giveUp()
		err := Run(ctx, conn, cri.Streams{})
		<-served
		if err != nil || string(input) != "text" || size != (cri.TerminalSize{Width: 100, Height: 26}) {
			t.Errorf("%q, %v, %v", input, size, err)
		}
	})
}

// TestOutputThatFails: Run ends also if the server reads no terminal size any more.
func TestOutputThatFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conn, served := dialPipe(t, t.Context(), Wants{TTY: true}, func(ctx context.Context, s cri.Streams) error {
			<-time.After(time.Minute)
			_, _ = io.WriteString(s.Stdout, "output")
			<-ctx.Done()
			return ctx.Err()
		})
		sizes := make(chan cri.TerminalSize, 3)
		for range cap(sizes) {
			sizes <- cri.TerminalSize{Width: 80, Height: 24}
		}
		closed, broken := io.Pipe()
		_ = closed.Close()
		if err := Run(t.Context(), conn, cri.Streams{TTY: true, Stdout: broken, Resize: sizes}); !errors.Is(err, io.ErrClosedPipe) {
			t.Error(err)
		}
		<-served
	})
}
