package outbound

import "net/url"

// SameServer reports whether a redirect leads to the host name and port of the first request
// (spec/probe.md 5.5). The scheme does not count: it says how to talk, not to whom.
func SameServer(next, first *url.URL) bool {
	return next.Hostname() == first.Hostname() && portOf(next) == portOf(first)
}

func portOf(u *url.URL) string {
	switch {
	case u.Port() != "":
		return u.Port()
	case u.Scheme == "https":
		return "443"
	}
	return "80"
}
