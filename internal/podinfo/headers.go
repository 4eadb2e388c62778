package podinfo

import (
	"net/http"
	"strings"

	v1 "k8s.io/api/core/v1"
)

// RequestHeaders returns the headers of an httpGet probe or hook (spec/probe.md 5.3), and the host
// that it names, or "". agent is the user agent of requests whose headers specify none; an empty
// Accept header removes the header. The result belongs to the caller.
func RequestHeaders(given []v1.HTTPHeader, agent string) (headers http.Header, host string) {
	headers = http.Header{}
	for _, h := range given {
		if strings.EqualFold(h.Name, "Host") {
			host = h.Value
			continue
		}
		headers.Add(h.Name, h.Value)
	}
	if _, named := headers["User-Agent"]; !named {
		headers.Set("User-Agent", agent)
	}
	accept, named := headers["Accept"]
	switch {
	case !named:
		headers.Set("Accept", "*/*")
	case len(accept) == 1 && accept[0] == "":
		headers.Del("Accept")
	}
	return headers, host
}
