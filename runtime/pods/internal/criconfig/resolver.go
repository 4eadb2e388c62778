package criconfig

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// The resolver files of a node (spec/runtime.md 4.4).
const (
	standardResolver = "/etc/resolv.conf"
	// askedByResolved lists the servers that systemd-resolved asks.
	askedByResolved = "/run/systemd/resolve/resolv.conf"
)

// NodeResolver returns the node's resolver settings from file. Empty means
// /etc/resolv.conf, unless that names only the node's own systemd-resolved, which listens
// where no pod reaches it: then it means the file that lists the servers that
// systemd-resolved asks. read returns the content of a file.
func NodeResolver(file string, read func(path string) ([]byte, error)) (*runtimeapi.DNSConfig, error) {
	named := file
	if named == "" {
		named = standardResolver
	}
	text, err := read(named)
	if err != nil {
		return nil, fmt.Errorf("resolver file: %w", err)
	}
	dns := ParseResolvConf(text)
	if file != "" || !namesResolvedOnly(dns.Servers) {
		return dns, nil
	}
	text, err = read(askedByResolved)
	if errors.Is(err, fs.ErrNotExist) {
		return dns, nil
	}
	if err != nil {
		return nil, fmt.Errorf("resolver file: %w", err)
	}
	if asked := ParseResolvConf(text); len(asked.Servers) > 0 {
		return asked, nil
	}
	return dns, nil
}

// namesResolvedOnly reports whether all servers are addresses at which systemd-resolved
// listens.
func namesResolvedOnly(servers []string) bool {
	return len(servers) > 0 && !slices.ContainsFunc(servers, func(s string) bool { return s != "127.0.0.53" && s != "127.0.0.54" })
}
