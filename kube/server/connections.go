package server

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
)

// maxConnections bounds the open connections. They cost memory and descriptors before a client is authenticated.
const maxConnections = 1000

// connections accepts at most maxConnections at once, and closes all at the end, even those that became streams.
type connections struct {
	net.Listener

	turns chan struct{} // one for each open connection
	over  chan struct{} // closed with the listener
	ended sync.Once
	// served are those that net/http still has: after an answer to a request that it did not read to the end, it keeps one
	// for half a second, also if it is closed.
	served sync.WaitGroup

	mu     sync.Mutex
	open   map[*connection]struct{}
	closed bool
}

func limited(l net.Listener) *connections {
	return &connections{Listener: l, turns: make(chan struct{}, maxConnections), over: make(chan struct{}), open: map[*connection]struct{}{}}
}

// Close ends Accept, even while it waits for another connection to end.
func (c *connections) Close() error {
	c.ended.Do(func() { close(c.over) })
	return c.Listener.Close()
}

// changed notes what net/http does with a connection.
func (c *connections) changed(_ net.Conn, state http.ConnState) {
	switch state {
	case http.StateNew:
		c.served.Add(1)
	case http.StateHijacked, http.StateClosed: // a handler has it now, or it has ended
		c.served.Done()
	}
}

// connection is one accepted connection.
type connection struct {
	net.Conn
	owner *connections
	once  sync.Once
	err   error

	mu     sync.Mutex
	closed bool
	end    context.CancelFunc // ends its requests; nil before the first
}

// Accept returns the next connection. Those above the limit wait in the kernel until one ends.
func (c *connections) Accept() (net.Conn, error) {
	select {
	case c.turns <- struct{}{}:
	case <-c.over:
		return nil, net.ErrClosed
	}
	raw, err := c.Listener.Accept()
	if err != nil {
		<-c.turns
		return nil, err
	}
	conn := &connection{Conn: raw, owner: c}
	c.mu.Lock()
	closed := c.closed
	if !closed {
		c.open[conn] = struct{}{}
	}
	c.mu.Unlock()
	if closed {
		_ = conn.Close()
	}
	return conn, nil
}

// Close closes the connection, and cancels its requests and streams.
func (c *connection) Close() error {
	c.once.Do(func() {
		c.owner.mu.Lock()
		delete(c.owner.open, c)
		c.owner.mu.Unlock()
		c.err = c.Conn.Close()
		<-c.owner.turns
		c.mu.Lock()
		defer c.mu.Unlock()
		c.closed = true
		if c.end != nil {
			c.end()
		}
	})
	return c.err
}

// interrupt fails all reads and writes on current and later connections. The owner of each then
// closes it properly.
func (c *connections) interrupt() {
	for _, conn := range c.left() {
		_ = conn.SetDeadline(time.Unix(1, 0))
	}
}

// closeAll closes what is still open.
func (c *connections) closeAll() {
	for _, conn := range c.left() {
		_ = conn.Close()
	}
}

// left returns the open connections, and admits no more.
func (c *connections) left() []*connection {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	open := make([]*connection, 0, len(c.open))
	for conn := range c.open {
		open = append(open, conn)
	}
	return open
}

// connectionContext gives the requests of a connection a context that ends with it, even after it
// became a stream.
func connectionContext(ctx context.Context, c net.Conn) context.Context {
	secure, ok := c.(*tls.Conn)
	if !ok {
		return ctx
	}
	conn, ok := secure.NetConn().(*connection)
	if !ok {
		return ctx
	}
	ctx, cancel := context.WithCancel(ctx)
	conn.mu.Lock()
	defer conn.mu.Unlock()
	if conn.end = cancel; conn.closed {
		cancel()
	}
	return ctx
}

// errorLog is where net/http reports clients that failed.
type errorLog struct{ logr.Logger }

func (l errorLog) Write(p []byte) (int, error) {
	l.V(1).Info("A connection failed", "error", strings.TrimSpace(string(p)))
	return len(p), nil
}
