package pods_test

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/runtime/fake"
	"github.com/podwright/podwright/runtime/pods"
)

// What describes the node is checked before any pod is touched.
func TestNodeOptions(t *testing.T) {
	f := fake.New(fake.Options{})
	for _, tc := range []struct {
		name   string
		change func(*pods.Options)
		want   string // a part of the error; empty: it is fine
	}{
		{"zero", func(*pods.Options) {}, ""},
		{"cluster DNS", func(o *pods.Options) { o.ClusterDNS = []string{"10.0.0.1", "fd00::1"} }, ""},
		{"cluster DNS that is a name", func(o *pods.Options) { o.ClusterDNS = []string{"10.0.0.1", "dns"} }, "ClusterDNS[1]"},
		{"3.3 drivers", func(o *pods.Options) { o.CgroupDriver, o.CgroupRoot = "systemd", "/a/b" }, ""},
		{"3.3 unknown driver", func(o *pods.Options) { o.CgroupDriver = "lxc" }, "CgroupDriver"},
		{"3.3 relative root", func(o *pods.Options) { o.CgroupRoot = "a" }, "CgroupRoot"},
		{"3.3 root outside", func(o *pods.Options) { o.CgroupRoot = "/a/../.." }, "CgroupRoot"},
		{"13 shortest period", func(o *pods.Options) { o.CPUQuotaPeriod = time.Millisecond }, ""},
		{"13 too short a period", func(o *pods.Options) { o.CPUQuotaPeriod = time.Microsecond }, "CPUQuotaPeriod"},
		{"13 too long a period", func(o *pods.Options) { o.CPUQuotaPeriod = 2 * time.Second }, "CPUQuotaPeriod"},
		{"13.5 swap", func(o *pods.Options) { o.LimitedSwap = true }, ""},
		{"13.6 factor", func(o *pods.Options) { o.MemoryQoS.ThrottlingFactor = 1 }, ""},
		{"13.6 negative factor", func(o *pods.Options) { o.MemoryQoS.ThrottlingFactor = -0.1 }, "ThrottlingFactor"},
		{"13.6 factor above 1", func(o *pods.Options) { o.MemoryQoS.ThrottlingFactor = 1.1 }, "ThrottlingFactor"},
		{"13.6 no number", func(o *pods.Options) { o.MemoryQoS.ThrottlingFactor = math.NaN() }, "ThrottlingFactor"},
		{"3.7 the kubelet's range", delegate("kubelet:131072:131072", ""), ""},
		{"3.7 more pods than the range has", delegate("kubelet:131072:131072", "", 3), "3 ranges of 65536 IDs from 131072 on are more than the node or /etc/subuid has"},
		{"3.7 a range that does not begin with a unit", delegate("kubelet:100000:65536", ""), "must be multiples of Length 65536"},
		{"3.7 a range that is too short", delegate("kubelet:65536:1000", ""), "must be multiples of Length 65536"},
		{"3.7 a range of the node's own IDs", delegate("kubelet:0:131072", ""), "must be multiples of Length 65536"},
		{"3.7 two ranges of the kubelet", delegate("kubelet:131072:65536\nkubelet:65536:65536", ""), "more than one range"},
		{"3.7 another user's range does not matter", delegate("kubelet:1:1", "agent"), ""},
		{"3.7 an explicit range needs no files", func(o *pods.Options) { delegate("kubelet:1:1", "")(o); o.UserNamespaces.First = 65536 }, ""},
		{"3.7 two units", func(o *pods.Options) { o.UserNamespaces.Length = 131072 }, ""},
		{"3.7 odd length", func(o *pods.Options) { o.UserNamespaces.Length = 1000 }, "Length"},
		{"3.7 odd begin", func(o *pods.Options) { o.UserNamespaces.First = 65537 }, "First"},
		{"3.7 the node's own IDs", func(o *pods.Options) { o.UserNamespaces = pods.UserNamespaces{Length: 131072, First: 65536} }, "First"},
		{"3.7 as many as there are", func(o *pods.Options) { o.UserNamespaces.Pods = 65534 }, ""},
		{"3.7 more than there are", func(o *pods.Options) { o.UserNamespaces.Pods = 65535 }, "UserNamespaces"},
		{"3.7 none left", func(o *pods.Options) { o.UserNamespaces.First = 4294901760 }, "UserNamespaces"},
		{"3.7 few left", func(o *pods.Options) { o.UserNamespaces.First = 4294901760 - 65536 }, ""},
		{"3.7 negative", func(o *pods.Options) { o.UserNamespaces.Pods = -1 }, "Pods"},
	} {
		o := pods.Options{RootDir: t.TempDir()}
		tc.change(&o)
		_, err := pods.New(f, f, o)
		if ok := tc.want == ""; (err == nil) != ok || !ok && !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v", tc.name, err)
		}
	}
}

// The machine under the tests has memory, and its sizes are sane.
func TestExamineMachine(t *testing.T) {
	m := pods.ExamineMachine()
	if m.MemoryCapacity < 1<<20 || m.SwapCapacity < 0 || m.PageSize < 1024 || m.PageSize&(m.PageSize-1) != 0 {
		t.Errorf("%+v", m)
	}
	for _, size := range m.HugePageSizes {
		if size <= m.PageSize || size&(size-1) != 0 {
			t.Errorf("13: huge pages of %d bytes", size)
		}
	}
	for _, path := range m.MaskedPaths {
		if _, err := os.Stat(path); err != nil {
			t.Errorf("14.7: %v", err)
		}
	}
}

// spec/runtime.md 4.3: a resolver file that is missing or absurd keeps pods with
// policy Default waiting, and only those.
func TestResolverFile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "resolv.conf")
		w := newWorld(t, nil, func(o *pods.Options) { o.ResolvConf = file })
		pod := newPod(func(p *v1.Pod) { p.Spec.DNSPolicy = v1.DNSDefault })
		for _, state := range []struct {
			name    string
			content []byte
		}{{"missing", nil}, {"over 10 MiB", make([]byte, 10<<20+1)}} {
			if state.content != nil {
				if err := os.WriteFile(file, state.content, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if r := w.sync(pod); r.Err == nil || w.lastSandbox() != nil || !strings.Contains(r.Err.Error(), "resolver file") {
				t.Errorf("4.3 %s: %v", state.name, r.Err)
			}
		}
		w.syncAll(newPod(func(p *v1.Pod) { p.UID, p.Name = "uid-2", "none" }))
		if w.lastSandbox() == nil {
			t.Error("4.3: a pod without need of the file waits too")
		}
		if err := os.WriteFile(file, []byte("nameserver 192.0.2.1\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		w.syncAll(pod)
		if got := w.lastSandbox().Config.DnsConfig.Servers; len(got) != 1 || got[0] != "192.0.2.1" {
			t.Errorf("4.3: not retried: %v", got)
		}
	})
}

// spec/runtime.md 4: MissingClusterDNS and DNSConfigForming come once per sandbox,
// not with every container start.
func TestDNSEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, func(fake.Launch) fake.Script { return fake.Script{Exit: &fake.Exit{After: second}} })
		pod := newPod(func(p *v1.Pod) {
			p.Spec.DNSPolicy = v1.DNSClusterFirstWithHostNet
			p.Spec.DNSConfig = &v1.PodDNSConfig{Nameservers: []string{"192.0.2.1", "192.0.2.2", "192.0.2.3", "192.0.2.4"}}
		})
		count := func() (missing, forming int) {
			for _, e := range w.events.list() {
				if strings.Contains(e, "MissingClusterDNS") {
					missing++
				}
				if strings.Contains(e, "DNSConfigForming") {
					forming++
				}
			}
			return missing, forming
		}
		for range 3 {
			w.syncAll(pod)
			pass(20 * second)
		}
		if missing, forming := count(); missing != 1 || forming != 1 {
			t.Errorf("4, 4.2: %d and %d events", missing, forming)
		}
	})
}

// The functions for admission (spec/runtime.md 3.6, spec/syncloop.md AD7).
func ExampleCheckSysctls() {
	pod := &v1.Pod{}
	pod.Spec.SecurityContext = &v1.PodSecurityContext{Sysctls: []v1.Sysctl{
		{Name: "net.ipv4.tcp_syncookies", Value: "1"},
		{Name: "net.core.somaxconn", Value: "1024"},
	}}
	fmt.Println(pods.CheckSysctls(pod, nil, "6.1.0-13-amd64"))
	fmt.Println(pods.CheckSysctls(pod, []string{"net.core.*"}, "6.1.0-13-amd64"))
	// Output:
	// sysctl "net.core.somaxconn" is not allowed on this node
	// <nil>
}

// delegate has the node's files give a user a range.
func delegate(line, user string, ranges ...int) func(*pods.Options) {
	return func(o *pods.Options) {
		machine := pods.Machine{}
		if o.Machine != nil {
			machine = *o.Machine
		}
		machine.SubUIDs, machine.SubGIDs = line, line
		o.Machine, o.UserNamespaces.User = &machine, user
		for _, n := range ranges {
			o.UserNamespaces.Pods = n
		}
	}
}
