package criconfig_test

import (
	"encoding/json"
	"math"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/internal/podinfo"
	"github.com/podwright/podwright/runtime/pods/internal/criconfig"
	"github.com/podwright/podwright/runtime/pods/internal/meta"
)

// fuzzNode is one that has everything.
var fuzzNode = criconfig.Node{
	ClusterDomain: "cluster.local", CPUPeriod: 100000, CPUQuota: true, MemoryCapacity: 1 << 34, MemoryAllocatable: 1 << 33,
	CgroupV2: true, HugePageSizes: []int64{2 << 20, 1 << 30}, SwapController: true, LimitedSwap: true, SwapCapacity: 1 << 32,
	MemoryFactor: 0.9, TieredReservation: true, PageSize: 4096, SeccompDir: "/root/seccomp", CgroupRoot: "/", PodCgroups: true,
	Sysctls: map[string]string{"net.core.somaxconn": "1"},
}

// FuzzConfig feeds pod specs as JSON, which is how every manifest arrives. There
// is a configuration within the bounds of spec/runtime.md 3, 4, 13 and 14 or an
// error with words; nothing panics, and no profile is outside its folder.
func FuzzConfig(f *testing.F) {
	for _, seed := range []string{
		`{"containers":[{"name":"c","resources":{"limits":{"cpu":"1500m","memory":"64Mi","hugepages-2Mi":"4Mi"}}}]}`,
		`{"containers":[{"name":"c","resources":{"requests":{"cpu":"9E","memory":"8E"},"limits":{"memory":"999999999E"}}}]}`,
		`{"resources":{"requests":{"memory":"100E"}},"containers":[{"name":"c","resources":{"requests":{"memory":"99E"}}},{"name":"d"}]}`,
		`{"resources":{"requests":{"memory":"4Gi"},"limits":{"cpu":"1e300"}},"initContainers":[{"name":"s","restartPolicy":"Always","resources":{"requests":{"memory":"1n"}}}],"containers":[{"name":"c"}]}`,
		`{"overhead":{"cpu":"-1","memory":"1e30"},"containers":[{"name":"c","resources":{"requests":{"memory":"-5","cpu":"-1m"}}}]}`,
		`{"securityContext":{"runAsUser":-1,"runAsNonRoot":true,"fsGroup":9223372036854775807,"supplementalGroups":[1,-1],"supplementalGroupsPolicy":"x"},"containers":[{"name":"c"}]}`,
		`{"containers":[{"name":"c","securityContext":{"privileged":true,"allowPrivilegeEscalation":false,"procMount":"x","capabilities":{"add":["",null]}}}]}`,
		`{"containers":[{"name":"c","securityContext":{"seccompProfile":{"type":"Localhost","localhostProfile":"a/../../../etc/shadow"},"appArmorProfile":{"type":"Localhost"}}}]}`,
		`{"containers":[{"name":"c","securityContext":{"seccompProfile":{"type":"Localhost","localhostProfile":"a/b.json"}},"lifecycle":{"stopSignal":"SIGRTMIN+3"}}]}`,
		`{"hostUsers":false,"hostPID":true,"shareProcessNamespace":true,"containers":[{"name":"c"}]}`,
		`{"securityContext":{"sysctls":[{"name":"net/../../etc/passwd","value":"x"},{"name":"a.b","value":""}]},"hostNetwork":true,"containers":[{"name":"c"}]}`,
		`{"hostname":"a","subdomain":"b","setHostnameAsFQDN":true,"hostnameOverride":"x.y","dnsPolicy":"Odd","dnsConfig":{"nameservers":["1","2","3","4"],"options":[{"name":""}]},"containers":[{"name":"c","ports":[{"containerPort":-1,"hostIP":"x"}]}]}`,
		`{"containers":[{"name":"c","command":["$(","$$","$(A)"],"env":[{"name":"A","value":"$(A)"}],"ports":[{"containerPort":80,"protocol":"ICMP"}]}]}`,
		`{"containers":[{"name":"c","resources":{"limits":{"hugepages-x":"1","hugepages-9E":"0","hugepages-1Gi":"100E"}}}]}`,
	} {
		f.Add(seed, int64(0), "", false)
		f.Add(seed, int64(-7), "www", true)
	}
	f.Fuzz(func(t *testing.T, text string, uid int64, username string, own bool) {
		pod := newPod()
		for word := range strings.SplitSeq(text, `"`) { // the sources refuse such quantities unread (D10)
			if !podinfo.ReadableQuantity(word) || strings.Contains(word, `\`) {
				t.Skip("unreadable")
			}
		}
		if json.Unmarshal([]byte(text), &pod.Spec) != nil {
			t.Skip("no pod spec")
		}
		var users *criconfig.IDMapping
		if own {
			users = &criconfig.IDMapping{HostID: 65536, Length: 65536}
		}
		dns := criconfig.DNS(criconfig.DNSInput{Pod: pod, Cluster: []string{"10.0.0.1"}, ClusterDomain: "c.local", Loopback: []string{"127.0.0.1"}})
		sandbox, err := criconfig.Sandbox(criconfig.SandboxInput{Pod: pod, Node: fuzzNode, DNS: dns.Config, UserNamespace: users})
		if err != nil {
			wantWords(t, err)
		} else {
			checkFuzzedSandbox(t, sandbox)
		}
		image := criconfig.ImageUser{Name: username}
		if own {
			image.UID = &uid
		}
		for i := range pod.Spec.Containers {
			c := &pod.Spec.Containers[i]
			environment, err := criconfig.NewEnvironment(criconfig.EnvInput{Pod: pod, Container: c})
			if err != nil {
				wantWords(t, err)
				continue
			}
			config, err := criconfig.Container(criconfig.ContainerInput{
				Described: meta.Described{Pod: pod, Container: c, Kind: meta.App}, Node: fuzzNode,
				Environment: environment, ImageUser: image, UserNamespace: users,
			})
			if err != nil {
				wantWords(t, err)
				continue
			}
			checkFuzzedContainer(t, pod, config)
		}
	})
}

func wantWords(t *testing.T, err error) {
	t.Helper()
	if strings.TrimSpace(err.Error()) == "" {
		t.Error("an error without words")
	}
}

func checkFuzzedSandbox(t *testing.T, config *runtimeapi.PodSandboxConfig) {
	t.Helper()
	if len(config.Hostname) > 64 {
		t.Errorf("3.1: host name %q", config.Hostname)
	}
	if c := config.DnsConfig; len(c.Servers) > 3 || len(c.Searches) > 32 || len(strings.Join(c.Searches, " ")) > 2048 {
		t.Errorf("4.2: %v", c)
	}
	for name := range config.Linux.Sysctls {
		if strings.Contains(name, "..") || name == "" || strings.HasPrefix(name, ".") {
			t.Errorf("3.6: sysctl %q", name)
		}
	}
	for _, p := range config.PortMappings {
		if p.ContainerPort < 1 || p.ContainerPort > 65535 || p.HostPort < 0 || p.HostPort > 65535 {
			t.Errorf("3.2: port %v", p)
		}
	}
	for _, r := range []*runtimeapi.LinuxContainerResources{config.Linux.Resources, config.Linux.Overhead} {
		checkFuzzedResources(t, r)
	}
	for _, g := range config.Linux.SecurityContext.SupplementalGroups {
		if g < 0 || g > math.MaxInt32 {
			t.Errorf("3.5: group %d", g)
		}
	}
	if _, err := proto.Marshal(config); err != nil {
		t.Errorf("cannot be sent: %v", err)
	}
}

func checkFuzzedContainer(t *testing.T, pod *v1.Pod, config *runtimeapi.ContainerConfig) {
	t.Helper()
	r := config.Linux.Resources
	checkFuzzedResources(t, r)
	if r.OomScoreAdj != -997 && r.OomScoreAdj != 1000 && (r.OomScoreAdj < 3 || r.OomScoreAdj > 999) {
		t.Errorf("13.1: oom_score_adj %d", r.OomScoreAdj)
	}
	if len(r.HugepageLimits) != 2 {
		t.Errorf("13: huge pages %v", r.HugepageLimits)
	}
	for key, value := range r.Unified {
		if strings.HasPrefix(value, "-") {
			t.Errorf("13.5, 13.6: %s is %s", key, value)
		}
	}
	sc := config.Linux.SecurityContext
	if ref := sc.Seccomp.GetLocalhostRef(); ref != "" && (!strings.HasPrefix(ref, "/root/seccomp/") || strings.Contains(ref, "..")) {
		t.Errorf("14.5: profile %q", ref)
	}
	psc := pod.Spec.SecurityContext
	if u := sc.RunAsUser; u != nil && (u.Value < 0 || u.Value > math.MaxInt32) {
		t.Errorf("14.2: runs as %d", u.Value)
	}
	if nonRoot := psc != nil && psc.RunAsNonRoot != nil && *psc.RunAsNonRoot; nonRoot && pod.Spec.Containers[0].SecurityContext == nil &&
		len(pod.Spec.Containers) == 1 && sc.RunAsUser.GetValue() == 0 {
		t.Errorf("14.3: runs as root, or as %q", sc.RunAsUsername)
	}
	if _, err := proto.Marshal(config); err != nil {
		t.Errorf("cannot be sent: %v", err)
	}
}

func checkFuzzedResources(t *testing.T, r *runtimeapi.LinuxContainerResources) {
	t.Helper()
	if r.CpuShares < 2 || r.CpuShares > 262144 || r.CpuQuota < 0 || (r.CpuQuota > 0 && r.CpuQuota < 1000) || r.MemoryLimitInBytes < 0 {
		t.Errorf("13: %v", r)
	}
}
