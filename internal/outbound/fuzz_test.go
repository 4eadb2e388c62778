package outbound_test

import (
	"net/netip"
	"testing"

	"github.com/podwright/podwright/internal/outbound"
)

// FuzzAddress: however an address is written, the services of clouds and the node's loopback
// are not reached: not with a zone, not as an IPv4 address within an IPv6 one, and not by an
// address beside a permitted one (11.1-11.5).
func FuzzAddress(f *testing.F) {
	for _, text := range []string{
		"169.254.169.254", "127.0.0.1", "0.0.0.0", "::", "::1", "fe80::1%eth0", "::ffff:169.254.169.254", "64:ff9b::a9fe:a9fe", "2002:a9fe:a9fe::1", "fd00:ec2::254",
		"100.100.100.200", "::ffff:0:127.0.0.1", "::127.0.0.1%x", "10.0.0.1", "2001:db8::1",
	} {
		f.Add(text, "10.0.0.0/8")
	}
	f.Fuzz(func(t *testing.T, text, permitted string) {
		addr, err := netip.ParseAddr(text)
		if err != nil {
			t.Skip("no address")
		}
		refused := outbound.Check(addr, false, nil) != nil
		bare := addr.WithZone("").Unmap()
		if special := bare.IsLoopback() || bare.IsUnspecified() || bare.IsLinkLocalUnicast(); special && !refused {
			t.Errorf("%s is permitted", addr)
		}
		for _, other := range []netip.Addr{bare, netip.AddrFrom16(bare.As16()), netip.AddrFrom16(bare.As16()).WithZone("x")} {
			if got := outbound.Check(other, false, nil) != nil; got != refused {
				t.Errorf("%s refused: %v, and %s: %v", addr, refused, other, got)
			}
		}
		if bare.Is4() {
			b := bare.As4()
			nat64 := netip.AddrFrom16([16]byte{1: 0x64, 2: 0xff, 3: 0x9b, 12: b[0], 13: b[1], 14: b[2], 15: b[3]})
			if got := outbound.Check(nat64, false, nil) != nil; refused && b[0] != 0 && !got {
				t.Errorf("%s is refused, and not as %s", bare, nat64)
			}
		}
		if outbound.Check(addr, true, nil) != nil && !refused {
			t.Errorf("%s is refused to a pod of the node's network alone", addr)
		}
		if prefix, err := netip.ParsePrefix(permitted); err == nil {
			got := outbound.Check(addr, false, []netip.Prefix{prefix}) == nil
			if prefix.Contains(bare) && !got || refused && got && bare.Is4() && !prefix.Contains(bare) {
				t.Errorf("%s permitted by %s: %v", addr, prefix, got)
			}
		}
	})
}
