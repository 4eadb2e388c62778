package outbound

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"syscall"

	"k8s.io/apimachinery/pkg/types"
)

// Options says where probes and hooks of pods may connect to (spec/probe.md 11). By default, the
// node connects for a pod to any address except link-local ones and those of clouds' metadata
// services, and to its own loopback only for pods on its network. Every pod can reach the node's
// other addresses anyway.
type Options struct {
	// Allow lists prefixes that are permitted nevertheless, such as 127.0.0.0/8 and ::1/128 if all
	// containers share the node's network. IPv4 prefixes are written as IPv4. Nil: none.
	Allow []netip.Prefix
	// NoHost refuses every httpGet and tcpSocket that names a host, like the baseline of the Pod
	// Security Standards: probes and hooks then reach only their own pod.
	NoHost bool
	// Dial connects instead of the node, for instance from inside the pod's network namespace. It
	// then decides about addresses; NoHost still applies. It is called from many goroutines, and
	// must return soon after its context ends. Nil: connections are made from the node's network.
	Dial func(ctx context.Context, uid types.UID, network, address string) (net.Conn, error)
}

// Validate reports every problem of options at once.
func Validate(o Options) error {
	var problems []error
	for i, p := range o.Allow {
		switch {
		case !p.IsValid():
			problems = append(problems, fmt.Errorf("Outbound.Allow[%d] is not a prefix: use netip.ParsePrefix", i))
		case p.Addr().Is4In6():
			problems = append(problems, fmt.Errorf("Outbound.Allow[%d] is IPv4 written as IPv6, %v: write it as IPv4", i, p))
		}
	}
	return errors.Join(problems...)
}

// Call says what a connection is for.
type Call struct {
	// UID of the pod.
	UID types.UID
	// Host as the manifest names it; empty if it names none, or the pod's own address.
	Host string
	// HostNetwork says that the pod is on the node's network.
	HostNetwork bool
}

// Named returns the host that a manifest names, or "" if that is the pod itself.
func Named(host, podIP string) string {
	if host == podIP {
		return ""
	}
	return host
}

// Dialer makes connections. Create one with [New]; it is safe for concurrent use.
type Dialer struct {
	options Options
	// plain dials literal addresses, which were checked before. The others look names up and check
	// each address; checked[1] permits loopback.
	plain   net.Dialer
	checked [2]net.Dialer
}

// New returns a dialer for valid options. resolver looks names up; nil means the node's resolver.
func New(o Options, resolver *net.Resolver) *Dialer {
	d := &Dialer{options: o}
	for i := range d.checked {
		own := i == 1
		d.checked[i] = net.Dialer{Resolver: resolver, ControlContext: func(_ context.Context, _, address string, _ syscall.RawConn) error {
			to, err := netip.ParseAddrPort(address)
			if err != nil {
				return &Refused{fmt.Sprintf("%q is refused: it is not an address", address)}
			}
			return Check(to.Addr(), own, o.Allow)
		}}
	}
	return d
}

// Dial connects for a pod, unless that is refused. Each address is checked right before it is
// dialed, so that a name cannot change its meaning in between.
func (d *Dialer) Dial(ctx context.Context, c Call, network, address string) (net.Conn, error) {
	if c.Host != "" && d.options.NoHost {
		return nil, &Refused{fmt.Sprintf("host %q is refused: probes and hooks may name no host here, only reach their own pod (Outbound.NoHost)", c.Host)}
	}
	if d.options.Dial != nil {
		return d.options.Dial(ctx, c.UID, network, address)
	}
	own := c.HostNetwork || c.Host == ""
	if to, err := netip.ParseAddrPort(address); err == nil {
		if err := Check(to.Addr(), own, d.options.Allow); err != nil {
			return nil, err
		}
		return d.plain.DialContext(ctx, network, address)
	}
	if own {
		return d.checked[1].DialContext(ctx, network, address)
	}
	return d.checked[0].DialContext(ctx, network, address)
}
