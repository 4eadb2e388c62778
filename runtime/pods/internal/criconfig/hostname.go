package criconfig

import (
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
)

const (
	maxHostname = 63
	// maxFQDN is what the kernel takes as a host name.
	maxFQDN = 64
)

// Hostname returns the pod's host name and domain (spec/runtime.md 3.1). The
// sandbox of a pod on the host network ignores both.
func Hostname(pod *v1.Pod, clusterDomain string) (hostname, domain string, err error) {
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
	if f := pod.Spec.SetHostnameAsFQDN; f != nil && *f && domain != "" {
		hostname += "." + domain
		if len(hostname) > maxFQDN {
			return "", "", fmt.Errorf("host name %q is longer than the %d bytes a kernel takes", hostname, maxFQDN)
		}
	}
	return hostname, domain, nil
}

// cut shortens a name to what a host name may be.
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
