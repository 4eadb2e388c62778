package source

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"sync/atomic"
	"syscall"

	"github.com/podwright/podwright/internal/outbound"
)

// journeyKey is the key of a request's *journey in its context.
type journeyKey struct{}

// journey is the state of one poll's request. Each request has its own, because the transport
// may still dial for it when the next poll has begun.
type journey struct{ redirected atomic.Bool }

// follow allows redirects to the same server only, because headers may hold credentials (H6).
func follow(r *http.Request, via []*http.Request) error {
	switch {
	case r.URL.Host != via[0].URL.Host || r.URL.Scheme != via[0].URL.Scheme:
		return errors.New("it redirects to another server")
	case len(via) >= 10:
		return errors.New("it redirects in circles")
	}
	if j, ok := r.Context().Value(journeyKey{}).(*journey); ok {
		j.redirected.Store(true)
	}
	return nil
}

// dial connects for a request, and records the address that the URL itself leads to.
func (h *HTTP) dial(ctx context.Context, network, address string) (net.Conn, error) {
	dialer := net.Dialer{ControlContext: h.check}
	conn, err := dialer.DialContext(ctx, network, address)
	if err != nil || wasRedirected(ctx) {
		return conn, err
	}
	if to, err := netip.ParseAddrPort(conn.RemoteAddr().String()); err == nil {
		h.mu.Lock()
		h.reached = to.Addr()
		h.mu.Unlock()
	}
	return conn, nil
}

// check refuses to follow a redirect if the host name now means another address than before
// and no probe may reach that address (H6). The operator chose the URL, but not where its name
// leads once the server chooses the path.
func (h *HTTP) check(ctx context.Context, _, address string, _ syscall.RawConn) error {
	if !wasRedirected(ctx) {
		return nil
	}
	to, err := netip.ParseAddrPort(address)
	if err != nil {
		return fmt.Errorf("it redirects to %q, which is no address", address)
	}
	h.mu.Lock()
	reached := h.reached
	h.mu.Unlock()
	if to.Addr() != reached && outbound.Check(to.Addr(), false, nil) != nil {
		return fmt.Errorf("it redirects into the node's network: its name means %v now", to.Addr())
	}
	return nil
}

func wasRedirected(ctx context.Context) bool {
	j, ok := ctx.Value(journeyKey{}).(*journey)
	return ok && j.redirected.Load()
}
