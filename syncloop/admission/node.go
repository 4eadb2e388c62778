package admission

import (
	"cmp"
	"net/netip"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/internal/restartpolicy"
)

// Reasons of the handlers about the node.
const (
	reasonHostPorts = "NodePorts"
	reasonSysctl    = "SysctlForbidden"
	ReasonShutdown  = "NodeShutdown"
	// ReasonUnexpected is the reason if a handler gives no verdict, or if the node lacks an ability ([Able]).
	ReasonUnexpected = "UnexpectedAdmissionError"
	reasonNodeName   = "NodeName"
)

// HostPorts refuses a pod that wants a port of the node that an active pod has. Two ports
// collide if protocol and number are the same and one address includes the other.
func HostPorts() Handler {
	return HandlerFunc(func(r Request) Verdict {
		wanted := hostPorts(r.Pod)
		if len(wanted) == 0 {
			return Verdict{}
		}
		for p := range r.others() {
			for _, has := range hostPorts(p) {
				for _, want := range wanted {
					if want.collides(has) {
						return Refuse(reasonHostPorts, "Node didn't have free ports for the requested pod ports: %s %d belongs to pod %s/%s",
							want.protocol, want.port, p.Namespace, p.Name)
					}
				}
			}
		}
		return Verdict{}
	})
}

// hostPort is a port of the node that a pod has.
type hostPort struct {
	protocol v1.Protocol
	port     int32
	address  netip.Addr // the zero value means all addresses
}

func (p hostPort) collides(q hostPort) bool {
	return p.protocol == q.protocol && p.port == q.port &&
		(p.address == q.address || !p.address.IsValid() || !q.address.IsValid())
}

// hostPorts returns the ports of the node that the pod's containers have: their
// host ports, and on the host network also their other ports.
func hostPorts(pod *v1.Pod) []hostPort {
	var out []hostPort
	note := func(c *v1.Container) {
		for _, p := range c.Ports {
			port := p.HostPort
			if port == 0 && pod.Spec.HostNetwork {
				port = p.ContainerPort
			}
			if port == 0 {
				continue
			}
			x := hostPort{protocol: cmp.Or(p.Protocol, v1.ProtocolTCP), port: port}
			if a, err := netip.ParseAddr(p.HostIP); err == nil && !a.Unmap().IsUnspecified() {
				x.address = a.Unmap() // the kernel binds the mapped form to the same address
			}
			out = append(out, x)
		}
	}
	for i := range pod.Spec.Containers {
		note(&pod.Spec.Containers[i])
	}
	for i := range pod.Spec.InitContainers {
		// Other init containers end before the containers above start.
		if c := &pod.Spec.InitContainers[i]; restartpolicy.IsSidecar(c) {
			note(c)
		}
	}
	return out
}

// Sysctls refuses a pod that sets kernel parameters which check does not allow; the
// error of check says which.
func Sysctls(check func(pod *v1.Pod) error) Handler {
	return HandlerFunc(func(r Request) Verdict {
		if r.Pod.Spec.SecurityContext == nil || len(r.Pod.Spec.SecurityContext.Sysctls) == 0 {
			return Verdict{}
		}
		if err := check(r.Pod); err != nil {
			return Refuse(reasonSysctl, "%v", err)
		}
		return Verdict{}
	})
}

// Shutdown refuses every pod while down reports that the node is about to stop. It
// still admits pods for which except is true, such as those the node needs until its
// end; nil means none. Neither function may block.
func Shutdown(down func() bool, except func(pod *v1.Pod) bool) Handler {
	return HandlerFunc(func(r Request) Verdict {
		if !down() || except != nil && except(r.Pod) {
			return Verdict{}
		}
		return Refuse(ReasonShutdown, "the node is shutting down")
	})
}
