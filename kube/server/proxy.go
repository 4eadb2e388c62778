package server

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"sync/atomic"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/util/proxy"
	clientstreams "k8s.io/client-go/tools/remotecommand"
	clientspdy "k8s.io/client-go/transport/spdy"
	"k8s.io/streaming/pkg/httpstream/spdy"

	"github.com/podwright/podwright/runtime/cri"
)

const (
	// answerTimeout is how long the runtime's stream server may take to begin its answer.
	answerTimeout = 30 * time.Second
	// pingPeriod is how often a stream of a WebSocket shows the stream server that it is in use.
	pingPeriod = 5 * time.Second
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

// dialer makes connections to stream servers. It checks the address that it connects to: localhost has the meaning that
// the resolver gives it.
func dialer() *net.Dialer {
	return &net.Dialer{Timeout: answerTimeout, Control: func(_, address string, _ syscall.RawConn) error {
		at, err := netip.ParseAddrPort(address)
		if err == nil && !at.Addr().Unmap().IsLoopback() {
			err = errors.New("the stream server of the container runtime is not on this machine")
		}
		return err
	}}
}

// proxy passes the connection through to the runtime, without the client's credentials.
func (s *streams) proxy(w http.ResponseWriter, r *http.Request, to *url.URL) {
	r = r.Clone(r.Context())
	for _, name := range []string{"Authorization", "Cookie"} {
		r.Header.Del(name)
	}
	to, transport := s.way(to)
	handler := proxy.NewUpgradeAwareHandler(to, transport, false, true, s)
	handler.UseLocationHost = true
	handler.RejectForwardingRedirects = true
	handler.ServeHTTP(w, r)
}

// way returns the URL of a stream on a transport that makes connections to its stream server, for one stream each. For https
// the transport does the TLS itself and the URL has http: those who use it would put TLS on top of [runtimeConn], which
// then took the first byte of the handshake for the answer.
func (s *streams) way(to *url.URL) (*url.URL, *http.Transport) {
	if to.Scheme != "https" {
		return to, &http.Transport{Proxy: nil, DialContext: s.dialRuntime}
	}
	plain := *to
	plain.Scheme, plain.Host = "http", net.JoinHostPort(to.Hostname(), cmp.Or(to.Port(), "443"))
	return &plain, &http.Transport{Proxy: nil, DialContext: s.dialTLS}
}

// runtimeConn is a connection to a stream server. The handler closes a stream when either direction
// fails. If a client still sends to a stream server that has closed the stream, that would lose the
// stream's last message, the exit code, which has not been read yet. So a failed write is not
// reported; the other direction then ends the stream.
type runtimeConn struct {
	net.Conn
	stop     func() bool // ends the watch over the stream's context
	answered atomic.Bool
	broken   atomic.Bool
}

// dialRuntime connects to a stream server. The connection ends with ctx, because those who read the
// stream server's answer from it do not look at their context.
func (s *streams) dialRuntime(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := s.dial(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return s.watched(ctx, conn, conn), nil
}

// dialTLS is dialRuntime with TLS. The certificate of a stream server, usually one that it made itself, is not verified: it is
// on a loopback address (see [dialer]), which no other machine can answer at.
func (s *streams) dialTLS(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := s.dial(ctx, network, address)
	if err != nil {
		return nil, err
	}
	_ = conn.SetDeadline(s.clock.Now().Add(answerTimeout))
	secure := tls.Client(conn, &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS12}) //nolint:gosec // see above
	if err := secure.HandshakeContext(ctx); err != nil {
		_ = conn.Close()
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return nil, noAnswer(err)
		}
		return nil, fmt.Errorf("TLS handshake with the stream server of the container runtime: %w", err)
	}
	_ = conn.SetDeadline(time.Time{})
	return s.watched(ctx, secure, conn), nil
}

// watched gives a stream server its time to answer; conn goes through raw.
func (s *streams) watched(ctx context.Context, conn, raw net.Conn) net.Conn {
	_ = raw.SetReadDeadline(s.clock.Now().Add(answerTimeout))
	return &runtimeConn{Conn: conn, stop: context.AfterFunc(ctx, func() { _ = raw.Close() })}
}

func noAnswer(err error) error {
	return fmt.Errorf("the stream server of the container runtime gave no answer within %s: %w", answerTimeout, err)
}

// Close implements [net.Conn].
func (c *runtimeConn) Close() error {
	c.stop()
	return c.Conn.Close()
}

// Read implements [net.Conn]. A stream may be silent for as long as it likes once it was answered.
func (c *runtimeConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	switch {
	case n > 0 && c.answered.CompareAndSwap(false, true):
		_ = c.SetReadDeadline(time.Time{})
	case !c.answered.Load() && errors.Is(err, os.ErrDeadlineExceeded):
		err = noAnswer(err)
	}
	return n, err
}

// Write implements [net.Conn].
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

// connect connects a stream to the runtime's stream server.
func (s *streams) connect(ctx context.Context, to *url.URL, ends cri.Streams) error {
	to, transport := s.way(to)
	trip, err := spdy.NewRoundTripperWithConfig(spdy.RoundTripperConfig{PingPeriod: pingPeriod, UpgradeTransport: transport})
	if err != nil {
		return err
	}
	executor, err := clientstreams.NewSPDYExecutorForTransports(trip, clientspdy.NewUpgraderForStreaming(trip), http.MethodPost, to)
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
