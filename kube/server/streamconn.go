package server

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"sync"
	"time"

	"k8s.io/utils/clock"
)

// streamConn is a connection that has become a stream. If its client does not take a piece within
// idle, it is closed, which ends the request.
type streamConn struct {
	net.Conn
	clock clock.PassiveClock
	idle  time.Duration
	over  <-chan struct{}
	end   context.CancelFunc

	mu    sync.Mutex
	early []byte // what the client sent with its request
	// asked is the deadline that was set, due that of the last piece. Zero means none.
	asked, due  time.Time
	begun, left bool // a piece was written; the request has ended
}

// leave is called when the request has ended. A reader that should have closed the connection may still use it.
func (c *streamConn) leave() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.left = true
	_ = c.Conn.SetReadDeadline(c.clock.Now().Add(farewell))
}

// Read implements [net.Conn].
func (c *streamConn) Read(p []byte) (int, error) {
	if n := c.takeEarly(p); n > 0 {
		return n, nil
	}
	n, err := c.Conn.Read(p)
	if err != nil && c.hasLeft() {
		_ = c.Close()
	}
	return n, err
}

func (c *streamConn) takeEarly(p []byte) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := copy(p, c.early)
	c.early = c.early[n:]
	return n
}

func (c *streamConn) hasLeft() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.left
}

// Write implements [net.Conn].
func (c *streamConn) Write(p []byte) (n int, err error) {
	n, err = inPieces(p, c.begin, c.piece)
	if err != nil {
		c.cut()
	}
	return n, err
}

func (c *streamConn) piece(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.begun = c.begun || err == nil
	return n, err
}

// cut closes the connection of a client that did not take a piece: what would follow a partial
// piece makes no sense. Closing TLS first would wait for the client to take the closing message.
func (c *streamConn) cut() {
	if conn, ok := c.Conn.(*tls.Conn); ok {
		_ = conn.NetConn().Close()
	}
	_ = c.Close()
}

// begin is called before each piece.
func (c *streamConn) begin() {
	select {
	case <-c.over:
		return
	default:
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	limit := c.idle
	if !c.begun {
		limit = pieceTimeout // the answer that opens the stream
	}
	c.due = c.clock.Now().Add(limit)
	_ = c.Conn.SetWriteDeadline(earliest(c.asked, c.due))
}

// SetReadDeadline implements [net.Conn].
func (c *streamConn) SetReadDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.left {
		return nil
	}
	return c.Conn.SetReadDeadline(t)
}

// SetDeadline implements [net.Conn].
func (c *streamConn) SetDeadline(t time.Time) error {
	return errors.Join(c.SetReadDeadline(t), c.SetWriteDeadline(t))
}

// SetWriteDeadline implements [net.Conn].
func (c *streamConn) SetWriteDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked = t
	return c.Conn.SetWriteDeadline(earliest(c.asked, c.due))
}

// Close implements [net.Conn].
func (c *streamConn) Close() error {
	defer c.end()
	return c.Conn.Close()
}

// earliest returns the earlier of two deadlines; zero means none.
func earliest(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
