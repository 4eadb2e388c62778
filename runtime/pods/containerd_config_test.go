//go:build containerd

package pods_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/podwright/podwright/internal/containerdtest"
	"github.com/podwright/podwright/runtime"
	"github.com/podwright/podwright/runtime/pods"
)

// inside is what a container is told to report: a name and the command whose
// output is the value.
type inside struct{ name, command, want string }

// reporting is a container that writes what its commands print into
// /host/<its name>, and stays.
func (r *real) reporting(name string, facts []inside) v1.Container {
	var script strings.Builder
	script.WriteString("{ ")
	for _, f := range facts {
		script.WriteString("echo \"" + f.name + "=$(" + f.command + " 2>/dev/null)\"; ")
	}
	script.WriteString("} > /host/" + name + ".tmp; mv /host/" + name + ".tmp /host/" + name + "; trap 'exit 0' TERM; while :; do sleep 0.1; done")
	c := r.container(name, script.String())
	c.VolumeMounts = []v1.VolumeMount{{Name: "host", MountPath: "/host"}}
	return c
}

// reports runs the pod until its containers have reported, compares, and calls each function
// before it stops the pod.
func (r *real) reports(pod *v1.Pod, want map[string][]inside, running ...func(*runtime.PodStatus)) {
	r.t.Helper()
	host := r.t.TempDir()
	if err := os.Chmod(host, 0o777); err != nil {
		r.t.Fatal(err)
	}
	pod.Namespace, pod.UID = "default", types.UID(pod.Name+"-1")
	pod.Spec.RestartPolicy, pod.Spec.TerminationGracePeriodSeconds = v1.RestartPolicyNever, ptr.To[int64](2)
	pod.Spec.Volumes = append(pod.Spec.Volumes, v1.Volume{
		Name: "host", VolumeSource: v1.VolumeSource{HostPath: &v1.HostPathVolumeSource{Path: host}},
	})
	read := func(name string) string {
		text, _ := os.ReadFile(filepath.Join(host, name))
		return string(text)
	}
	status := r.until(pod, "all containers have reported", func(*runtime.PodStatus) bool {
		for name := range want {
			if read(name) == "" {
				return false
			}
		}
		return true
	})
	for name, facts := range want {
		var text strings.Builder
		for _, f := range facts {
			text.WriteString(f.name + "=" + f.want + "\n")
		}
		if got := read(name); got != text.String() {
			r.t.Errorf("container %s of pod %s sees\n%s\nwant\n%s", name, pod.Name, got, text.String())
		}
	}
	for _, look := range running {
		look(status)
	}
	if err := r.m.KillPod(r.t.Context(), pod, status, nil); err != nil {
		r.t.Error(err)
	}
}

// withOptions makes the manager again.
func (r *real) withOptions(change func(*pods.Options)) {
	r.t.Helper()
	change(&r.opts)
	m, err := pods.New(r.client, r.client, r.opts)
	if err != nil {
		r.t.Fatal(err)
	}
	r.m = m
}

// spec/runtime.md 13, 13.1, 14.1, 14.2, 14.4, 14.5, 14.8: users, capabilities,
// read-only root, seccomp and resources as a process sees them.
func TestContainerdSecurityAndResources(t *testing.T) {
	r := newReal(t)
	r.withOptions(func(o *pods.Options) { o.MemoryCapacity = 1 << 30 })
	locked := []inside{
		{"user", "id -u", "1234"},
		{"group", "id -g", "4321"},
		{"groups", "id -G", "4321 2000 3000"},
		{"bounding", "awk '/CapBnd/{print $2}' /proc/self/status", "0000000000000400"},
		{"no new privileges", "awk '/NoNewPrivs/{print $2}' /proc/self/status", "1"},
		{"seccomp", "awk '/^Seccomp:/{print $2}' /proc/self/status", "2"},
		{"root", "touch /file && echo writable || echo read-only", "read-only"},
		{"oom", "cat /proc/self/oom_score_adj", "938"},
	}
	plain := []inside{
		{"user", "id -u", "0"},
		{"seccomp", "awk '/^Seccomp:/{print $2}' /proc/self/status", "0"},
		{"root", "touch /file && echo writable || echo read-only", "writable"},
		{"oom", "cat /proc/self/oom_score_adj", "999"},
	}
	pod := &v1.Pod{Spec: v1.PodSpec{
		DNSPolicy: v1.DNSNone,
		SecurityContext: &v1.PodSecurityContext{
			FSGroup: ptr.To[int64](2000), SupplementalGroups: []int64{3000},
		},
	}}
	pod.Name = "locked"
	a, b := r.reporting("locked", locked), r.reporting("plain", plain)
	a.SecurityContext = &v1.SecurityContext{
		RunAsUser: ptr.To[int64](1234), RunAsGroup: ptr.To[int64](4321), RunAsNonRoot: ptr.To(true),
		ReadOnlyRootFilesystem: ptr.To(true), AllowPrivilegeEscalation: ptr.To(false),
		Capabilities:   &v1.Capabilities{Drop: []v1.Capability{"ALL"}, Add: []v1.Capability{"NET_BIND_SERVICE"}},
		SeccompProfile: &v1.SeccompProfile{Type: v1.SeccompProfileTypeRuntimeDefault},
	}
	a.Resources = v1.ResourceRequirements{
		Requests: v1.ResourceList{v1.ResourceCPU: resource.MustParse("250m"), v1.ResourceMemory: resource.MustParse("64Mi")},
		Limits:   v1.ResourceList{v1.ResourceCPU: resource.MustParse("500m"), v1.ResourceMemory: resource.MustParse("128Mi")},
	}
	refused := r.container("refused", "true")
	refused.SecurityContext = &v1.SecurityContext{RunAsNonRoot: ptr.To(true)}
	pod.Spec.Containers = []v1.Container{refused, a, b}
	r.reports(pod, map[string][]inside{"locked": locked, "plain": plain}, func(status *runtime.PodStatus) {
		for name, want := range map[string]containerdtest.Settings{
			"locked": {CPUShares: 256, CPUQuota: 50000, Memory: 128 << 20},
			"plain":  {CPUShares: 2, CPUQuota: -1},
		} {
			group, err := containerdtest.CgroupOf(r.instance.PIDOf(status.Container(name).ID.ID))
			if err == nil {
				err = group.Differences(want)
			}
			if err != nil {
				t.Errorf("13: container %s: %v", name, err)
			}
		}
	})
	if got := r.m.WaitingReasons(pod.UID)["refused"].Reason; got != "CreateContainerConfigError" {
		t.Errorf("14.3: a root image with runAsNonRoot waits with %q", got)
	}
}

// spec/runtime.md 3.1, 3.4, 3.6, 4, 14.5: namespaces, sysctls, resolver, host
// name and a seccomp profile of the node.
func TestContainerdNamespaces(t *testing.T) {
	r := newReal(t)
	r.withOptions(func(o *pods.Options) { o.ClusterDNS, o.ClusterDomain = []string{"10.96.0.10"}, "c.example" })
	profiles := filepath.Join(r.opts.RootDir, "seccomp")
	if err := os.MkdirAll(profiles, 0o750); err != nil {
		t.Fatal(err)
	}
	const profile = `{"defaultAction":"SCMP_ACT_ALLOW","syscalls":[{"names":["mkdir","mkdirat"],"action":"SCMP_ACT_ERRNO"}]}`
	if err := os.WriteFile(filepath.Join(profiles, "no-mkdir.json"), []byte(profile), 0o600); err != nil {
		t.Fatal(err)
	}
	link := func(name string) string {
		text, err := os.Readlink("/proc/self/ns/" + name)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	nodeName, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}

	own := []inside{
		{"first process", "cat /proc/1/comm", "sh"},
		{"network", "test \"$(readlink /proc/self/ns/net)\" = '" + link("net") + "' && echo node || echo pod", "pod"},
		{"ports", "cat /proc/sys/net/ipv4/ip_local_port_range", "30000\t31000"},
		{"host name", "hostname", "front.pages.default.svc.c.example"},
		{"server", "awk '/nameserver/{print $2}' /etc/resolv.conf", "10.96.0.10"},
		{"search", "awk '/search/{print $2, $3, $4}' /etc/resolv.conf", "default.svc.c.example svc.c.example c.example"},
		{"options", "awk '/options/{print $2}' /etc/resolv.conf", "ndots:5"},
		{"seccomp", "mkdir /tmp/x && echo made || echo refused", "refused"},
	}
	pod := &v1.Pod{Spec: v1.PodSpec{
		DNSPolicy: v1.DNSClusterFirst, Hostname: "front", Subdomain: "pages", SetHostnameAsFQDN: ptr.To(true),
		SecurityContext: &v1.PodSecurityContext{
			Sysctls:        []v1.Sysctl{{Name: "net/ipv4/ip_local_port_range", Value: "30000 31000"}},
			SeccompProfile: &v1.SeccompProfile{Type: v1.SeccompProfileTypeLocalhost, LocalhostProfile: ptr.To("no-mkdir.json")},
		},
	}}
	pod.Name = "own"
	pod.Spec.Containers = []v1.Container{r.reporting("own", own)}
	r.reports(pod, map[string][]inside{"own": own})

	// The sandbox's process may still be on its way when the first container runs.
	shared := []inside{{"first process", "while grep -q '^runc:' /proc/1/comm; do sleep 0.1; done; cat /proc/1/comm", "pause"}}
	pod = &v1.Pod{Spec: v1.PodSpec{DNSPolicy: v1.DNSDefault, ShareProcessNamespace: ptr.To(true)}}
	pod.Name = "shared"
	pod.Spec.Containers = []v1.Container{r.reporting("one", shared), r.reporting("two", shared)}
	r.reports(pod, map[string][]inside{"one": shared, "two": shared})

	node := []inside{
		{"network", "readlink /proc/self/ns/net", link("net")},
		{"processes", "readlink /proc/self/ns/pid", link("pid")},
		{"ipc", "readlink /proc/self/ns/ipc", link("ipc")},
		{"host name", "hostname", nodeName},
	}
	pod = &v1.Pod{Spec: v1.PodSpec{DNSPolicy: v1.DNSDefault, HostNetwork: true, HostPID: true, HostIPC: true, Hostname: "ignored"}}
	pod.Name = "node"
	pod.Spec.Containers = []v1.Container{r.reporting("node", node)}
	r.reports(pod, map[string][]inside{"node": node})
}
