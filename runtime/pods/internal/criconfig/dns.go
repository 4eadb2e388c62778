package criconfig

import (
	"bufio"
	"bytes"
	"strings"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Limits of spec/runtime.md 4.2.
const (
	maxServers    = 3
	maxSearches   = 32
	maxSearchText = 2048
	maxSearch     = 253
)

// DNS returns the pod's resolver settings (spec/runtime.md 4). node is the
// node's resolver file, already parsed. There is no cluster DNS: the cluster
// policies read as Default, and missing reports that, so that an event can say
// so. dropped names what the limits cut.
func DNS(pod *v1.Pod, node *runtimeapi.DNSConfig) (out *runtimeapi.DNSConfig, missing bool, dropped []string) {
	out = &runtimeapi.DNSConfig{}
	switch pod.Spec.DNSPolicy {
	case v1.DNSNone:
	case v1.DNSDefault:
		copyDNS(out, node)
	default:
		copyDNS(out, node)
		// Only who asked for it misses it.
		missing = pod.Spec.DNSPolicy == v1.DNSClusterFirstWithHostNet ||
			(pod.Spec.DNSPolicy == v1.DNSClusterFirst && !pod.Spec.HostNetwork)
	}
	if c := pod.Spec.DNSConfig; c != nil {
		out.Servers = union(out.Servers, c.Nameservers)
		out.Searches = union(out.Searches, c.Searches)
		for _, o := range c.Options {
			text := o.Name
			if o.Value != nil && *o.Value != "" {
				text += ":" + *o.Value
			}
			out.Options = setOption(out.Options, text)
		}
	}
	return out, missing, limitDNS(out)
}

func copyDNS(to, from *runtimeapi.DNSConfig) {
	if from == nil {
		return
	}
	to.Servers = append(to.Servers, from.Servers...)
	to.Searches = append(to.Searches, from.Searches...)
	to.Options = append(to.Options, from.Options...)
}

// union appends what is not there yet, in order.
func union(have, more []string) []string {
	seen := make(map[string]bool, len(have)+len(more))
	var out []string
	for _, list := range [][]string{have, more} {
		for _, s := range list {
			if !seen[s] {
				seen[s] = true
				out = append(out, s)
			}
		}
	}
	return out
}

// setOption replaces the option of the same name in place, or appends it.
func setOption(options []string, text string) []string {
	name, _, _ := strings.Cut(text, ":")
	for i, o := range options {
		if n, _, _ := strings.Cut(o, ":"); n == name {
			options[i] = text
			return options
		}
	}
	return append(options, text)
}

// limitDNS cuts what resolvers do not take and returns what went.
func limitDNS(c *runtimeapi.DNSConfig) (dropped []string) {
	if len(c.Servers) > maxServers {
		dropped = append(dropped, c.Servers[maxServers:]...)
		c.Servers = c.Servers[:maxServers]
	}
	var kept []string
	length := 0
	for _, s := range c.Searches {
		if len(s) > maxSearch || len(kept) == maxSearches || length+len(s) > maxSearchText {
			dropped = append(dropped, s)
			continue
		}
		kept = append(kept, s)
		length += len(s) + 1
	}
	c.Searches = kept
	return dropped
}

// ParseResolvConf reads a resolver file (spec/runtime.md 4.3).
func ParseResolvConf(text []byte) *runtimeapi.DNSConfig {
	c := &runtimeapi.DNSConfig{}
	lines := bufio.NewScanner(bytes.NewReader(text))
	lines.Buffer(nil, len(text)+1)
	for lines.Scan() {
		line := strings.TrimSpace(lines.Text())
		if strings.HasPrefix(line, "#") {
			continue
		}
		fields := strings.Fields(line)
		if len(fields) == 0 {
			continue
		}
		switch fields[0] {
		case "nameserver":
			if len(fields) >= 2 {
				c.Servers = append(c.Servers, fields[1])
			}
		case "search":
			c.Searches = nil
			for _, s := range fields[1:] {
				if s = strings.TrimSuffix(s, "."); s != "" {
					c.Searches = append(c.Searches, s)
				}
			}
		case "options":
			for _, o := range fields[1:] {
				c.Options = setOption(c.Options, o)
			}
		}
	}
	return c
}
