package criconfig

import (
	"fmt"
	"net/netip"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/internal/restartpolicy"
)

const maxPort = 65535

// PortMappings returns the ports of app containers and sidecars
// (spec/runtime.md 3.2).
func PortMappings(pod *v1.Pod) []*runtimeapi.PortMapping {
	var out []*runtimeapi.PortMapping
	for i := range pod.Spec.InitContainers {
		if c := &pod.Spec.InitContainers[i]; restartpolicy.IsSidecar(c) {
			out = appendPorts(out, c)
		}
	}
	for i := range pod.Spec.Containers {
		out = appendPorts(out, &pod.Spec.Containers[i])
	}
	return out
}

// checkPorts refuses ports that no runtime could map.
func checkPorts(pod *v1.Pod) error {
	for _, list := range [][]v1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			for _, p := range list[i].Ports {
				if p.ContainerPort < 1 || p.ContainerPort > maxPort || p.HostPort < 0 || p.HostPort > maxPort {
					return fmt.Errorf("container %s: port %d on host port %d: ports are numbers from 1 to %d",
						list[i].Name, p.ContainerPort, p.HostPort, maxPort)
				}
				if _, err := netip.ParseAddr(p.HostIP); p.HostIP != "" && err != nil {
					return fmt.Errorf("container %s: hostIP %q is not an IP address", list[i].Name, p.HostIP)
				}
			}
		}
	}
	return nil
}

// appendPorts drops duplicates within one container.
func appendPorts(out []*runtimeapi.PortMapping, c *v1.Container) []*runtimeapi.PortMapping {
	seen := make(map[string]bool, len(c.Ports))
	for _, p := range c.Ports {
		key := portIdentity(p)
		if seen[key] {
			continue
		}
		seen[key] = true
		out = append(out, &runtimeapi.PortMapping{
			HostIp:        p.HostIP,
			HostPort:      p.HostPort,
			ContainerPort: p.ContainerPort,
			Protocol:      protocol(p.Protocol),
		})
	}
	return out
}

func portIdentity(p v1.ContainerPort) string {
	if p.Name != "" {
		return "name:" + p.Name
	}
	family := "any"
	if a, err := netip.ParseAddr(p.HostIP); err == nil {
		family = "v6"
		if a.Is4() {
			family = "v4"
		}
	}
	return fmt.Sprintf("%s/%s/%s/%d/%d", family, p.Protocol, p.HostIP, p.ContainerPort, p.HostPort)
}

func protocol(p v1.Protocol) runtimeapi.Protocol {
	switch p {
	case v1.ProtocolUDP:
		return runtimeapi.Protocol_UDP
	case v1.ProtocolSCTP:
		return runtimeapi.Protocol_SCTP
	}
	return runtimeapi.Protocol_TCP
}
