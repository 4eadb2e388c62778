package main

import (
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"

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

// lastKnown returns a function that returns what find finds, and what it found before while it fails: a DNS
// server that does not answer takes no address from the node. The log has the first failure of a row.
func lastKnown(find func() (string, error), logger logr.Logger) func() string {
	var mu sync.Mutex
	var last string
	var failing bool
	return func() string {
		now, err := find()
		mu.Lock()
		tell := err != nil && !failing
		failing = err != nil
		if err == nil {
			last = now
		}
		known := last
		mu.Unlock()
		if tell {
			logger.Error(err, "The address of this node is not known now, so the last one counts; --address sets it", "last", known)
		}
		return known
	}
}

// defaultRoutes are documentation addresses (RFC 5737, RFC 3849), which only a default route leads to.
func defaultRoutes() []string { return []string{"192.0.2.1:443", "[2001:db8::1]:443"} }

// nodeIP returns the address at which the cluster reaches this node: the one towards the API server. A load balancer on
// this machine is reached from a loopback address, which names another machine everywhere else; then the address
// towards the default route counts. That of an arbitrary interface does not: it may be a bridge of pods.
func nodeIP(o options, server string, source func(target string) (net.IP, error)) (string, error) {
	if o.address != "" {
		return o.address, nil
	}
	towards, err := source(hostPort(server))
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
		if ip, err := source(route); err == nil && ip.IsGlobalUnicast() {
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
func sourceAddress(target string) (net.IP, error) {
	connection, err := net.Dial("udp", target)
	if err != nil {
		return nil, err
	}
	defer func() { _ = connection.Close() }()
	return connection.LocalAddr().(*net.UDPAddr).IP, nil
}
