package criconfig

import (
	"bufio"
	"bytes"
	"slices"
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

// DNSInput is what a pod's resolver settings are made of.
type DNSInput struct {
	Pod *v1.Pod
	// Node is the node's resolver file, parsed. Nil: it has none.
	Node *runtimeapi.DNSConfig
	// Loopback takes the place of a file that is missing.
	Loopback []string
	// Cluster has the cluster's servers, ClusterDomain its domain.
	Cluster       []string
	ClusterDomain string
}

// DNSResult is the settings and what was dropped.
type DNSResult struct {
	Config *runtimeapi.DNSConfig
	// MissingCluster: the pod asked for cluster DNS and there is none.
	MissingCluster bool
	// UnknownPolicy: the policy is unknown and was read as ClusterFirst.
	UnknownPolicy bool
	// Exceeded says, per limit that was hit, what was applied.
	Exceeded []string
}

// DNS returns the pod's resolver settings (spec/runtime.md 4).
func DNS(in DNSInput) DNSResult {
	out := DNSResult{Config: &runtimeapi.DNSConfig{}}
	c := out.Config
	cluster := false
	switch in.Pod.Spec.DNSPolicy {
	case v1.DNSNone:
	case v1.DNSDefault:
		nodeDNS(c, in)
	case v1.DNSClusterFirst, "":
		if in.Pod.Spec.HostNetwork {
			nodeDNS(c, in)
		} else {
			cluster = true
		}
	case v1.DNSClusterFirstWithHostNet:
		cluster = true
	default:
		out.UnknownPolicy, cluster = true, true
	}
	switch {
	case cluster && len(in.Cluster) > 0:
		clusterDNS(c, in)
	case cluster:
		nodeDNS(c, in)
		// A pod without a policy has not asked for it.
		out.MissingCluster = in.Pod.Spec.DNSPolicy != ""
	}
	if d := in.Pod.Spec.DNSConfig; d != nil {
		c.Servers = union(c.Servers, d.Nameservers)
		c.Searches = union(c.Searches, d.Searches)
		for _, o := range d.Options {
			text := o.Name
			if o.Value != nil && *o.Value != "" {
				text += ":" + *o.Value
			}
			c.Options = setOption(c.Options, text)
		}
	}
	out.Exceeded = limitDNS(c)
	return out
}

// nodeDNS takes the node's settings.
func nodeDNS(c *runtimeapi.DNSConfig, in DNSInput) {
	if in.Node == nil {
		c.Servers, c.Searches = slices.Clone(in.Loopback), []string{"."}
		return
	}
	copyDNS(c, in.Node)
}

// clusterDNS asks the cluster's servers only; short names are the cluster's
// first, then the node's.
func clusterDNS(c *runtimeapi.DNSConfig, in DNSInput) {
	services := "svc." + in.ClusterDomain
	c.Servers = slices.Clone(in.Cluster)
	c.Searches = []string{in.Pod.Namespace + "." + services, services, in.ClusterDomain}
	if in.Node != nil {
		c.Searches = union(c.Searches, in.Node.Searches)
	}
	c.Options = []string{"ndots:5"}
}

func copyDNS(to, from *runtimeapi.DNSConfig) {
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

// limitDNS cuts from the end what exceeds the limits of resolvers, and says what is left.
func limitDNS(c *runtimeapi.DNSConfig) (exceeded []string) {
	if len(c.Servers) > maxServers {
		c.Servers = c.Servers[:maxServers]
		exceeded = append(exceeded, "nameserver limits were exceeded, some have been omitted, the applied nameserver line is: "+
			strings.Join(c.Servers, " "))
	}
	kept := make([]string, 0, min(len(c.Searches), maxSearches))
	length, cut := 0, false
	for _, s := range c.Searches {
		if len(s) > maxSearch {
			cut = true
			continue
		}
		if length += len(s); len(kept) == maxSearches || length > maxSearchText {
			cut = true
			break
		}
		length++ // the space before the next
		kept = append(kept, s)
	}
	c.Searches = kept
	if cut {
		exceeded = append(exceeded, "search line limits were exceeded, some paths have been omitted, the applied search line is: "+
			strings.Join(kept, " "))
	}
	return exceeded
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
