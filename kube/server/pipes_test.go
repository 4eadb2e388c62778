package server

import (
	"crypto/tls"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"k8s.io/utils/clock"

	"github.com/podwright/podwright/runtime/cri"
)

// pipes is a listener whose connections are in memory, keep virtual time and have no buffers: what a
// client does not read stays with the server.
type pipes struct {
	calls chan net.Conn
	end   sync.Once
	ended chan struct{}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case conn := <-p.calls:
		return conn, nil
	case <-p.ended:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error { p.end.Do(func() { close(p.ended) }); return nil }

func (p *pipes) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 10250} }

// pipe is the server's end of a connection.
type pipe struct {
	net.Conn
	end   sync.Once
	ended chan struct{}
}

func (p *pipe) Close() error {
	defer p.end.Do(func() { close(p.ended) })
	return p.Conn.Close()
}

// newPipeRig is a rig in virtual time, to be called in a bubble.
func newPipeRig(t *testing.T, rt cri.Reader, configure ...func(*Options)) *rig {
	t.Helper()
	t.Cleanup(func() { <-time.After(2 * time.Second) }) // the timer of package spdystream
	l := &pipes{calls: make(chan net.Conn), ended: make(chan struct{})}
	r := newRigOn(t, l, rt, append(configure, func(o *Options) { o.Clock = clock.RealClock{} })...)
	r.pipes = l
	return r
}

// caller is a client of a connection in memory. It reads as fast as the test wants.
type caller struct {
	*tls.Conn
	t *testing.T
	// cut is closed when the server has closed the connection.
	cut <-chan struct{}
	raw *pacedConn
}

// call connects.
func (r *rig) call(t *testing.T) *caller {
	t.Helper()
	near, far := net.Pipe()
	server := &pipe{Conn: far, ended: make(chan struct{})}
	r.pipes.calls <- server
	raw := &pacedConn{Conn: near}
	t.Cleanup(func() { _ = near.Close() })
	return &caller{
		Conn: tls.Client(raw, &tls.Config{RootCAs: r.ca.pool(), ServerName: "127.0.0.1", MinVersion: tls.VersionTLS12}),
		t:    t, cut: server.ended, raw: raw,
	}
}

// send sends a text as it is.
func (c *caller) send(text string) {
	c.t.Helper()
	if _, err := io.WriteString(c, text); err != nil {
		c.t.Fatal(err)
	}
}

// ask sends a request for a path, with a good token and more lines of the header.
func (c *caller) ask(method, path, lines string) {
	c.t.Helper()
	c.send(method + " " + path + " HTTP/1.1\r\nHost: n1\r\nAuthorization: Bearer good\r\n" + lines + "\r\n")
}

// pacedConn takes at most most bytes at a time, after a pause each.
type pacedConn struct {
	net.Conn
	most  int // 0: no limit
	pause time.Duration
}

func (c *pacedConn) Read(p []byte) (int, error) {
	if c.most > 0 {
		<-time.After(c.pause)
		p = p[:min(len(p), c.most)]
	}
	return c.Conn.Read(p)
}
