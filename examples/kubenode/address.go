package main

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
)

// addresses returns the addresses of a Node, none without an IP address: then the Node keeps those that it has.
func addresses(name, ip string) []v1.NodeAddress {
	if ip == "" {
		return nil
	}
	return []v1.NodeAddress{{Type: v1.NodeInternalIP, Address: ip}, {Type: v1.NodeHostName, Address: name}}
}

// findLimit is how long a caller waits for a search for the node's address. The resolver asks name servers that drop
// packets for up to 40 s, and the Node's conditions are not published meanwhile.
const findLimit = 2 * time.Second

// ownAddress is the address of this node.
type ownAddress struct {
	// find searches for it until ctx ends. It is not called twice at a time.
	find   func(ctx context.Context) (string, error)
	logger logr.Logger

	searches sync.WaitGroup
	mu       sync.Mutex
	search   chan struct{} // closed when the search under way ends; nil: there is none
	last     string
	failing  bool
}

// current returns what a search finds now, and what was found before if it fails or takes too long: a DNS server that does not answer
// takes no address from the node. Callers share a search, which ends by itself or with ctx; what it finds late counts next time.
func (a *ownAddress) current(ctx context.Context) string {
	a.mu.Lock()
	search := a.search
	if search == nil {
		search = make(chan struct{})
		a.search = search
		a.searches.Go(func() { a.look(ctx) })
	}
	a.mu.Unlock()
	limit := time.NewTimer(findLimit)
	defer limit.Stop()
	select {
	case <-search:
	case <-limit.C:
	case <-ctx.Done():
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.last
}

// wait waits for the search under way.
func (a *ownAddress) wait() { a.searches.Wait() }

// look searches. The log has the first failure of a row.
func (a *ownAddress) look(ctx context.Context) {
	now, err := a.find(ctx)
	a.mu.Lock()
	tell := err != nil && !a.failing && ctx.Err() == nil
	if a.failing = err != nil; !a.failing {
		a.last = now
	}
	known := a.last
	a.mu.Unlock()
	if tell {
		a.logger.Error(err, "The address of this node is not known now, so the last one counts; --address sets it", "last", known)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	close(a.search)
	a.search = nil
}

// defaultRoutes are documentation addresses (RFC 5737, RFC 3849), which only a default route leads to.
func defaultRoutes() []string { return []string{"192.0.2.1:443", "[2001:db8::1]:443"} }

// nodeIP returns the address at which the cluster reaches this node: the one towards the API server. A load balancer on
// this machine is reached from a loopback address, which names another machine everywhere else; then the address
// towards the default route counts. That of an arbitrary interface does not: it may be a bridge of pods.
func nodeIP(ctx context.Context, o options, server string, source func(ctx context.Context, target string) (net.IP, error)) (string, error) {
	if o.address != "" {
		return o.address, nil
	}
	towards, err := source(ctx, hostPort(server))
	if err != nil {
		return "", err
	}
	if towards.IsGlobalUnicast() {
		return towards.String(), nil
	}
	routes := defaultRoutes()
	if towards.To4() == nil {
		slices.Reverse(routes) // the cluster's family comes first
	}
	for _, route := range routes {
		if ip, err := source(ctx, route); err == nil && ip.IsGlobalUnicast() {
			return ip.String(), nil
		}
	}
	return "", fmt.Errorf("the API server %s is reached from %s, at which no other machine reaches this one, and no default route has a better address: --address is needed", server, towards)
}

// hostPort returns where a server of a kubeconfig is.
func hostPort(server string) string {
	_, rest, found := strings.Cut(server, "://")
	if !found {
		rest = server
	}
	host, _, _ := strings.Cut(rest, "/")
	if _, _, err := net.SplitHostPort(host); err != nil {
		host = net.JoinHostPort(host, "443")
	}
	return host
}

// sourceAddress is the address that this machine uses towards a target. Nothing is sent: connecting
// a UDP socket only consults the routing table.
func sourceAddress(ctx context.Context, target string) (net.IP, error) {
	var dialer net.Dialer
	connection, err := dialer.DialContext(ctx, "udp", target)
	if err != nil {
		return nil, err
	}
	defer func() { _ = connection.Close() }()
	return connection.LocalAddr().(*net.UDPAddr).IP, nil
}
