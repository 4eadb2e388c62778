package outbound_test

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/outbound"
)

// names is a name server in which every name has the same IPv4 addresses.
type names struct {
	addresses []string
	serving   sync.WaitGroup
}

func (n *names) resolver(t *testing.T) *net.Resolver {
	t.Cleanup(n.serving.Wait)
	return &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		client, server := net.Pipe()
		n.serving.Go(func() { n.serve(server) })
		return client, nil
	}}
}

// serve answers questions in DNS over TCP until the client closes.
func (n *names) serve(c net.Conn) {
	defer c.Close()
	for {
		var size [2]byte
		if _, err := io.ReadFull(c, size[:]); err != nil {
			return
		}
		query := make([]byte, binary.BigEndian.Uint16(size[:]))
		if _, err := io.ReadFull(c, query); err != nil {
			return
		}
		end := 12
		for query[end] != 0 {
			end += int(query[end]) + 1
		}
		kind := binary.BigEndian.Uint16(query[end+1:])
		answer := append([]byte{}, query[:2]...)
		answer = append(answer, 0x81, 0x80, 0, 1, 0, 0, 0, 0, 0, 0)
		answer = append(answer, query[12:end+5]...)
		if kind == 1 {
			for _, a := range n.addresses {
				answer = append(answer, 0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4)
				answer = append(answer, netip.MustParseAddr(a).AsSlice()...)
			}
			answer[7] = byte(len(n.addresses))
		}
		if _, err := c.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(answer))), answer...)); err != nil {
			return
		}
	}
}

// TestTheDialledAddressDecides is spec/probe.md 11.1: what a name means is judged when it is
// dialled, address by address.
func TestTheDialledAddressDecides(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	for _, c := range []struct {
		name      string
		addresses []string
		call      outbound.Call
		options   outbound.Options
		refused   string // a part of the error, "" if connected
	}{
		{"metadata", []string{"169.254.169.254"}, outbound.Call{HostNetwork: true}, outbound.Options{}, "169.254.169.254 is refused: it is link-local"},
		{"several, none permitted", []string{"169.254.169.254", "127.0.0.1"}, outbound.Call{}, outbound.Options{}, "is refused"},
		{"several, one permitted", []string{"169.254.169.254", "127.0.0.1"}, outbound.Call{HostNetwork: true}, outbound.Options{}, ""},
		{"loopback", []string{"127.0.0.1"}, outbound.Call{}, outbound.Options{}, "loopback"},
		{"loopback, on the node's network", []string{"127.0.0.1"}, outbound.Call{HostNetwork: true}, outbound.Options{}, ""},
		{"loopback, allowed", []string{"127.0.0.1"}, outbound.Call{}, outbound.Options{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}}, ""},
		{"no host", []string{"127.0.0.1"}, outbound.Call{HostNetwork: true}, outbound.Options{NoHost: true}, "Outbound.NoHost"},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := outbound.New(c.options, (&names{addresses: c.addresses}).resolver(t))
			c.call.Host = "meta.example."
			conn, err := d.Dial(t.Context(), c.call, "tcp", net.JoinHostPort(c.call.Host, port))
			if err == nil {
				_ = conn.Close()
			}
			var refused *outbound.Refused
			switch {
			case c.refused == "" && err != nil:
				t.Error(err)
			case c.refused != "" && (!errors.As(err, &refused) || !strings.Contains(err.Error(), c.refused)):
				t.Errorf("got %v, want %q", err, c.refused)
			}
		})
	}
}

// TestOwnDialDecides is spec/probe.md 5.11, 11.7: a dialer that is plugged in judges
// addresses itself, and is not asked for a host that may not be named.
func TestOwnDialDecides(t *testing.T) {
	stop := errors.New("asked")
	o := outbound.Options{NoHost: true, Dial: func(_ context.Context, uid types.UID, _, address string) (net.Conn, error) {
		if uid != "u" || address != "127.0.0.1:1" {
			t.Errorf("asked for %s %s", uid, address)
		}
		return nil, stop
	}}
	d := outbound.New(o, nil)
	if _, err := d.Dial(t.Context(), outbound.Call{UID: "u"}, "tcp", "127.0.0.1:1"); !errors.Is(err, stop) {
		t.Error(err)
	}
	if _, err := d.Dial(t.Context(), outbound.Call{UID: "u", Host: "a"}, "tcp", "a:1"); err == nil || errors.Is(err, stop) {
		t.Error(err)
	}
}

// TestSameServer is spec/probe.md 5.5.
func TestSameServer(t *testing.T) {
	for next, want := range map[string]bool{
		"http://a:80/x":   true,
		"http://a/x":      true,
		"https://a:80/x":  true,
		"https://a/x":     false,
		"http://a:8080/x": false,
		"http://b/x":      false,
		"http://a.b/x":    false,
	} {
		first, _ := url.Parse("http://a:80/")
		to, err := url.Parse(next)
		if err != nil {
			t.Fatal(err)
		}
		if got := outbound.SameServer(to, first); got != want {
			t.Errorf("%s: %v", next, got)
		}
	}
}
