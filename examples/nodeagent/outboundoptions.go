package main

import (
	"fmt"
	"net/netip"
	"strings"

	"github.com/spf13/pflag"

	"github.com/podwright/podwright/probe"
)

// outboundOptions are the part of the command line about where probes and hooks may connect.
type outboundOptions struct {
	allow  string
	noHost bool

	prefixes []netip.Prefix
}

func (o *outboundOptions) register(flags *pflag.FlagSet) {
	flags.StringVar(&o.allow, "outbound-allow", "", "addresses that probes and hooks may reach although they are link-local, a cloud's metadata service or this node's loopback, such as 169.254.20.10,127.0.0.0/8 (default: none; with --runtime process, loopback)")
	flags.BoolVar(&o.noHost, "outbound-no-host", false, "refuse probes and hooks that name a host: they reach their own pod only")
}

// complete checks the options. Containers of the process runtime share the node's network,
// including its loopback.
func (o *outboundOptions) complete(runtime string) error {
	list := strings.FieldsFunc(o.allow, func(r rune) bool { return r == ',' || r == ' ' })
	if o.allow == "" && runtime == "process" {
		list = []string{"127.0.0.0/8", "::1"}
	}
	for _, text := range list {
		prefix, err := netip.ParsePrefix(text)
		if addr, wrong := netip.ParseAddr(text); wrong == nil {
			prefix, err = netip.PrefixFrom(addr, addr.BitLen()), nil
		}
		if err != nil {
			return fmt.Errorf("--outbound-allow %q: want addresses or prefixes, such as 127.0.0.0/8", text)
		}
		o.prefixes = append(o.prefixes, prefix)
	}
	return nil
}

func (o *outboundOptions) config() probe.Outbound {
	return probe.Outbound{Allow: o.prefixes, NoHost: o.noHost}
}
