package node

import (
	"fmt"
	"net/netip"

	"k8s.io/apimachinery/pkg/util/validation"
)

// Description is what a configuration says about a node and its cluster.
type Description struct {
	Name            string
	IPs, ClusterDNS []string
	ClusterDomain   string
}

// Check returns everything that is wrong with it, using the field names of Config.Node.
func (d Description) Check() (problems []error) {
	for _, msg := range validation.IsDNS1123Subdomain(d.Name) {
		problems = append(problems, fmt.Errorf("Node.Name %q: %s", d.Name, msg))
	}
	for _, list := range []struct {
		field string
		ips   []string
	}{{"IPs", d.IPs}, {"ClusterDNS", d.ClusterDNS}} {
		for i, ip := range list.ips {
			if _, err := netip.ParseAddr(ip); err != nil {
				problems = append(problems, fmt.Errorf("%s[%d]: %w", "Node."+list.field, i, err))
			}
		}
	}
	if d.ClusterDomain != "" {
		for _, msg := range validation.IsDNS1123Subdomain(d.ClusterDomain) {
			problems = append(problems, fmt.Errorf("Node.ClusterDomain %q: %s", d.ClusterDomain, msg))
		}
	}
	return problems
}
