package criconfig

import (
	"fmt"
	"net/netip"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
)

// Downward is what the downward API says about where a pod runs.
type Downward struct {
	// HostIPs and PodIPs, primary first.
	HostIPs, PodIPs []string
	// Allocatable is what the node has for pods.
	Allocatable v1.ResourceList
}

// FieldValue reads a field of the downward API (spec/runtime.md 11.5).
func FieldValue(pod *v1.Pod, path string, down Downward) (string, error) {
	switch path {
	case "metadata.name":
		return pod.Name, nil
	case "metadata.namespace":
		return pod.Namespace, nil
	case "metadata.uid":
		return string(pod.UID), nil
	case "spec.nodeName":
		return pod.Spec.NodeName, nil
	case "spec.serviceAccountName":
		return pod.Spec.ServiceAccountName, nil
	case "status.hostIP":
		return first(down.HostIPs), nil
	case "status.hostIPs":
		return strings.Join(down.HostIPs, ","), nil
	case "status.podIP":
		return first(podIPs(down)), nil
	case "status.podIPs":
		return strings.Join(podIPs(down), ","), nil
	}
	if key, ok := subscript(path, "metadata.labels"); ok {
		return mapValue(pod.Labels, path, key)
	}
	if key, ok := subscript(path, "metadata.annotations"); ok {
		return mapValue(pod.Annotations, path, key)
	}
	return "", fmt.Errorf("fieldRef %q is not a field the downward API has", path)
}

// podIPs returns the pod's addresses, one per family, that of the node's primary
// address first.
func podIPs(down Downward) []string {
	if len(down.PodIPs) < 2 {
		return down.PodIPs
	}
	var same, other string
	six := isIPv6(first(down.HostIPs), isIPv6(down.PodIPs[0], false))
	for _, ip := range down.PodIPs {
		place := &other
		if isIPv6(ip, six) == six {
			place = &same
		}
		if *place == "" {
			*place = ip
		}
	}
	out := make([]string, 0, 2)
	for _, ip := range []string{same, other} {
		if ip != "" {
			out = append(out, ip)
		}
	}
	return out
}

// isIPv6 reports whether an address is IPv6; for text that is not an address it returns unknown.
func isIPv6(ip string, unknown bool) bool {
	a, err := netip.ParseAddr(ip)
	if err != nil {
		return unknown
	}
	return a.Unmap().Is6()
}

func first(list []string) string {
	if len(list) == 0 {
		return ""
	}
	return list[0]
}

// subscript takes key out of name['key'].
func subscript(path, name string) (key string, ok bool) {
	rest, ok := strings.CutPrefix(path, name+"['")
	if !ok {
		return "", false
	}
	return strings.CutSuffix(rest, "']")
}

func mapValue(m map[string]string, path, key string) (string, error) {
	if problems := validation.IsQualifiedName(strings.ToLower(key)); len(problems) > 0 {
		return "", fmt.Errorf("fieldRef %q: %s", path, strings.Join(problems, "; "))
	}
	return m[key], nil
}
