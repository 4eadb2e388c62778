package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime/debug"
	"time"

	"github.com/go-logr/logr"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/cri-streaming/pkg/streaming/remotecommand"
	"k8s.io/streaming/pkg/httpstream"
	"k8s.io/streaming/pkg/httpstream/wsstream"
	"k8s.io/utils/clock"
	utilexec "k8s.io/utils/exec"

	"github.com/podwright/podwright/runtime/cri"
)

// streamCreation is how long a client may take to open the streams that it announced.
const streamCreation = 30 * time.Second

// streams serves exec, attach and port-forward (KH4).
type streams struct {
	engine  Engine
	runtime cri.Reader
	urls    cri.Streamer        // nil if the runtime has no stream server
	direct  cri.DirectStreamer  // nil if the runtime does not serve streams itself
	ports   cri.DirectForwarder // nil if the runtime does not forward ports itself
	dial    func(ctx context.Context, network, address string) (net.Conn, error)
	idle    time.Duration
	clock   clock.Clock
	log     logr.Logger
}

// job is a stream that a request asks for.
type job struct {
	wants *remotecommand.Options
	// url asks the runtime where it serves the stream; nil if it has no stream server.
	url func(ctx context.Context) (string, error)
	// run serves the stream here; nil if the runtime cannot.
	run func(ctx context.Context, s cri.Streams) error
}

func errNoStreams() error {
	return &failure{http.StatusNotImplemented, "the container runtime serves no streams"}
}

// errPanicked and errGoexit say that a method of the runtime has panicked, or ended its goroutine.
var (
	errPanicked = errors.New("the container runtime panicked")
	errGoexit   = errors.New("the container runtime ended the stream's goroutine")
)

// contain runs a method of the runtime on a goroutine of its own, so that a panic, or the end of that
// goroutine, harms one stream only: on goroutines of the streams' packages it would end the program.
func (s *streams) contain(f func() error) error {
	ended := make(chan error, 1)
	go func() {
		err := errGoexit
		defer func() {
			if p := recover(); p != nil {
				err = errPanicked // its value, which may quote anything, is not for the client
				s.log.Error(fmt.Errorf("%w: %v", err, p), "A stream failed", "stack", string(debug.Stack()))
			}
			ended <- err
		}()
		err = f()
	}()
	return <-ended
}

func (s *streams) exec(w http.ResponseWriter, r *http.Request) {
	id, wants, err := s.asked(r)
	cmd := r.URL.Query()["command"]
	if err == nil && len(cmd) == 0 {
		err = &failure{http.StatusBadRequest, "you must specify at least 1 command"}
	}
	if err != nil {
		fail(w, err)
		return
	}
	j := job{wants: wants}
	if s.urls != nil {
		j.url = func(ctx context.Context) (string, error) {
			response, err := s.urls.Exec(ctx, &runtimeapi.ExecRequest{
				ContainerId: id, Cmd: cmd, Tty: wants.TTY, Stdin: wants.Stdin, Stdout: wants.Stdout, Stderr: wants.Stderr,
			})
			return response.GetUrl(), err
		}
	} else if s.direct != nil {
		j.run = func(ctx context.Context, ends cri.Streams) error {
			return s.contain(func() error { return s.direct.ExecStream(ctx, id, cmd, ends) })
		}
	}
	s.serve(w, r, j)
}

func (s *streams) attach(w http.ResponseWriter, r *http.Request) {
	id, wants, err := s.asked(r)
	if err != nil {
		fail(w, err)
		return
	}
	j := job{wants: wants}
	if s.urls != nil {
		j.url = func(ctx context.Context) (string, error) {
			response, err := s.urls.Attach(ctx, &runtimeapi.AttachRequest{
				ContainerId: id, Tty: wants.TTY, Stdin: wants.Stdin, Stdout: wants.Stdout, Stderr: wants.Stderr,
			})
			return response.GetUrl(), err
		}
	} else if s.direct != nil {
		j.run = func(ctx context.Context, ends cri.Streams) error {
			return s.contain(func() error { return s.direct.AttachStream(ctx, id, ends) })
		}
	}
	s.serve(w, r, j)
}

// asked returns the container that the path names and the streams that the query asks for.
func (s *streams) asked(r *http.Request) (id string, wants *remotecommand.Options, err error) {
	if s.urls == nil && s.direct == nil {
		return "", nil, errNoStreams()
	}
	pod, err := podOf(s.engine, r)
	if err != nil {
		return "", nil, err
	}
	if id, err = running(pod, r.PathValue("container")); err != nil {
		return "", nil, err
	}
	if wants, err = remotecommand.NewOptions(r); err != nil {
		return "", nil, &failure{http.StatusBadRequest, err.Error()}
	}
	// A terminal has one output.
	wants.Stderr = wants.Stderr && !wants.TTY
	return id, wants, nil
}

// serve connects the client. A WebSocket ends here, because many runtimes do not support its newest
// protocol, which can close stdin; SPDY passes through to a runtime that serves it.
func (s *streams) serve(w http.ResponseWriter, r *http.Request, j job) {
	websocket := wsstream.IsWebSocketRequest(r)
	if !websocket && !httpstream.IsUpgradeRequest(r) {
		fail(w, &failure{http.StatusBadRequest, "Upgrade request required"})
		return
	}
	if j.url != nil {
		url, err := s.at(r.Context(), j.url)
		if err != nil {
			fail(w, err)
			return
		}
		if !websocket {
			s.proxy(w, r, url)
			return
		}
		j.run = func(ctx context.Context, ends cri.Streams) error { return s.connect(ctx, url, ends) }
	}
	if websocket {
		s.webSocket(w, r, j)
		return
	}
	remotecommand.ServeExec(w, r, executor{j.run}, "", "", "", nil, j.wants, s.idle, streamCreation, remotecommand.SupportedStreamingProtocols)
}

// executor runs any stream for package remotecommand.
type executor struct {
	run func(ctx context.Context, s cri.Streams) error
}

// ExecInContainer implements remotecommand.Executor.
func (e executor) ExecInContainer(ctx context.Context, _, _, _ string, _ []string, in io.Reader, out, errOut io.WriteCloser,
	tty bool, resize <-chan remotecommand.TerminalSize, _ time.Duration,
) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ends := cri.Streams{Stdin: in, TTY: tty}
	if out != nil {
		ends.Stdout = out
	}
	if errOut != nil {
		ends.Stderr = errOut
	}
	if resize != nil {
		sizes := make(chan cri.TerminalSize, 1)
		ends.Resize = sizes
		done := make(chan struct{})
		defer func() { <-done }()
		defer cancel()
		go func() {
			defer close(done)
			for {
				select {
				case <-ctx.Done():
					return
				case size, ok := <-resize:
					if !ok {
						return
					}
					replace(sizes, cri.TerminalSize{Width: size.Width, Height: size.Height})
				}
			}
		}()
	}
	return exitOf(e.run(ctx, ends))
}

// exitOf wraps an error with an exit code in the type that package remotecommand looks for.
func exitOf(err error) error {
	var exit interface{ ExitStatus() int }
	if errors.As(err, &exit) {
		return utilexec.CodeExitError{Err: err, Code: exit.ExitStatus()}
	}
	return err
}
