package server

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

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
func streamServer(t *testing.T, cmd ...string) string {
	t.Helper()
	// The server does not end its streams by itself.
	ctx, cancel := context.WithCancel(t.Context())
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
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
	for _, kind := range []string{"direct", "remote"} {
		for _, way := range []string{"SPDY", "WebSocket"} {
			t.Run(kind+" "+way, func(t *testing.T) {
				var rt cri.Reader = &direct{exec: program}
				if kind == "remote" {
					rt = &remote{url: streamServer(t, cmd...) + "?" + query}
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
		sizes := make(terminal, 2)
		sizes <- clientstreams.TerminalSize{Width: 80, Height: 25}
		sizes <- clientstreams.TerminalSize{Width: 120, Height: 50}
		in, out := io.Pipe()
		defer out.Close()
		defer close(sizes)
		var stdout bytes.Buffer
		err := e.StreamWithContext(t.Context(), clientstreams.StreamOptions{Stdin: in, Stdout: &stdout, Tty: true, TerminalSizeQueue: sizes})
		if err != nil || stdout.String() != "80x25 tty=true\n120x50 tty=true\n" {
			t.Errorf("%q, %v", stdout.String(), err)
		}
	})
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
