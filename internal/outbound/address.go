package outbound

import (
	"fmt"
	"net/netip"
)

// kind says why an address is special on every node.
type kind string

const (
	ordinary  kind = ""
	linkLocal kind = "link-local, where clouds keep credentials"
	metadata  kind = "the metadata service of a cloud"
	loopback  kind = "the node's own loopback, and the pod is not on the node's network"
)

// Refused is the error of a connection that the node does not make for a pod. It says what is
// refused, why, and which option permits it; it holds nothing secret.
type Refused struct{ text string }

// Error returns the text.
func (r *Refused) Error() string { return r.text }

func refused(addr netip.Addr, why kind) *Refused {
	return &Refused{fmt.Sprintf("%v is refused: it is %s (Outbound.Allow permits it)", addr, why)}
}

// Check decides whether the node may connect to addr for a pod. own says that the pod may use the
// node's loopback: the pod is on the node's network, or addr is the address that the runtime gave
// it. The error is a *[Refused] (11.1-11.4).
func Check(addr netip.Addr, own bool, allow []netip.Prefix) error {
	addr = addr.WithZone("").Unmap()
	if allowed(addr, allow) {
		return nil
	}
	if why := refusal(addr, own); why != ordinary {
		return refused(addr, why)
	}
	if addr.Is4() {
		return nil
	}
	inside, n := embedded(addr.As16())
	for _, v4 := range inside[:n] {
		if v4.As4()[0] == 0 {
			continue // nothing is translated to it
		}
		if why := refusal(v4, own); why != ordinary && !allowed(v4, allow) {
			return refused(addr, why)
		}
	}
	return nil
}

func allowed(addr netip.Addr, allow []netip.Prefix) bool {
	for _, p := range allow {
		if p.Contains(addr) {
			return true
		}
	}
	return false
}

// refusal returns why an address is refused, or ordinary if it is not.
func refusal(addr netip.Addr, own bool) kind {
	why := kindOf(addr)
	if why == loopback && own {
		return ordinary
	}
	return why
}

// kindOf classifies an address without its zone.
func kindOf(a netip.Addr) kind {
	switch {
	case a.IsLoopback(), a.IsUnspecified(), a.Is4() && a.As4()[0] == 0: // "this host": the kernel makes it its loopback
		return loopback
	case a.IsLinkLocalUnicast():
		return linkLocal
	case a.Is4() && isMetadata4(a.As4()), a.Is6() && isMetadata6(a.As16()):
		return metadata
	}
	return ordinary
}

// isMetadata4 knows the addresses that clouds document, besides 169.254.0.0/16.
func isMetadata4(b [4]byte) bool {
	switch b {
	case [4]byte{100, 100, 100, 200}, // Alibaba Cloud
		[4]byte{168, 63, 129, 16}, // Azure: WireServer, which hands out the node's certificates
		[4]byte{192, 0, 0, 192}:   // Oracle Cloud, classic
		return true
	}
	return false
}

// isMetadata6 knows the addresses that clouds document, besides fe80::/10.
func isMetadata6(b [16]byte) bool {
	if b[0] != 0xfd {
		return false
	}
	switch b {
	case [16]byte{0xfd, 0x20, 0, 0xce, 14: 0x02, 15: 0x54}, // Google Cloud: fd20:ce::254
		[16]byte{0xfd, 0, 0, 0xc1, 12: 0xa9, 13: 0xfe, 14: 0xa9, 15: 0xfe}, // Oracle Cloud: fd00:c1::a9fe:a9fe
		[16]byte{0xfd, 0, 0, 0x42, 15: 0x42}:                               // Scaleway: fd00:42::42
		return true
	}
	// Amazon keeps its services for instances, and for their pods, in fd00:ec2::/32.
	return [4]byte(b[:4]) == [4]byte{0xfd, 0, 0x0e, 0xc2}
}

// embedded returns the IPv4 addresses that an IPv6 address may be translated or tunneled to. An
// operator's own NAT64 prefix (RFC 6052) cannot be told from other addresses.
func embedded(b [16]byte) (found [4]netip.Addr, n int) {
	add := func(w, x, y, z byte) {
		found[n] = netip.AddrFrom4([4]byte{w, x, y, z})
		n++
	}
	switch {
	case [6]byte(b[:6]) == [6]byte{0, 0x64, 0xff, 0x9b, 0, 1}: // NAT64 for local use (RFC 8215), with prefixes of 48, 56, 64 and 96 bits
		add(b[6], b[7], b[9], b[10])
		add(b[7], b[9], b[10], b[11])
		add(b[9], b[10], b[11], b[12])
		add(b[12], b[13], b[14], b[15])
	case [12]byte(b[:12]) == [12]byte{0, 0x64, 0xff, 0x9b}, // NAT64 (RFC 6052)
		[12]byte(b[:12]) == [12]byte{},                 // IPv4-compatible
		[12]byte(b[:12]) == [12]byte{8: 0xff, 9: 0xff}: // IPv4-translated (RFC 2765)
		add(b[12], b[13], b[14], b[15])
	case b[0] == 0x20 && b[1] == 0x02: // 6to4
		add(b[2], b[3], b[4], b[5])
	case [4]byte(b[:4]) == [4]byte{0x20, 0x01}: // Teredo
		add(^b[12], ^b[13], ^b[14], ^b[15])
	}
	if b[8]&^0x03 == 0 && [3]byte(b[9:12]) == [3]byte{0, 0x5e, 0xfe} { // ISATAP
		if n < len(found) {
			add(b[12], b[13], b[14], b[15])
		}
	}
	return found, n
}
