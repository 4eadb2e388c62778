package criconfig

import (
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
)

const (
	maxHostname = 63
	// maxFQDN is the longest host name that the kernel takes.
	maxFQDN = 64
)

// Hostname returns the name that the kernel of the pod's sandbox gets (spec/runtime.md 3.1).
// The sandbox of a pod on the host network ignores it.
func Hostname(pod *v1.Pod, clusterDomain string) (string, error) {
	short, domain, err := Names(pod, clusterDomain)
	if f := pod.Spec.SetHostnameAsFQDN; err != nil || f == nil || !*f || domain == "" {
		return short, err
	}
	name := short + "." + domain
	if len(name) > maxFQDN {
		return "", fmt.Errorf("failed to construct FQDN from pod hostname and cluster domain, FQDN %s is too long (%d is the max, %d characters requested)",
			name, maxFQDN, len(name))
	}
	return name, nil
}

// Names returns the pod's short name and its domain, as its hosts file has them.
func Names(pod *v1.Pod, clusterDomain string) (hostname, domain string, err error) {
	if o := pod.Spec.HostnameOverride; o != nil && *o != "" {
		if problems := validation.IsDNS1123Subdomain(*o); len(problems) > 0 {
			return "", "", fmt.Errorf("hostnameOverride %q: %s", *o, strings.Join(problems, "; "))
		}
		if len(*o) > maxFQDN {
			return "", "", fmt.Errorf("hostnameOverride %q is longer than %d bytes", *o, maxFQDN)
		}
		return *o, "", nil
	}
	hostname = pod.Name
	if h := pod.Spec.Hostname; h != "" {
		if problems := validation.IsDNS1123Label(h); len(problems) > 0 {
			return "", "", fmt.Errorf("hostname %q: %s", h, strings.Join(problems, "; "))
		}
		hostname = h
	}
	if hostname, err = cut(hostname); err != nil {
		return "", "", err
	}
	if s := pod.Spec.Subdomain; s != "" {
		if problems := validation.IsDNS1123Label(s); len(problems) > 0 {
			return "", "", fmt.Errorf("subdomain %q: %s", s, strings.Join(problems, "; "))
		}
		domain = s + "." + pod.Namespace + ".svc." + clusterDomain
	}
	return hostname, domain, nil
}

// cut shortens a name to the length that a host name may have.
func cut(name string) (string, error) {
	if len(name) <= maxHostname {
		return name, nil
	}
	short := strings.TrimRight(name[:maxHostname], "-.")
	if short == "" {
		return "", fmt.Errorf("name %q gives no host name", name)
	}
	return short, nil
}
