package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/util/proxy"
	"k8s.io/client-go/rest"
	clientstreams "k8s.io/client-go/tools/remotecommand"

	"github.com/podwright/podwright/runtime/cri"
)

// at asks the runtime for the URL of a stream, and checks that it is on this machine.
func (s *streams) at(ctx context.Context, ask func(ctx context.Context) (string, error)) (*url.URL, error) {
	text, err := ask(ctx)
	if err != nil {
		return nil, err
	}
	return loopback(text)
}

// loopback parses the URL of a stream server. Another machine's is refused: it would receive the
// input of users, and could answer in place of their containers.
func loopback(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	if err != nil {
		return nil, &failure{http.StatusInternalServerError, "the container runtime names a stream server whose URL cannot be read"}
	}
	ip := net.ParseIP(u.Hostname())
	local := u.Hostname() == "localhost" || ip != nil && ip.IsLoopback()
	if (u.Scheme != "http" && u.Scheme != "https") || !local || u.User != nil {
		return nil, &failure{http.StatusInternalServerError, fmt.Sprintf(
			"the container runtime names a stream server at %q, which is not of this machine: configure its stream server to listen on 127.0.0.1",
			u.Scheme+"://"+u.Host)}
	}
	return u, nil
}

// proxy passes the connection through to the runtime, without the client's credentials.
func (s *streams) proxy(w http.ResponseWriter, r *http.Request, to *url.URL) {
	r = r.Clone(r.Context())
	for _, name := range []string{"Authorization", "Cookie"} {
		r.Header.Del(name)
	}
	transport := &http.Transport{Proxy: nil, DialContext: s.dialRuntime}
	defer transport.CloseIdleConnections()
	handler := proxy.NewUpgradeAwareHandler(to, transport, false, true, s)
	handler.UseLocationHost = true
	handler.RejectForwardingRedirects = true
	handler.ServeHTTP(w, r)
}

// runtimeConn is a connection to a stream server. The handler closes a stream when either direction
// fails. If a client still sends to a stream server that has closed the stream, that would lose the
// stream's last message, the exit code, which has not been read yet. So a failed write is not
// reported; the other direction then ends the stream.
type runtimeConn struct {
	net.Conn
	broken atomic.Bool
}

func (s *streams) dialRuntime(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := s.dial(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return &runtimeConn{Conn: conn}, nil
}

func (c *runtimeConn) Write(p []byte) (int, error) {
	if c.broken.Load() {
		return len(p), nil
	}
	n, err := c.Conn.Write(p)
	if err != nil && !errors.Is(err, net.ErrClosed) {
		c.broken.Store(true)
		return len(p), nil
	}
	return n, err
}

// Error implements proxy.ErrorResponder.
func (s *streams) Error(w http.ResponseWriter, _ *http.Request, err error) {
	s.log.Info("A stream to the container runtime failed", "error", err.Error())
	http.Error(w, "the stream to the container runtime failed: "+err.Error(), http.StatusInternalServerError)
}

// dial connects a stream to the runtime's stream server.
func dial(ctx context.Context, to *url.URL, ends cri.Streams) error {
	config := &rest.Config{Host: to.Host, Proxy: func(*http.Request) (*url.URL, error) { return nil, nil }}
	executor, err := clientstreams.NewSPDYExecutor(config, http.MethodPost, to)
	if err != nil {
		return err
	}
	options := clientstreams.StreamOptions{Stdin: ends.Stdin, Stdout: ends.Stdout, Stderr: ends.Stderr, Tty: ends.TTY}
	if ends.Resize != nil {
		options.TerminalSizeQueue = sizes{ctx, ends.Resize}
	}
	return executor.StreamWithContext(ctx, options)
}

// sizes passes on terminal sizes until the stream ends.
type sizes struct {
	ctx  context.Context
	from <-chan cri.TerminalSize
}

// Next implements remotecommand.TerminalSizeQueue.
func (s sizes) Next() *clientstreams.TerminalSize {
	select {
	case size, ok := <-s.from:
		if !ok {
			return nil
		}
		return &clientstreams.TerminalSize{Width: size.Width, Height: size.Height}
	case <-s.ctx.Done():
		return nil
	}
}
