package main

import (
	"net"
	"testing"
	"testing/synctest"
)

// crowd is a listener at which clients never end.
type crowd struct{}

func (crowd) Accept() (net.Conn, error) {
	server, client := net.Pipe()
	return server, client.Close()
}
func (crowd) Close() error   { return nil }
func (crowd) Addr() net.Addr { return &net.TCPAddr{} }

// TestFewConnectionsAtOnce: clients that hold connections take no more than their number, and the
// next comes when one goes, closed twice or not.
func TestFewConnectionsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newFewListener(crowd{}, 2)
		var held []net.Conn
		ended := make(chan error)
		accepted := make(chan net.Conn, 100)
		go func() {
			for {
				conn, err := l.Accept()
				if err != nil {
					ended <- err
					return
				}
				accepted <- conn
			}
		}()
		for range 5 {
			synctest.Wait()
			for len(accepted) > 0 {
				held = append(held, <-accepted)
			}
			if len(held) != 2 {
				t.Fatalf("%d connections at once, want 2", len(held))
			}
			_, _ = held[0].Close(), held[0].Close()
			held = held[1:]
		}
		synctest.Wait()
		if err := l.Close(); err != nil {
			t.Error(err)
		}
		if err := <-ended; err != net.ErrClosed {
			t.Errorf("closed: %v", err)
		}
	})
}
