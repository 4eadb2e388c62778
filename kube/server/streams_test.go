package server

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	goruntime "runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gorilla/websocket"
	clientstreams "k8s.io/client-go/tools/remotecommand"
	clientexec "k8s.io/client-go/util/exec"
	"k8s.io/cri-streaming/pkg/streaming/remotecommand"

	"github.com/podwright/podwright/runtime"
	"github.com/podwright/podwright/runtime/cri"
)

// program is what containers of the tests run, by its first argument.
func program(ctx context.Context, id string, cmd []string, s cri.Streams) error {
	switch cmd[0] {
	case "cat": // to the end of its input
		if _, err := io.Copy(s.Stdout, s.Stdin); err != nil {
			return err
		}
		_, err := fmt.Fprint(s.Stderr, "end of input")
		return err
	case "exit":
		return fmt.Errorf("it failed: %w", &runtime.ExitError{Code: 7})
	case "sizes":
		for range 2 {
			size := <-s.Resize
			if _, err := fmt.Fprintf(s.Stdout, "%dx%d tty=%v\n", size.Width, size.Height, s.TTY); err != nil {
				return err
			}
		}
		return nil
	case "wait":
		_, _ = fmt.Fprintln(s.Stdout, "waiting")
		<-ctx.Done()
		return context.Cause(ctx)
	}
	return errors.New("no such program in " + id)
}

// streamServer is the stream server of a runtime, which speaks no WebSocket.
func streamServer(t *testing.T, start func(http.Handler) *httptest.Server, cmd ...string) string {
	t.Helper()
	// The server does not end its streams by itself.
	ctx, cancel := context.WithCancel(t.Context())
	server := start(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/token" || r.Header.Get("Authorization") != "" {
			t.Errorf("the runtime got %s with Authorization %q", r.URL, r.Header.Get("Authorization"))
		}
		wants, err := remotecommand.NewOptions(r)
		if err != nil {
			t.Error(err)
			return
		}
		run := func(_ context.Context, s cri.Streams) error { return program(ctx, "c1", cmd, s) }
		remotecommand.ServeExec(w, r, executor{run}, "", "", "", nil, wants, time.Hour, time.Minute, remotecommand.SupportedStreamingProtocols)
	}))
	t.Cleanup(func() { cancel(); server.Close() })
	// The path of the request alone says what is run; the query says which streams there are.
	return server.URL + "/token"
}

// dialers are the ways in which clients come.
func dialers(r *rig, u *url.URL) map[string]func() (clientstreams.Executor, error) {
	return map[string]func() (clientstreams.Executor, error){
		"SPDY": func() (clientstreams.Executor, error) { return clientstreams.NewSPDYExecutor(r.config(), "POST", u) },
		"WebSocket": func() (clientstreams.Executor, error) {
			return clientstreams.NewWebSocketExecutor(r.config(), "GET", u.String())
		},
	}
}

// eachWay runs a test for each kind of runtime and of client.
func eachWay(t *testing.T, query string, cmd []string, test func(t *testing.T, r *rig, e clientstreams.Executor)) {
	t.Helper()
	for _, kind := range []string{"direct", "remote", "remote over TLS"} {
		for _, way := range []string{"SPDY", "WebSocket"} {
			t.Run(kind+" "+way, func(t *testing.T) {
				var rt cri.Reader = &direct{exec: program}
				switch kind {
				case "remote":
					rt = &remote{url: streamServer(t, httptest.NewServer, cmd...) + "?" + query}
				case "remote over TLS":
					rt = &remote{url: streamServer(t, httptest.NewTLSServer, cmd...) + "?" + query}
				}
				r := newRig(t, rt)
				u, err := url.Parse(r.address + "/exec/default/web/uid-web/app?" + query + "&" + url.Values{"command": cmd}.Encode())
				if err != nil {
					t.Fatal(err)
				}
				e, err := dialers(r, u)[way]()
				if err != nil {
					t.Fatal(err)
				}
				test(t, r, e)
			})
		}
	}
}

// KH4, KH5: input reaches its end on its own, and both outputs arrive whole.
func TestExecHalfClose(t *testing.T) {
	eachWay(t, "input=1&output=1&error=1", []string{"cat"}, func(t *testing.T, _ *rig, e clientstreams.Executor) {
		input := strings.Repeat("0123456789abcdef", 20000)
		var stdout, stderr bytes.Buffer
		err := e.StreamWithContext(t.Context(), clientstreams.StreamOptions{Stdin: strings.NewReader(input), Stdout: &stdout, Stderr: &stderr})
		if err != nil || stdout.String() != input || stderr.String() != "end of input" {
			t.Errorf("%d bytes of %d, stderr %q, %v", stdout.Len(), len(input), stderr.String(), err)
		}
	})
}

// KH5: exit codes.
func TestExecExitCode(t *testing.T) {
	eachWay(t, "output=1", []string{"exit"}, func(t *testing.T, _ *rig, e clientstreams.Executor) {
		err := e.StreamWithContext(t.Context(), clientstreams.StreamOptions{Stdout: io.Discard})
		var exit clientexec.CodeExitError
		if !errors.As(err, &exit) || exit.Code != 7 {
			t.Errorf("%v, want exit code 7", err)
		}
	})
}

// terminal gives sizes.
type terminal chan clientstreams.TerminalSize

func (t terminal) Next() *clientstreams.TerminalSize {
	size, ok := <-t
	if !ok {
		return nil
	}
	return &size
}

// KH5: a terminal changes its size.
func TestExecResize(t *testing.T) {
	eachWay(t, "input=1&output=1&tty=1", []string{"sizes"}, func(t *testing.T, _ *rig, e clientstreams.Executor) {
		sizes := make(terminal, 1)
		sizes <- clientstreams.TerminalSize{Width: 80, Height: 25}
		in, out := io.Pipe()
		defer out.Close()
		defer close(sizes)
		// The second one would replace the first if that was not taken yet.
		stdout := &screen{written: sync.OnceFunc(func() { sizes <- clientstreams.TerminalSize{Width: 120, Height: 50} })}
		err := e.StreamWithContext(t.Context(), clientstreams.StreamOptions{Stdin: in, Stdout: stdout, Tty: true, TerminalSizeQueue: sizes})
		if err != nil || string(stdout.text) != "80x25 tty=true\n120x50 tty=true\n" {
			t.Errorf("%q, %v", stdout.text, err)
		}
	})
}

// screen keeps what is written, and calls written after each piece.
type screen struct {
	text    []byte
	written func()
}

func (s *screen) Write(p []byte) (int, error) {
	defer s.written()
	s.text = append(s.text, p...)
	return len(p), nil
}

// KH5: a command has its input and the end of it, whatever sizes its client sends, and whether it takes them or not. The
// newest size arrives.
func TestSizesDoNotHoldUpInput(t *testing.T) {
	for name, tc := range map[string]struct {
		tty   string
		sizes []string
		want  string
	}{
		"none is taken": {"&tty=1", []string{`{"Width":80,"Height":25}`, `{"Width":81,"Height":25}`, `{"Width":82,"Height":25}`}, "82x25"},
		"too large":     {"&tty=1", []string{`{"Width":80,"Height":25}`, `{"Width":70000,"Height":25}`, `{"Width":82,"Height":25}`}, "82x25"},
		"no size":       {"&tty=1", []string{`{"Width":82,"Height":25}`, `x`, `y`}, "82x25"},
		"no terminal":   {"", []string{`{"Width":80,"Height":25}`, `x`, `y`}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, &direct{exec: func(_ context.Context, _ string, _ []string, s cri.Streams) error {
				input, err := io.ReadAll(s.Stdin)
				if err != nil || string(input) != "hi" {
					return fmt.Errorf("the input is %q, %w", input, err)
				}
				for got := ""; got != tc.want; {
					size := <-s.Resize
					got = fmt.Sprintf("%dx%d", size.Width, size.Height)
				}
				_, err = fmt.Fprint(s.Stdout, "done")
				return err
			}})
			conn := r.openedWebSocket("/exec/default/web/app?command=x&input=1&output=1" + tc.tty)
			for _, size := range tc.sizes {
				_ = conn.WriteMessage(websocket.BinaryMessage, append([]byte{resizeChannel}, size...))
			}
			_ = conn.WriteMessage(websocket.BinaryMessage, []byte("\x00hi"))
			_ = conn.WriteMessage(websocket.BinaryMessage, []byte{255, stdinChannel})
			if got := spoken(t, conn, stdoutChannel); got != "done" {
				t.Errorf("%q", got)
			}
		})
	}
}

// openedWebSocket opens one of the newest protocol, which must speak within 10 s.
func (r *rig) openedWebSocket(path string) *websocket.Conn {
	r.Helper()
	return r.openedAs(path, remotecommand.StreamProtocolV5Name)
}

// openedAs opens a WebSocket of any protocol, or of none, which must speak within 10 s.
func (r *rig) openedAs(path string, protocols ...string) *websocket.Conn {
	r.Helper()
	dialer := websocket.Dialer{TLSClientConfig: r.client().Transport.(*http.Transport).TLSClientConfig, Subprotocols: protocols}
	conn, response, err := dialer.DialContext(r.Context(), strings.Replace(r.address, "https", "wss", 1)+path, http.Header{"Authorization": {"Bearer good"}})
	if err != nil {
		r.Fatal(err)
	}
	_ = response.Body.Close()
	r.Cleanup(func() { _ = conn.Close() })
	_ = conn.SetReadDeadline(time.Now().Add(10 * time.Second))
	return conn
}

// spoken returns the first message of a channel that is not empty.
func spoken(t *testing.T, conn *websocket.Conn, channel byte) string {
	t.Helper()
	for {
		_, data, err := conn.ReadMessage()
		if err != nil {
			t.Error(err)
			return ""
		}
		if len(data) > 1 && data[0] == channel {
			return string(data[1:])
		}
	}
}

// KH5: a runtime that serves streams itself need not take sizes over SPDY either; the newest one waits for it.
func TestSizesOverSPDYWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sizes, sent := make(chan remotecommand.TerminalSize), make(chan struct{})
		go func() {
			defer close(sent)
			for width := range uint16(100) {
				sizes <- remotecommand.TerminalSize{Width: width}
			}
		}()
		err := executor{func(_ context.Context, s cri.Streams) error {
			<-sent
			synctest.Wait()
			if size := <-s.Resize; size.Width != 99 {
				return fmt.Errorf("the size is %+v", size)
			}
			return nil
		}}.ExecInContainer(t.Context(), "", "", "", nil, nil, nil, nil, true, sizes, 0)
		if err != nil {
			t.Error(err)
		}
	})
}

// KH5: a value that takes the place of a size is read to its end, but not kept: no size arrives after one that is too long.
func TestSizeThatIsTooLong(t *testing.T) {
	for name, c := range map[string]struct {
		between string
		last    uint16
	}{
		"another value":      {strings.Repeat("[1]", maxSize), 2},
		"a long value":       {`"` + strings.Repeat("a", 16*maxSize) + `"`, 1},
		"long space":         {strings.Repeat(" ", 16*maxSize), 1},
		"a value of a piece": {`"` + strings.Repeat("a", maxSize/4) + `"`, 2},
	} {
		from := strings.NewReader(`{"Width":1}` + c.between + `{"Width":2}`)
		sizes := make(chan cri.TerminalSize, 1)
		readSizes(from, sizes)
		if last := <-sizes; last.Width != c.last || from.Len() != 0 {
			t.Errorf("%s: the last size is %+v, %d bytes are unread", name, last, from.Len())
		}
	}
}

// KH4: what localhost is, the address shows to which the resolver leads: no connection is made to another machine.
func TestStreamServerIsWhereItConnects(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	r := newRig(t, &direct{})
	dial := r.server.streams.dial
	conn, err := dial(t.Context(), "tcp", l.Addr().String())
	if err != nil {
		t.Error(err)
	} else {
		_ = conn.Close()
	}
	for _, address := range []string{"192.0.2.1:1", "[2001:db8::1]:1", "[::ffff:192.0.2.1]:1"} {
		if _, err := dial(t.Context(), "tcp", address); err == nil || !strings.Contains(err.Error(), "not on this machine") {
			t.Errorf("%s: %v", address, err)
		}
	}
}

// unruly is a runtime whose methods for streams do not return.
type unruly struct {
	forwarding
	leave func()
}

func (u *unruly) ExecStream(context.Context, string, []string, cri.Streams) error {
	u.leave()
	return nil
}

func (u *unruly) ForwardPort(context.Context, string, int32, io.ReadWriter) error {
	u.leave()
	return nil
}

// KH6: a method of the runtime that panics or ends its goroutine harms one stream only, whose client is told.
func TestRuntimeThatPanics(t *testing.T) {
	for want, leave := range map[string]func(){
		"the container runtime panicked":                     func() { panic("oops") },
		"the container runtime ended the stream's goroutine": goruntime.Goexit,
	} {
		r := newRig(t, &unruly{leave: leave})
		execPath, forwardPath := "/exec/default/web/uid-web/app?command=x&output=1", "/portForward/default/web/uid-web"
		if got := spoken(t, r.openedWebSocket(execPath), errorChannel); !strings.Contains(got, want) || strings.Contains(got, "oops") {
			t.Errorf("exec over WebSocket: %q, want %q", got, want)
		}
		u, err := url.Parse(r.address + execPath)
		if err != nil {
			t.Fatal(err)
		}
		e, err := dialers(r, u)["SPDY"]()
		if err != nil {
			t.Fatal(err)
		}
		err = e.StreamWithContext(t.Context(), clientstreams.StreamOptions{Stdout: io.Discard})
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "oops") {
			t.Errorf("exec over SPDY: %v, want %q", err, want)
		}
		if got := r.portErrorSPDY(forwardPath); !strings.Contains(got, want) || strings.Contains(got, "oops") {
			t.Errorf("port-forward over SPDY: %q, want %q", got, want)
		}
		if got := r.portError(forwardPath + "?port=80"); !strings.Contains(got, want) || strings.Contains(got, "oops") {
			t.Errorf("port-forward over WebSocket: %q, want %q", got, want)
		}
	}
}

// announced tells when something was written.
type announced chan struct{}

func (a announced) Write(p []byte) (int, error) {
	select {
	case a <- struct{}{}:
	default:
	}
	return len(p), nil
}

// KH6: streams end with the server, and with the client.
func TestStreamsEnd(t *testing.T) {
	for _, who := range []string{"server", "client"} {
		t.Run(who, func(t *testing.T) {
			eachWay(t, "output=1", []string{"wait"}, func(t *testing.T, r *rig, e clientstreams.Executor) {
				begun := make(announced, 1)
				ended := make(chan error, 1)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				go func() { ended <- e.StreamWithContext(ctx, clientstreams.StreamOptions{Stdout: begun}) }()
				<-begun
				if who == "client" {
					cancel()
					<-ended
				}
				if err := r.stop(); err != nil {
					t.Error(err)
				}
				if who == "server" {
					<-ended // over SPDY some clients take it for the end of the command
				}
			})
		})
	}
}

// KH6: a client that leaves ends its command, also one that reads nothing of what the client still sends, and writes nothing.
func TestClientThatLeaves(t *testing.T) {
	for _, query := range []string{"output=1", "input=1&output=1"} {
		t.Run(query, func(t *testing.T) {
			over := make(chan struct{})
			r := newRig(t, &direct{exec: func(ctx context.Context, _ string, _ []string, s cri.Streams) error {
				defer close(over)
				_, _ = fmt.Fprintln(s.Stdout, "waiting")
				<-ctx.Done()
				return context.Cause(ctx)
			}})
			u, err := url.Parse(r.address + "/exec/default/web/uid-web/app?command=wait&" + query)
			if err != nil {
				t.Fatal(err)
			}
			e, err := dialers(r, u)["WebSocket"]()
			if err != nil {
				t.Fatal(err)
			}
			begun, ended := make(announced, 1), make(chan error, 1)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			options := clientstreams.StreamOptions{Stdout: begun}
			input := &told{at: 2, reached: make(chan struct{})}
			if strings.Contains(query, "input") {
				options.Stdin = input
			}
			go func() { ended <- e.StreamWithContext(ctx, options) }()
			<-begun
			if options.Stdin != nil {
				<-input.reached // what was read before is on the way
			}
			cancel()
			<-ended
			// The first heartbeat after a client's end may still get through.
			for timer := time.NewTicker(10 * time.Millisecond); ; {
				select {
				case <-over:
					return
				case <-timer.C:
					r.clock.Step(heartbeatPeriod)
				}
			}
		})
	}
}

// told is input without an end that tells when it is read for a time.
type told struct {
	at, reads int
	reached   chan struct{}
}

func (r *told) Read(p []byte) (int, error) {
	if r.reads++; r.reads == r.at {
		close(r.reached)
	}
	return len(p), nil
}

// KH8: what cannot be streamed, and the codes of it. A stream server of another machine is not followed.
func TestStreamsRefused(t *testing.T) {
	elsewhere := newRig(t, &remote{url: "http://192.0.2.1:1/token"})
	plain := newRig(t, &direct{exec: program})
	none := newRig(t, nil)
	for _, tc := range []struct {
		rig     *rig
		path    string
		upgrade bool
		code    int
		text    string
	}{
		{elsewhere, "/exec/default/web/app?command=ls&output=1", true, http.StatusInternalServerError, "192.0.2.1"},
		{elsewhere, "/attach/default/web/app?output=1", true, http.StatusInternalServerError, "192.0.2.1"},
		{elsewhere, "/portForward/default/web", true, http.StatusInternalServerError, "192.0.2.1"},
		{plain, "/exec/default/web/app?command=ls&output=1", false, http.StatusBadRequest, "Upgrade request required"},
		{plain, "/exec/default/web/app?output=1", true, http.StatusBadRequest, "at least 1 command"},
		{plain, "/exec/default/web/app?command=ls", true, http.StatusBadRequest, "at least 1 of"},
		{plain, "/exec/default/web/typo?command=ls&output=1", true, http.StatusNotFound, `container not found ("typo")`},
		{plain, "/exec/default/web/waiting?command=ls&output=1", true, http.StatusNotFound, `container not found ("waiting")`},
		{plain, "/exec/default/typo/app?command=ls&output=1", true, http.StatusNotFound, "does not exist"},
		{plain, "/exec/other/web/uid-web/app?command=ls&output=1", true, http.StatusNotFound, "does not exist"},
		{plain, "/exec/default/web/other/app?command=ls&output=1", true, http.StatusNotFound, "does not exist"},
		{plain, "/portForward/default/web", true, http.StatusNotImplemented, "serves no streams"},
		{none, "/exec/default/web/app?command=ls&output=1", true, http.StatusNotImplemented, "serves no streams"},
	} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, tc.rig.address+tc.path, nil)
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Authorization", "Bearer good")
		if tc.upgrade {
			request.Header.Set("Connection", "Upgrade")
			request.Header.Set("Upgrade", "SPDY/3.1")
		}
		response, err := tc.rig.client().Do(request)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(response.Body)
		response.Body.Close()
		if response.StatusCode != tc.code || !strings.Contains(string(body), tc.text) {
			t.Errorf("%s: %d %q, want %d %q", tc.path, response.StatusCode, body, tc.code, tc.text)
		}
	}
}

// Which stream servers are of this machine.
func TestLoopbackOnly(t *testing.T) {
	for text, good := range map[string]bool{
		"http://127.0.0.1:1/exec/x": true, "http://[::1]:1/x": true, "https://localhost:1/x": true, "http://127.9.9.9/x": true,
		"http://192.0.2.1:1/x": false, "http://127.0.0.1.example.com/x": false, "http://user@127.0.0.1/x": false,
		"ftp://127.0.0.1/x": false, "/exec/x": false, "http:///x": false, "http://0.0.0.0:1/x": false, "": false, "http://[::1": false,
	} {
		if _, err := loopback(text); (err == nil) != good {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// commandsOfShell runs commands in the container app of the pod web, which has a shell: input and its end,
// outputs, an exit code, a terminal of the size that the client has.
func commandsOfShell(t *testing.T, r *rig) {
	t.Helper()
	for _, way := range []string{"SPDY", "WebSocket"} {
		t.Run(way, func(t *testing.T) {
			run := func(query, script string, options clientstreams.StreamOptions) error {
				u, err := url.Parse(r.address + "/exec/default/web/app?" + query + "&" + url.Values{"command": {"sh", "-c", script}}.Encode())
				if err != nil {
					t.Fatal(err)
				}
				e, err := dialers(r, u)[way]()
				if err != nil {
					t.Fatal(err)
				}
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				return e.StreamWithContext(ctx, options)
			}
			input := strings.Repeat("0123456789abcdef", 20000)
			var stdout, stderr bytes.Buffer
			err := run("input=1&output=1&error=1", "cat; echo done >&2; exit 7",
				clientstreams.StreamOptions{Stdin: strings.NewReader(input), Stdout: &stdout, Stderr: &stderr})
			var exit clientexec.CodeExitError
			if !errors.As(err, &exit) || exit.Code != 7 || stdout.String() != input || stderr.String() != "done\n" {
				t.Errorf("%d bytes of %d, stderr %q, %v", stdout.Len(), len(input), stderr.String(), err)
			}
			sizes := make(terminal, 1)
			sizes <- clientstreams.TerminalSize{Width: 120, Height: 50}
			defer close(sizes)
			in, out := io.Pipe()
			defer out.Close()
			var screen bytes.Buffer
			err = run("input=1&output=1&tty=1", `while [ "$(stty size)" != "50 120" ]; do sleep 0.1; done; echo it has it`,
				clientstreams.StreamOptions{Stdin: in, Stdout: &screen, Tty: true, TerminalSizeQueue: sizes})
			if err != nil || !strings.Contains(screen.String(), "it has it\r\n") {
				t.Errorf("terminal: %q, %v", screen.String(), err)
			}
		})
	}
}
