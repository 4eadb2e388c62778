package outbound_test

import (
	"errors"
	"net/netip"
	"strings"
	"testing"

	"github.com/podwright/podwright/internal/outbound"
)

// TestCheck is spec/probe.md 11.1 to 11.4: the decision over each kind of address.
func TestCheck(t *testing.T) {
	const (
		link = "link-local"
		meta = "metadata service"
		loop = "loopback"
	)
	for _, c := range []struct {
		addr  string
		own   bool
		allow string
		why   string // "" is permitted
	}{
		{addr: "10.1.2.3"},
		{addr: "192.168.0.1"},
		{addr: "8.8.8.8"},
		{addr: "2001:db8::1"},
		{addr: "fd00::1"},

		{addr: "169.254.169.254", why: link},
		{addr: "169.254.0.23", why: link},
		{addr: "169.254.169.254", own: true, why: link},
		{addr: "169.253.255.255"},
		{addr: "169.255.0.0"},
		{addr: "fe80::1", why: link},
		{addr: "fe80::1%eth0", why: link},
		{addr: "febf:ffff::1", why: link},
		{addr: "fec0::1"},

		{addr: "100.100.100.200", why: meta},
		{addr: "100.100.100.200", own: true, why: meta},
		{addr: "100.100.100.201"},
		{addr: "168.63.129.16", why: meta},
		{addr: "192.0.0.192", why: meta},
		{addr: "fd00:ec2::254", why: meta},
		{addr: "fd00:ec2::23", why: meta},
		{addr: "fd00:ec3::254"},
		{addr: "fd20:ce::254", why: meta},
		{addr: "fd20:ce::253"},
		{addr: "fd00:c1::a9fe:a9fe", why: meta},
		{addr: "fd00:42::42", why: meta},

		{addr: "127.0.0.1", why: loop},
		{addr: "127.255.0.9", why: loop},
		{addr: "127.0.0.1", own: true},
		{addr: "::1", why: loop},
		{addr: "::1", own: true},
		{addr: "0.0.0.0", why: loop},
		{addr: "0.0.0.0", own: true},
		{addr: "0.1.2.3", why: loop},
		{addr: "::", why: loop},

		// IPv4 in IPv6.
		{addr: "::ffff:127.0.0.1", why: loop},
		{addr: "::ffff:169.254.169.254", why: link},
		{addr: "::ffff:169.254.169.254%eth0", why: link},
		{addr: "::ffff:10.0.0.1"},
		{addr: "::169.254.169.254", why: link},
		{addr: "::ffff:0:169.254.169.254", why: link},
		{addr: "64:ff9b::169.254.169.254", why: link},
		{addr: "64:ff9b::127.0.0.1", why: loop},
		{addr: "64:ff9b::127.0.0.1", own: true},
		{addr: "64:ff9b::10.0.0.1"},
		{addr: "64:ff9b::100.100.100.200", own: true, why: meta},
		{addr: "64:ff9b:1:a9fe:a9:fe00::", why: link},   // prefix of 48 bits
		{addr: "64:ff9b:1:5a9:fe:a9fe::", why: link},    // 56
		{addr: "64:ff9b:1:5:a9:fea9:fe00:0", why: link}, // 64
		{addr: "64:ff9b:1:5::169.254.169.254", why: link},
		{addr: "64:ff9b:1::10.0.0.1"},
		{addr: "2002:a9fe:a9fe::1", why: link},
		{addr: "2002:7f00:1::1", why: loop},
		{addr: "2002:a00:1::1"},
		{addr: "2001:0:1:2:3:4:5601:5601", why: link}, // Teredo: 169.254.169.254 inverted
		{addr: "2001:db8::5efe:169.254.169.254", why: link},
		{addr: "2001:db8::200:5efe:127.0.0.1", why: loop},

		// Allow.
		{addr: "169.254.169.254", allow: "169.254.169.254/32"},
		{addr: "169.254.169.253", allow: "169.254.169.254/32", why: link},
		{addr: "::ffff:169.254.169.254", allow: "169.254.169.254/32"},
		{addr: "64:ff9b::169.254.169.254", allow: "169.254.169.254/32"},
		{addr: "64:ff9b::169.254.169.254", allow: "64:ff9b::/96"},
		{addr: "fe80::1%eth0", allow: "fe80::/10"},
		{addr: "127.0.0.1", allow: "127.0.0.0/8"},
		{addr: "127.0.0.1", allow: "::1/128", why: loop},
		{addr: "100.100.100.200", allow: "100.64.0.0/10"},
	} {
		t.Run(strings.Trim(c.addr+" "+c.allow, " "), func(t *testing.T) {
			var allow []netip.Prefix
			if c.allow != "" {
				allow = append(allow, netip.MustParsePrefix(c.allow))
			}
			err := outbound.Check(netip.MustParseAddr(c.addr), c.own, allow)
			var refused *outbound.Refused
			switch {
			case c.why == "" && err != nil:
				t.Error(err)
			case c.why != "" && (!errors.As(err, &refused) || !strings.Contains(err.Error(), c.why) || !strings.Contains(err.Error(), "Outbound.Allow")):
				t.Errorf("got %v, want %s", err, c.why)
			}
		})
	}
}
