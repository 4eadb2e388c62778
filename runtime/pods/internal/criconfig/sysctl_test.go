package criconfig_test

import (
	"maps"
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/podwright/podwright/runtime/pods/internal/criconfig"
)

// spec/runtime.md 3.6.
func TestSafeSysctls(t *testing.T) {
	for _, tc := range []struct {
		kernel string
		count  int
		newest string
	}{
		{"3.10.0-1160.el7.x86_64", 5, "net.ipv4.ip_unprivileged_port_start"},
		{"3.16.0", 6, "net.ipv4.ip_local_reserved_ports"},
		{"4.5.1", 9, "net.ipv4.tcp_keepalive_probes"},
		{"4.6", 10, "net.ipv4.tcp_fin_timeout"},
		{"4.14.0", 10, "net.ipv4.tcp_fin_timeout"},
		{"4.15.0-20-generic", 12, "net.ipv4.tcp_wmem"},
		{"6.1.0-rc1", 12, "net.ipv4.tcp_wmem"},
		{"10.0.0", 12, "net.ipv4.tcp_wmem"},
		{"what", 5, "net.ipv4.ip_unprivileged_port_start"},
		{"", 5, "net.ipv4.ip_unprivileged_port_start"},
	} {
		got := criconfig.SafeSysctls(tc.kernel)
		if len(got) != tc.count || got[len(got)-1] != tc.newest {
			t.Errorf("3.6: kernel %q: %v", tc.kernel, got)
		}
	}
	if !slices.Contains(criconfig.SafeSysctls(""), "kernel.shm_rmid_forced") {
		t.Error("3.6: kernel.shm_rmid_forced is safe everywhere")
	}
}

// spec/runtime.md 3.6: what admission asks.
func TestCheckSysctls(t *testing.T) {
	for _, tc := range []struct {
		name    string
		sysctl  string
		allowed []string
		change  func(*v1.Pod)
		ok      bool
	}{
		{name: "safe", sysctl: "net.ipv4.tcp_syncookies", ok: true},
		{name: "safe with slashes", sysctl: "net/ipv4/tcp_syncookies", ok: true},
		{name: "unsafe", sysctl: "net.core.somaxconn"},
		{name: "allowed by name", sysctl: "net.core.somaxconn", allowed: []string{"net.core.somaxconn"}, ok: true},
		{name: "allowed by slashed name", sysctl: "net.core.somaxconn", allowed: []string{"net/core/somaxconn"}, ok: true},
		{name: "allowed by prefix", sysctl: "kernel.msgmax", allowed: []string{"kernel.msg*"}, ok: true},
		{name: "another prefix", sysctl: "kernel.sem", allowed: []string{"kernel.msg*"}},
		{name: "no namespace isolates it", sysctl: "vm.swappiness", allowed: []string{"vm.*"}},
		{name: "host network", sysctl: "net.ipv4.tcp_syncookies", change: func(p *v1.Pod) { p.Spec.HostNetwork = true }},
		{name: "host IPC", sysctl: "kernel.shm_rmid_forced", change: func(p *v1.Pod) { p.Spec.HostIPC = true }},
		{name: "user namespace", sysctl: "user.max_net_namespaces", allowed: []string{"user.*"}, change: func(p *v1.Pod) { p.Spec.HostUsers = ptr.To(false) }, ok: true},
		{name: "node's user namespace", sysctl: "user.max_net_namespaces", allowed: []string{"user.*"}},
	} {
		t.Run("3.6 "+tc.name, func(t *testing.T) {
			pod := newPod(func(p *v1.Pod) {
				p.Spec.SecurityContext = &v1.PodSecurityContext{Sysctls: []v1.Sysctl{{Name: tc.sysctl, Value: "1"}}}
			})
			if tc.change != nil {
				tc.change(pod)
			}
			if err := criconfig.CheckSysctls(pod, tc.allowed, "6.1.0"); (err == nil) != tc.ok {
				t.Errorf("got %v", err)
			}
		})
	}
	if err := criconfig.CheckSysctls(newPod(), nil, "6.1.0"); err != nil {
		t.Errorf("3.6: no sysctls: %v", err)
	}
}

// spec/runtime.md 3.6 [1.37]: the node's defaults lie under the pod's values and
// hold only where the pod owns the namespace.
func TestDefaultSysctls(t *testing.T) {
	defaults := map[string]string{
		"net/core/somaxconn": "1", "kernel.shmmax": "2", "kernel.msgmni": "3", "kernel.sem": "4", "fs.mqueue.msg_max": "5",
		"kernel.domainname": "6", "user.max_pid_namespaces": "7", "vm.swappiness": "8",
	}
	for _, tc := range []struct {
		name   string
		change func(*v1.Pod)
		want   []string
	}{
		{"all its own", func(p *v1.Pod) { p.Spec.HostUsers = ptr.To(false) }, []string{"fs.mqueue.msg_max", "kernel.domainname", "kernel.msgmni", "kernel.sem", "kernel.shmmax", "net.core.somaxconn", "user.max_pid_namespaces"}},
		{"node's users", func(*v1.Pod) {}, []string{"fs.mqueue.msg_max", "kernel.domainname", "kernel.msgmni", "kernel.sem", "kernel.shmmax", "net.core.somaxconn"}},
		{"host network", func(p *v1.Pod) { p.Spec.HostNetwork = true }, []string{"fs.mqueue.msg_max", "kernel.msgmni", "kernel.sem", "kernel.shmmax"}},
		{"host IPC", func(p *v1.Pod) { p.Spec.HostIPC = true }, []string{"kernel.domainname", "net.core.somaxconn"}},
		{"neither", func(p *v1.Pod) { p.Spec.HostIPC, p.Spec.HostNetwork = true, true }, nil},
	} {
		n := node
		n.Sysctls = defaults
		config, err := criconfig.Sandbox(criconfig.SandboxInput{Pod: newPod(tc.change), Node: n, UserNamespace: &criconfig.IDMapping{HostID: 65536, Length: 65536}})
		if err != nil {
			t.Fatal(err)
		}
		if got := slices.Sorted(maps.Keys(config.Linux.Sysctls)); !slices.Equal(got, tc.want) {
			t.Errorf("3.6 %s: %v, want %v", tc.name, got, tc.want)
		}
	}
	pod := newPod(func(p *v1.Pod) {
		p.Spec.SecurityContext = &v1.PodSecurityContext{Sysctls: []v1.Sysctl{{Name: "net.core.somaxconn", Value: "own"}}}
	})
	n := node
	n.Sysctls = defaults
	config, err := criconfig.Sandbox(criconfig.SandboxInput{Pod: pod, Node: n})
	if err != nil || config.Linux.Sysctls["net.core.somaxconn"] != "own" {
		t.Errorf("3.6: the pod's value is %v, err %v", config.GetLinux().GetSysctls(), err)
	}
}

// Names are checked before a runtime makes paths of them.
func TestSysctlNames(t *testing.T) {
	for name, ok := range map[string]bool{
		"net.ipv4.tcp_rmem": true, "net/ipv4/conf/eth0.1/x": true, "kernel.sem": true,
		"": false, "..": false, "net/../../x": false, ".net": false, "net.": false, "a b": false, "a\x00": false, "net..x": false,
	} {
		pod := newPod(func(p *v1.Pod) {
			p.Spec.SecurityContext = &v1.PodSecurityContext{Sysctls: []v1.Sysctl{{Name: name, Value: "1"}}}
		})
		if _, err := criconfig.Sandbox(criconfig.SandboxInput{Pod: pod, Node: node}); (err == nil) != ok {
			t.Errorf("3.6: %q: %v", name, err)
		}
	}
}
