package main

import (
	"net"
	"sync"
)

// maxConnections is how many TCP connections the local API has at once. They cost memory and
// descriptors before a client has shown a token, and the pods need those.
const maxConnections = 100

// fewListener accepts a connection while it has fewer than its limit; others wait in the kernel.
type fewListener struct {
	net.Listener
	slots  chan struct{}
	closed chan struct{}
	once   sync.Once
}

func newFewListener(l net.Listener, most int) *fewListener {
	return &fewListener{Listener: l, slots: make(chan struct{}, most), closed: make(chan struct{})}
}

// Accept waits for a free place, and then for a connection.
func (l *fewListener) Accept() (net.Conn, error) {
	select {
	case l.slots <- struct{}{}:
	case <-l.closed:
		return nil, net.ErrClosed
	}
	conn, err := l.Listener.Accept()
	if err != nil {
		<-l.slots
		return nil, err
	}
	return &countedConn{Conn: conn, release: sync.OnceFunc(func() { <-l.slots })}, nil
}

// Close ends the listener and any waiting Accept.
func (l *fewListener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return l.Listener.Close()
}

// countedConn frees its place when it is closed.
type countedConn struct {
	net.Conn
	release func()
}

func (c *countedConn) Close() error {
	defer c.release()
	return c.Conn.Close()
}
