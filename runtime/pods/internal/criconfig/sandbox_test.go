package criconfig_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/utils/ptr"

	"github.com/podwright/podwright/runtime/pods/internal/criconfig"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var node = criconfig.Node{ClusterDomain: "cluster.local", CPUPeriod: 100000, MemoryCapacity: 1000 << 20, CPUQuota: true, SeccompDir: "/root/seccomp"}

func newPod(change ...func(*v1.Pod)) *v1.Pod {
	p := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "ns", UID: "u"},
		Spec:       v1.PodSpec{Containers: []v1.Container{{Name: "c", Image: "i"}}},
	}
	for _, c := range change {
		c(p)
	}
	return p
}

// spec/runtime.md 3.1.
func TestHostnameIsShortenedToTheKernelsLimit(t *testing.T) {
	for _, tc := range []struct {
		name         string
		change       func(*v1.Pod)
		host, domain string
		wantErr      bool
	}{
		{name: "pod name", change: func(*v1.Pod) {}, host: "web"},
		{name: "hostname", change: func(p *v1.Pod) { p.Spec.Hostname = "h" }, host: "h"},
		{name: "hostname is no label", change: func(p *v1.Pod) { p.Spec.Hostname = "a.b" }, wantErr: true},
		{name: "subdomain", change: func(p *v1.Pod) { p.Spec.Subdomain = "s" }, host: "web", domain: "s.ns.svc.cluster.local"},
		{name: "subdomain is no label", change: func(p *v1.Pod) { p.Spec.Subdomain = "S" }, wantErr: true},
		{
			name: "override has no domain", host: "a.b",
			change: func(p *v1.Pod) {
				p.Spec.HostnameOverride = ptr.To("a.b")
				p.Spec.Subdomain = "s"
				p.Spec.Hostname = "h"
			},
		},
		{name: "override is no name", change: func(p *v1.Pod) { p.Spec.HostnameOverride = ptr.To("A_") }, wantErr: true},
		{name: "edge 22: cut and trimmed", change: func(p *v1.Pod) { p.Name = strings.Repeat("a", 62) + "-b" }, host: strings.Repeat("a", 62)},
		{name: "nothing left", change: func(p *v1.Pod) { p.Name = strings.Repeat("-", 64) }, wantErr: true},
		{
			name: "FQDN", host: "web.s.ns.svc.cluster.local", domain: "s.ns.svc.cluster.local",
			change: func(p *v1.Pod) { p.Spec.Subdomain = "s"; p.Spec.SetHostnameAsFQDN = ptr.To(true) },
		},
		{name: "FQDN without domain", change: func(p *v1.Pod) { p.Spec.SetHostnameAsFQDN = ptr.To(true) }, host: "web"},
		{
			name: "edge 22: FQDN of 65 bytes", wantErr: true, change: func(p *v1.Pod) {
				p.Spec.Subdomain = "s"
				p.Spec.SetHostnameAsFQDN = ptr.To(true)
				p.Name = strings.Repeat("a", 65-len(".s.ns.svc.cluster.local"))
			},
		},
	} {
		t.Run("3.1 "+tc.name, func(t *testing.T) {
			host, err := criconfig.Hostname(newPod(tc.change), "cluster.local")
			if (err != nil) != tc.wantErr || host != tc.host {
				t.Errorf("%q, err %v", host, err)
			}
			if err != nil {
				return
			}
			// The hosts file has the short name beside the long one, whatever the kernel has.
			short, domain, err := criconfig.Names(newPod(tc.change), "cluster.local")
			if want := strings.TrimSuffix(tc.host, "."+tc.domain); err != nil || short != want || domain != tc.domain {
				t.Errorf("names %q %q, err %v", short, domain, err)
			}
		})
	}
}

// spec/runtime.md 3.2.
func TestPortMappings(t *testing.T) {
	pod := newPod(func(p *v1.Pod) {
		p.Spec.InitContainers = []v1.Container{
			{Name: "init", Ports: []v1.ContainerPort{{ContainerPort: 1}}},
			{Name: "side", RestartPolicy: ptr.To(v1.ContainerRestartPolicyAlways), Ports: []v1.ContainerPort{{ContainerPort: 2}}},
		}
		p.Spec.Containers[0].Ports = []v1.ContainerPort{
			{Name: "a", ContainerPort: 80, HostPort: 8080, HostIP: "127.0.0.1"},
			{Name: "a", ContainerPort: 81},
			{ContainerPort: 53, Protocol: v1.ProtocolUDP},
			{ContainerPort: 53, Protocol: v1.ProtocolUDP},
			{ContainerPort: 53, Protocol: v1.ProtocolSCTP},
			{ContainerPort: 53, Protocol: "odd"},
		}
	})
	var got []string
	for _, m := range criconfig.PortMappings(pod) {
		got = append(got, fmt.Sprintf("%s:%d:%d/%s", m.HostIp, m.HostPort, m.ContainerPort, m.Protocol))
	}
	want := []string{":0:2/TCP", "127.0.0.1:8080:80/TCP", ":0:53/UDP", ":0:53/SCTP", ":0:53/TCP"}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("3.2 (-want +got):\n%s", d)
	}
}

// spec/runtime.md 3.4, 3.5.
func TestNamespacesFollowThePod(t *testing.T) {
	const n, p, c = runtimeapi.NamespaceMode_NODE, runtimeapi.NamespaceMode_POD, runtimeapi.NamespaceMode_CONTAINER
	for _, tc := range []struct {
		name              string
		change            func(*v1.Pod)
		network, ipc, pid runtimeapi.NamespaceMode
	}{
		{"default, no security context", func(*v1.Pod) {}, p, p, c},
		{"hostNetwork", func(p *v1.Pod) { p.Spec.HostNetwork = true }, n, p, c},
		{"hostIPC", func(p *v1.Pod) { p.Spec.HostIPC = true }, p, n, c},
		{"hostPID", func(p *v1.Pod) { p.Spec.HostPID = true; p.Spec.ShareProcessNamespace = ptr.To(true) }, p, p, n},
		{"shared", func(p *v1.Pod) { p.Spec.ShareProcessNamespace = ptr.To(true) }, p, p, p},
	} {
		t.Run("3.4 "+tc.name, func(t *testing.T) {
			config, err := criconfig.Sandbox(criconfig.SandboxInput{Pod: newPod(tc.change), Node: node})
			if err != nil {
				t.Fatal(err)
			}
			got := config.Linux.SecurityContext.NamespaceOptions
			if got.Network != tc.network || got.Ipc != tc.ipc || got.Pid != tc.pid {
				t.Errorf("got %v", got)
			}
		})
	}
}

func TestSandboxConfigFollowsThePod(t *testing.T) {
	pod := newPod(func(p *v1.Pod) {
		p.Annotations = map[string]string{"a": "b"}
		p.Spec.SecurityContext = &v1.PodSecurityContext{
			RunAsUser: ptr.To[int64](5), FSGroup: ptr.To[int64](7), SupplementalGroups: []int64{8},
			SupplementalGroupsPolicy: ptr.To(v1.SupplementalGroupsPolicyStrict),
			Sysctls:                  []v1.Sysctl{{Name: "net/ipv4/ip_local_port_range", Value: "1"}, {Name: "net.ipv4.conf.eth0/1.x", Value: "2"}, {Name: "net/ipv4/conf/eth1.1/x", Value: "3"}},
		}
		p.Spec.InitContainers = []v1.Container{{Name: "i", SecurityContext: &v1.SecurityContext{Privileged: ptr.To(true)}}}
	})
	config, err := criconfig.Sandbox(criconfig.SandboxInput{Pod: pod, Node: node, Attempt: 3, LogDirectory: "/logs/x"})
	if err != nil {
		t.Fatal(err)
	}
	if m := config.Metadata; m.Name != "web" || m.Namespace != "ns" || m.Uid != "u" || m.Attempt != 3 || config.LogDirectory != "/logs/x" {
		t.Errorf("2.4: %v", config)
	}
	sc := config.Linux.SecurityContext
	if !sc.Privileged || sc.RunAsUser.GetValue() != 5 || sc.SupplementalGroupsPolicy != runtimeapi.SupplementalGroupsPolicy_Strict ||
		sc.Seccomp.ProfileType != runtimeapi.SecurityProfile_RuntimeDefault || fmt.Sprint(sc.SupplementalGroups) != "[7 8]" {
		t.Errorf("3.5: %v", sc)
	}
	want := map[string]string{"net.ipv4.ip_local_port_range": "1", "net.ipv4.conf.eth0/1.x": "2", "net.ipv4.conf.eth1/1.x": "3"}
	if d := cmp.Diff(want, config.Linux.Sysctls); d != "" {
		t.Errorf("3.6 (-want +got):\n%s", d)
	}
	for name, change := range map[string]func(*v1.Pod){
		"3.5 policy": func(p *v1.Pod) {
			p.Spec.SecurityContext.SupplementalGroupsPolicy = ptr.To(v1.SupplementalGroupsPolicy("x"))
		},
		"3.7 hostUsers without a range": func(p *v1.Pod) { p.Spec.HostUsers = ptr.To(false) },
		"3.1 hostname":                  func(p *v1.Pod) { p.Spec.Hostname = "." },
	} {
		bad := pod.DeepCopy()
		change(bad)
		if _, err := criconfig.Sandbox(criconfig.SandboxInput{Pod: bad, Node: node}); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
