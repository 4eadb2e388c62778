package podinfo

import (
	"cmp"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// KubernetesMinor is the version that probes, hooks and nodes name: that of the Kubernetes modules in use.
const KubernetesMinor = "1.37"

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

// RequestURL returns the URL of an httpGet probe or hook (spec/probe.md 5.3). ports are those of its container;
// host may be an IPv6 address in brackets.
func RequestURL(get *v1.HTTPGetAction, ports []v1.ContainerPort, host string) (*url.URL, error) {
	number, err := Port(get.Port, ports)
	if err != nil {
		return nil, err
	}
	scheme := RequestScheme(get)
	if scheme != "http" && scheme != "https" {
		return nil, fmt.Errorf("scheme %q is neither HTTP nor HTTPS", get.Scheme)
	}
	address, err := url.Parse(get.Path)
	if err != nil {
		address = &url.URL{Path: get.Path} // used as it is written
	}
	address.Scheme, address.User, address.Opaque = scheme, nil, ""
	address.Host = net.JoinHostPort(strings.Trim(host, "[]"), strconv.Itoa(number))
	if !strings.HasPrefix(address.Path, "/") {
		address.Path, address.RawPath = "/"+address.Path, ""
	}
	return address, nil
}

// RequestScheme returns the scheme of an httpGet probe or hook in lower case.
func RequestScheme(get *v1.HTTPGetAction) string {
	return cmp.Or(strings.ToLower(string(get.Scheme)), "http")
}

// Port resolves a port (spec/probe.md 5.1): a number is used as it is; a name is that of the first of the
// container's ports that has it, and otherwise parsed as a number.
func Port(p intstr.IntOrString, ports []v1.ContainerPort) (int, error) {
	number := int(p.IntVal)
	if p.Type == intstr.String {
		var err error
		if number, err = strconv.Atoi(p.StrVal); err != nil {
			number = 0
		}
		for i := range ports {
			if ports[i].Name == p.StrVal {
				number = int(ports[i].ContainerPort)
				break
			}
		}
		if number == 0 {
			return 0, fmt.Errorf("the container has no port named %q", p.StrVal)
		}
	}
	if number < 1 || number > 65535 {
		return 0, fmt.Errorf("port %d is not in 1-65535", number)
	}
	return number, nil
}
