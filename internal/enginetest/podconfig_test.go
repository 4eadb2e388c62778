package enginetest_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/utils/ptr"

	"github.com/podwright/podwright"
	"github.com/podwright/podwright/runtime/fake"
	"github.com/podwright/podwright/runtime/pods"
)

type oneClass struct{}

func (oneClass) RuntimeClass(name string) (pods.RuntimeClass, error) {
	if name != "vm" {
		return pods.RuntimeClass{}, errors.New("it does not exist")
	}
	return pods.RuntimeClass{Handler: "kata"}, nil
}

// The node's settings in the configuration reach sandboxes and containers (spec/runtime.md 3.6,
// 3.8, 4, 14.5). A pod keeps its range of user IDs over a restart of the engine, and the next pod
// gets it once the first is finished (3.7).
func TestNodeSettingsReachContainers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		rt := fake.New(fake.Options{
			Handlers: []*runtimeapi.RuntimeHandler{{Name: "kata", Features: &runtimeapi.RuntimeHandlerFeatures{UserNamespaces: true}}},
			Script: func(l fake.Launch) fake.Script {
				if l.Config.Labels["io.kubernetes.pod.name"] == "first" {
					return fake.Script{Exit: &fake.Exit{After: time.Minute}}
				}
				return fake.Script{}
			},
		})
		configure := func(c *podwright.Config) {
			c.Node.ClusterDNS, c.Node.ClusterDomain = []string{"10.96.0.10"}, "c.example"
			c.Pods.RuntimeClasses, c.Pods.UserNamespaces = oneClass{}, pods.UserNamespaces{Pods: 1}
			c.Pods.SeccompDefault, c.Pods.DefaultSysctls = true, map[string]string{"net.core.somaxconn": "7"}
		}
		pod := func(name string) *v1.Pod {
			p := newPod(name)
			p.Spec.RestartPolicy, p.Spec.DNSPolicy = v1.RestartPolicyNever, v1.DNSClusterFirst
			p.Spec.HostUsers, p.Spec.RuntimeClassName = ptr.To(false), ptr.To("vm")
			return p
		}
		root := t.TempDir()
		r := newRig(t, rt, root, configure).start()
		first, second := pod("first"), pod("second")
		r.set(first)
		r.phase(first.UID, v1.PodRunning, 10*time.Second)
		sandbox := requests[*runtimeapi.RunPodSandboxRequest](rt, fake.RunPodSandbox, first.UID)[0]
		dns := sandbox.Config.DnsConfig
		if got := fmt.Sprint(dns.Servers, dns.Searches[:3]); got != "[10.96.0.10] [default.svc.c.example svc.c.example c.example]" {
			t.Errorf("4: %s", got)
		}
		if sandbox.RuntimeHandler != "kata" || sandbox.Config.Linux.Sysctls["net.core.somaxconn"] != "7" {
			t.Errorf("3.6, 3.8: handler %q, sysctls %v", sandbox.RuntimeHandler, sandbox.Config.Linux.Sysctls)
		}
		container := requests[*runtimeapi.CreateContainerRequest](rt, fake.CreateContainer, first.UID)[0].Config.Linux.SecurityContext
		if container.Seccomp.ProfileType != runtimeapi.SecurityProfile_RuntimeDefault {
			t.Errorf("14.5: %v", container.Seccomp)
		}

		r.stop()
		r = newRig(t, rt, root, configure).start()
		r.set(first, second)
		r.within(10*time.Second, "the second pod waits for user IDs", func() error {
			if r.events.count("second FailedCreatePodSandBox") > 0 {
				return nil
			}
			return errors.New("no event")
		})
		r.phase(first.UID, v1.PodSucceeded, 2*time.Minute)
		r.phase(second.UID, v1.PodRunning, 10*time.Minute)
		for _, uid := range []types.UID{first.UID, second.UID} {
			users := requests[*runtimeapi.RunPodSandboxRequest](rt, fake.RunPodSandbox, uid)[0].Config.Linux.SecurityContext.NamespaceOptions.UsernsOptions
			if len(users.Uids) != 1 || users.Uids[0].HostId != 65536 {
				t.Errorf("3.7: %s has %v", uid, users)
			}
		}
		r.set()
		r.empty(time.Minute)
	})
}

// The embedder sets the node's resolver file, hosts file and CPU quotas (spec/runtime.md 4, 12.4,
// 13).
func TestNodeFilesAndQuotasReachContainers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt, files := byContainer(nil), t.TempDir()
		resolver, hosts := filepath.Join(files, "resolv"), filepath.Join(files, "hosts")
		for path, text := range map[string]string{resolver: "nameserver 192.0.2.9\n", hosts: "192.0.2.8 printer\n"} {
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		r := newRig(t, rt, t.TempDir(), func(c *podwright.Config) {
			c.Pods.ResolvConf, c.Pods.HostsFile, c.Pods.NoCPUQuota = resolver, hosts, true
		}).start()
		p := newPod("web")
		p.Spec.DNSPolicy, p.Spec.HostNetwork = v1.DNSDefault, true
		p.Spec.Containers[0].Resources.Limits = v1.ResourceList{v1.ResourceCPU: resource.MustParse("1")}
		r.set(p)
		r.phase(p.UID, v1.PodRunning, 10*time.Second)
		sandbox := requests[*runtimeapi.RunPodSandboxRequest](rt, fake.RunPodSandbox, p.UID)[0].Config
		if got := sandbox.DnsConfig.Servers; !slices.Equal(got, []string{"192.0.2.9"}) {
			t.Errorf("4: servers %v", got)
		}
		container := requests[*runtimeapi.CreateContainerRequest](rt, fake.CreateContainer, p.UID)[0].Config
		if quota := container.Linux.Resources.CpuQuota; quota != 0 {
			t.Errorf("13: a quota of %d", quota)
		}
		at := slices.IndexFunc(container.Mounts, func(m *runtimeapi.Mount) bool { return m.ContainerPath == "/etc/hosts" })
		if at < 0 {
			t.Fatal("12.4: no hosts file")
		}
		if text, err := os.ReadFile(container.Mounts[at].HostPath); err != nil || !strings.Contains(string(text), "printer") {
			t.Errorf("12.4: %s, %v", text, err)
		}
	})
}

// requests returns the requests of a pod's calls of one method.
func requests[T any](rt *fake.Runtime, method fake.Method, uid types.UID) []T {
	var out []T
	for _, c := range rt.Calls(fake.Match{Method: method}) {
		if c.PodUID == uid && c.Err == nil {
			out = append(out, c.Request.(T))
		}
	}
	return out
}
