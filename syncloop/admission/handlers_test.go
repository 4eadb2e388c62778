package admission_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/podwright/podwright/syncloop/admission"
)

func list(pairs ...string) v1.ResourceList {
	out := v1.ResourceList{}
	for i := 0; i < len(pairs); i += 2 {
		out[v1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
	}
	return out
}

func requests(pairs ...string) func(*v1.Pod) {
	return func(p *v1.Pod) { p.Spec.Containers[0].Resources.Requests = list(pairs...) }
}

func initial(sidecar bool, pairs ...string) func(*v1.Pod) {
	return func(p *v1.Pod) {
		c := v1.Container{Name: "init", Resources: v1.ResourceRequirements{Requests: list(pairs...)}}
		if sidecar {
			always := v1.ContainerRestartPolicyAlways
			c.RestartPolicy = &always
		}
		p.Spec.InitContainers = append(p.Spec.InitContainers, c)
	}
}

func port(protocol v1.Protocol, host, container int32, ip string) func(*v1.Pod) {
	return func(p *v1.Pod) {
		c := &p.Spec.Containers[0]
		c.Ports = append(c.Ports, v1.ContainerPort{Protocol: protocol, HostPort: host, ContainerPort: container, HostIP: ip})
	}
}

func hostNetwork(p *v1.Pod) { p.Spec.HostNetwork = true }

// TestHandlers: AD7, the ready-made handlers.
func TestHandlers(t *testing.T) {
	resources := admission.Resources(func() v1.ResourceList { return list("cpu", "2", "memory", "1Gi", "gpu.example/x", "1") })
	small := pod("small", requests("cpu", "1", "memory", "256Mi"))
	sysctls := func(p *v1.Pod) {
		p.Spec.SecurityContext = &v1.PodSecurityContext{Sysctls: []v1.Sysctl{{Name: "kernel.x"}}}
	}
	node := admission.NodeMatch(admission.Node{Name: "n1", OS: "linux", Arch: "arm64"})
	selects := func(k, v string) func(*v1.Pod) {
		return func(p *v1.Pod) { p.Spec.NodeSelector = map[string]string{k: v} }
	}
	yes, no := func() bool { return true }, func() bool { return false }
	tests := []struct {
		name    string
		handler admission.Handler
		pod     *v1.Pod
		others  []*v1.Pod
		reason  string
		says    string
	}{
		{"fits exactly", resources, pod("a", requests("cpu", "1", "memory", "768Mi")), []*v1.Pod{small}, "", ""},
		{"cpu", resources, pod("a", requests("cpu", "1001m")), []*v1.Pod{small}, "OutOfcpu", "cpu, requested: 1001m, used: 1, capacity: 2"},
		{"memory", resources, pod("a", requests("memory", "800Mi")), []*v1.Pod{small}, "OutOfmemory", "used: 256Mi"},
		{"no requests", resources, pod("a"), []*v1.Pod{small, small, small}, "", ""},
		{"not limited", resources, pod("a", requests("ephemeral-storage", "1Ti")), nil, "", ""},
		{"extended", resources, pod("a", requests("gpu.example/x", "2")), nil, "OutOfgpu.example/x", "capacity: 1"},
		{"extended that the node has not", resources, pod("a", requests("gpu.example/y", "1")), nil, "OutOfgpu.example/y", "capacity: 0"},
		{"init container alone", resources, pod("a", requests("cpu", "1"), initial(false, "cpu", "1500m")), []*v1.Pod{pod("x", requests("cpu", "500m"))}, "", ""},
		{"init container too large", resources, pod("a", requests("cpu", "1"), initial(false, "cpu", "1600m")), []*v1.Pod{pod("x", requests("cpu", "500m"))}, "OutOfcpu", "requested: 1600m"},
		{"sidecar counts always", resources, pod("a", requests("cpu", "1"), initial(true, "cpu", "1500m")), nil, "OutOfcpu", "requested: 2500m"},
		{"overhead", resources, pod("a", requests("cpu", "2"), func(p *v1.Pod) { p.Spec.Overhead = list("cpu", "1m") }), nil, "OutOfcpu", "2001m"},
		{"the pod's own requests", resources, pod("a", requests("cpu", "1"), func(p *v1.Pod) {
			p.Spec.Resources = &v1.ResourceRequirements{Requests: list("cpu", "3")}
		}), nil, "OutOfcpu", "requested: 3"},

		{"count", admission.PodCount(2), pod("a"), []*v1.Pod{small}, "", ""},
		{"count reached", admission.PodCount(1), pod("a"), []*v1.Pod{small}, "OutOfpods", "capacity: 1"},
		{"no count", admission.PodCount(0), pod("a"), []*v1.Pod{small}, "", ""},

		{"port free", admission.HostPorts(), pod("a", port("TCP", 80, 1, "")), []*v1.Pod{pod("x", port("UDP", 80, 1, "")), pod("y", port("TCP", 81, 1, ""))}, "", ""},
		{"port in use", admission.HostPorts(), pod("a", port("", 80, 1, "")), []*v1.Pod{pod("x", port("TCP", 80, 2, ""))}, "NodePorts", "TCP 80 belongs to pod default/x"},
		{"port of another address", admission.HostPorts(), pod("a", port("TCP", 80, 1, "10.0.0.1")), []*v1.Pod{pod("x", port("TCP", 80, 2, "10.0.0.2"))}, "", ""},
		{"port of all addresses", admission.HostPorts(), pod("a", port("TCP", 80, 1, "10.0.0.1")), []*v1.Pod{pod("x", port("TCP", 80, 2, "0.0.0.0"))}, "NodePorts", ""},
		{"port of the same address in IPv6", admission.HostPorts(), pod("a", port("TCP", 80, 1, "10.0.0.1")), []*v1.Pod{pod("x", port("TCP", 80, 2, "::ffff:10.0.0.1"))}, "NodePorts", ""},
		{"port of all addresses in IPv6", admission.HostPorts(), pod("a", port("TCP", 80, 1, "10.0.0.1")), []*v1.Pod{pod("x", port("TCP", 80, 2, "::ffff:0.0.0.0"))}, "NodePorts", ""},
		{"host network", admission.HostPorts(), pod("a", hostNetwork, port("TCP", 0, 9100, "")), []*v1.Pod{pod("x", port("TCP", 9100, 1, ""))}, "NodePorts", ""},
		{"a pod's own network", admission.HostPorts(), pod("a", port("TCP", 0, 9100, "")), []*v1.Pod{pod("x", port("TCP", 9100, 1, ""))}, "", ""},

		{"no sysctls", admission.Sysctls(func(*v1.Pod) error { return errors.New("never asked") }), pod("a"), nil, "", ""},
		{"sysctl allowed", admission.Sysctls(func(*v1.Pod) error { return nil }), pod("a", sysctls), nil, "", ""},
		{"sysctl forbidden", admission.Sysctls(func(*v1.Pod) error { return errors.New("kernel.x is not safe") }), pod("a", sysctls), nil, "SysctlForbidden", "kernel.x is not safe"},

		{"shutdown", admission.Shutdown(yes, nil), pod("a"), nil, "NodeShutdown", "shutting down"},
		{"no shutdown", admission.Shutdown(no, nil), pod("a"), nil, "", ""},
		{"needed until the end", admission.Shutdown(yes, func(p *v1.Pod) bool { return p.Name == "a" }), pod("a"), nil, "", ""},

		{"this node", node, pod("a", func(p *v1.Pod) { p.Spec.NodeName = "n1" }), nil, "", ""},
		{"another node", node, pod("a", func(p *v1.Pod) { p.Spec.NodeName = "n2" }), nil, "NodeName", `"n2"`},
		{"another OS", node, pod("a", func(p *v1.Pod) { p.Spec.OS = &v1.PodOS{Name: v1.Windows} }), nil, "PodOSNotSupported", ""},
		{"another OS selected", node, pod("a", selects(v1.LabelOSStable, "windows")), nil, "PodOSSelectorNodeLabelDoesNotMatch", ""},
		{"another architecture", node, pod("a", selects(v1.LabelArchStable, "amd64")), nil, "NodeAffinity", "amd64"},
		{"this architecture", node, pod("a", selects(v1.LabelArchStable, "arm64")), nil, "", ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			v := test.handler.Admit(admission.Request{Pod: test.pod, Others: slices.Values(test.others)})
			if v.Reason != test.reason || !strings.Contains(v.Message, test.says) {
				t.Errorf("verdict %+v, want reason %q and %q", v, test.reason, test.says)
			}
			if alone := test.handler.Admit(admission.Request{Pod: test.pod}); len(test.others) > 0 && !alone.Admitted() {
				t.Errorf("alone on the node: %+v", alone)
			}
		})
	}
}
