package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"slices"
	"strings"
)

// connection is the context key for how a request arrived: a peer (on a socket), or nothing.
type connection struct{}

// withPeer records who is at the other end of a socket.
func withPeer(ctx context.Context, conn net.Conn) context.Context {
	if c, ok := conn.(*net.UnixConn); ok {
		return context.WithValue(ctx, connection{}, peerOf(c))
	}
	return ctx
}

// access lets requests through: on a socket, those of the agent's user and of root; on TCP, those
// that name one of the agent's hosts and carry the token.
type access struct {
	user  int
	hosts []string // names that may stand for the agent's address
	token token
	// vague answers /healthz for requests without the token.
	vague http.HandlerFunc
	next  http.Handler
}

func (a access) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if p, ok := r.Context().Value(connection{}).(peer); ok {
		if !p.may(a.user) {
			http.Error(w, fmt.Sprintf("this is for root and user %d; a peer with user %d is neither", a.user, p.uid), http.StatusForbidden)
			return
		}
		a.next.ServeHTTP(w, r)
		return
	}
	local, _ := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	switch {
	case !allowedHost(r.Host, local, a.hosts):
		// A page in a browser can make its own name resolve to the agent, but cannot change the Host header.
		http.Error(w, "this is no name of the agent; use its address, or start it with --listen-host NAME", http.StatusMisdirectedRequest)
	case a.token.sentBy(r):
		a.next.ServeHTTP(w, r)
	case r.URL.Path == "/healthz" && (r.Method == http.MethodGet || r.Method == http.MethodHead):
		a.vague(w, r)
	default:
		w.Header().Set("WWW-Authenticate", `Bearer realm="nodeagent"`)
		http.Error(w, "send the token of --listen-token-file: Authorization: Bearer TOKEN", http.StatusUnauthorized)
	}
}

// allowedHost reports whether a Host header names the agent: by a loopback address, by the address
// the request arrived at, or by one of names.
func allowedHost(header string, local net.Addr, names []string) bool {
	host := header
	if h, _, err := net.SplitHostPort(header); err == nil {
		host = h
	}
	host = strings.ToLower(strings.TrimSuffix(strings.Trim(host, "[]"), "."))
	if host == "localhost" || slices.Contains(names, host) {
		return true
	}
	ip, err := netip.ParseAddr(host)
	if err != nil {
		return false
	}
	ip = ip.Unmap()
	if ip.IsLoopback() {
		return true
	}
	tcp, ok := local.(*net.TCPAddr)
	return ok && tcp.AddrPort().Addr().Unmap().WithZone("") == ip.WithZone("")
}

// access guards the API with the agent's options; it makes the token if TCP needs one.
func (a *agent) access(next http.Handler) (http.Handler, error) {
	guard := access{user: os.Geteuid(), hosts: a.options.api.names(), vague: a.vagueHealthz, next: next}
	if !a.options.api.overTCP() {
		return guard, nil
	}
	var err error
	guard.token, err = openToken(a.options.api.tokenFile, a.options.api.madeToken)
	return guard, err
}
