package poddir

import (
	"bytes"
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"
)

const (
	hostsHeader     = "# Kubernetes-managed hosts file.\n"
	hostsHeaderHost = "# Kubernetes-managed hosts file (host network).\n"
	aliasesHeader   = "\n# Entries added by HostAliases.\n"

	localHosts = "127.0.0.1\tlocalhost\n" +
		"::1\tlocalhost ip6-localhost ip6-loopback\n" +
		"fe00::0\tip6-localnet\n" +
		"fe00::0\tip6-mcastprefix\n" +
		"fe00::1\tip6-allnodes\n" +
		"fe00::2\tip6-allrouters\n"
)

// Hosts returns the content of a pod's hosts file on the pod network
// (spec/runtime.md 12.4).
func Hosts(ips []string, hostname, domain string, aliases []v1.HostAlias) []byte {
	var b bytes.Buffer
	b.WriteString(hostsHeader)
	b.WriteString(localHosts)
	for _, ip := range ips {
		if domain != "" {
			fmt.Fprintf(&b, "%s\t%s.%s\t%s\n", ip, hostname, domain, hostname)
		} else {
			fmt.Fprintf(&b, "%s\t%s\n", ip, hostname)
		}
	}
	writeAliases(&b, aliases)
	return b.Bytes()
}

// HostNetworkHosts is Hosts for a pod on the host network, made from the node's file.
func HostNetworkHosts(node []byte, aliases []v1.HostAlias) []byte {
	var b bytes.Buffer
	b.WriteString(hostsHeaderHost)
	b.Write(node)
	writeAliases(&b, aliases)
	return b.Bytes()
}

func writeAliases(b *bytes.Buffer, aliases []v1.HostAlias) {
	if len(aliases) == 0 {
		return
	}
	b.WriteString(aliasesHeader)
	for _, a := range aliases {
		fmt.Fprintf(b, "%s\t%s\n", a.IP, strings.Join(a.Hostnames, "\t"))
	}
}
