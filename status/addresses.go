package status

import (
	"net/netip"
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/internal/podinfo"
)

// addresses sets the host's and the pod's addresses (spec/status.md 6.1-6.3).
func (g *generator) addresses(s *v1.PodStatus) {
	var space [2][2]string // so that nothing is allocated
	hosts := onePerFamily(space[0][:0], g.in.NodeIPs, g.in.NodeIPs)
	s.HostIP, s.HostIPs = g.old.HostIP, g.old.HostIPs // kept while the node's are not known
	if len(hosts) > 0 {
		s.HostIP, s.HostIPs = hosts[0], wrapped(hosts, g.old.HostIPs)
	}
	var pods []string
	switch {
	case g.in.Runtime != nil && len(g.in.Runtime.IPs) > 0:
		pods = onePerFamily(space[1][:0], g.in.Runtime.IPs, hosts)
	case g.pod.Spec.HostNetwork:
		// What was set once stays in front; only a second family can join it.
		had := make([]string, 0, 4)
		for i := range g.old.PodIPs {
			had = append(had, g.old.PodIPs[i].IP)
		}
		all := append(had, hosts...)
		pods = onePerFamily(space[1][:0], all, all)
	case g.in.Terminal || g.pod.DeletionTimestamp != nil || podinfo.Terminal(s.Phase):
		// A pod that was stopped keeps the addresses it had (1.4).
		s.PodIP, s.PodIPs = g.old.PodIP, g.old.PodIPs
	}
	if len(pods) > 0 {
		s.PodIP, s.PodIPs = pods[0], wrapped(pods, g.old.PodIPs)
	}
}

// onePerFamily appends to out the first address of each family in canonical text, IPv6 before IPv4
// if leader starts with an IPv6 address. Text that is not an address is dropped.
func onePerFamily(out, addresses, leader []string) []string {
	var v4, v6 string
	for _, text := range addresses {
		ip, err := netip.ParseAddr(text)
		if err != nil {
			continue
		}
		ip = ip.Unmap()
		if ip.Is4() && v4 == "" {
			v4 = canonical(text, ip)
		}
		if ip.Is6() && v6 == "" {
			v6 = canonical(text, ip)
		}
	}
	switch {
	case v4 == "" && v6 == "":
		return out
	case v6 == "":
		return append(out, v4)
	case v4 == "":
		return append(out, v6)
	case firstIsV6(leader):
		return append(out, v6, v4)
	}
	return append(out, v4, v6)
}

// firstIsV6 reports whether the first valid address is an IPv6 address.
func firstIsV6(addresses []string) bool {
	for _, text := range addresses {
		if ip, err := netip.ParseAddr(text); err == nil {
			return ip.Unmap().Is6()
		}
	}
	return false
}

// canonical returns ip as text, or text itself if that is already canonical.
func canonical(text string, ip netip.Addr) string {
	var buffer [64]byte
	if b := ip.AppendTo(buffer[:0]); string(b) != text {
		return string(b)
	}
	return text
}

// wrapped returns addresses in an API type: the old list if it is equal.
func wrapped[T v1.HostIP | v1.PodIP](ips []string, old []T) []T {
	if slices.EqualFunc(ips, old, func(ip string, o T) bool { return v1.PodIP(o).IP == ip }) {
		return old
	}
	out := make([]T, len(ips))
	for i, ip := range ips {
		out[i] = T(v1.PodIP{IP: ip})
	}
	return out
}
