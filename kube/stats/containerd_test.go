//go:build containerd

package stats

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	stats "k8s.io/kubelet/pkg/apis/stats/v1alpha1"

	"github.com/podwright/podwright/internal/containerdtest"
	"github.com/podwright/podwright/internal/patience"
	"github.com/podwright/podwright/runtime"
	"github.com/podwright/podwright/runtime/cri"
	"github.com/podwright/podwright/runtime/pods"
	"github.com/podwright/podwright/runtime/pods/cgroups"
)

var crowd = flag.Int("stats.pods", 6, "how many pods a scrape is measured with")

// node is a real containerd with pods of the test.
type node struct {
	testing.TB
	instance *containerdtest.Instance
	client   *cri.Client
	engine   *engine
	cgroups  *cgroups.Hierarchy
	configs  map[string]*runtimeapi.PodSandboxConfig // by sandbox
}

func onContainerd(t testing.TB) *node {
	t.Helper()
	i := containerdtest.Start(t)
	n := &node{TB: t, instance: i, engine: &engine{}, configs: map[string]*runtimeapi.PodSandboxConfig{}}
	var err error
	if n.client, err = cri.Dial(t.Context(), i.Endpoint, cri.Options{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = n.client.Close() })
	if n.cgroups, err = cgroups.New(cgroups.Options{Parent: fmt.Sprintf("podwright-stats-%d", os.Getpid())}); err != nil {
		t.Fatal(err)
	}
	return n
}

// pod runs a sandbox, with a cgroup of its own or without.
func (n *node) pod(name string, own bool) (sandbox string) {
	n.Helper()
	uid := types.UID("uid-" + name)
	pod := v1.Pod{}
	pod.Name, pod.Namespace, pod.UID = name, "default", uid
	n.engine.pods = append(n.engine.pods, pod)
	none := &runtimeapi.NamespaceOption{Pid: runtimeapi.NamespaceMode_CONTAINER}
	config := &runtimeapi.PodSandboxConfig{
		Metadata: &runtimeapi.PodSandboxMetadata{Name: name, Namespace: "default", Uid: string(uid)}, LogDirectory: n.TempDir(),
		Linux: &runtimeapi.LinuxPodSandboxConfig{SecurityContext: &runtimeapi.LinuxSandboxSecurityContext{NamespaceOptions: none}},
	}
	cgroup := pods.PodCgroup{UID: uid, Class: v1.PodQOSBurstable}
	if own {
		path, err := n.cgroups.Parent(cgroup)
		if err = errors.Join(err, n.cgroups.Create(cgroup, pods.CgroupResources{CPUShares: 100})); err != nil {
			n.Fatal(err)
		}
		config.Linux.CgroupParent = path
	}
	sandbox, err := n.client.RunPodSandbox(n.Context(), config, "")
	if err != nil {
		n.Fatal(err)
	}
	n.configs[sandbox] = config
	n.Cleanup(func() {
		ctx := context.WithoutCancel(n.Context())
		err := errors.Join(n.client.StopPodSandbox(ctx, sandbox), n.client.RemovePodSandbox(ctx, sandbox))
		if own {
			err = errors.Join(err, n.cgroups.Destroy(ctx, uid))
		}
		if err != nil {
			n.Error(err)
		}
	})
	return sandbox
}

// start starts a container, with half a CPU at most.
func (n *node) start(sandbox, name, script string) (id string) {
	n.Helper()
	config := n.configs[sandbox]
	id, err := n.client.CreateContainer(n.Context(), sandbox, &runtimeapi.ContainerConfig{
		Metadata: &runtimeapi.ContainerMetadata{Name: name}, Image: &runtimeapi.ImageSpec{Image: n.instance.Image}, Command: []string{"sh", "-c", script}, LogPath: name + ".log",
		Labels: map[string]string{runtime.LabelPodUID: config.GetMetadata().GetUid(), runtime.LabelContainerName: name},
		Linux: &runtimeapi.LinuxContainerConfig{
			Resources:       &runtimeapi.LinuxContainerResources{CpuQuota: 50000, CpuPeriod: 100000, MemoryLimitInBytes: 64 << 20},
			SecurityContext: &runtimeapi.LinuxContainerSecurityContext{NamespaceOptions: config.GetLinux().GetSecurityContext().GetNamespaceOptions()},
		},
	}, config)
	if err == nil {
		err = n.client.StartContainer(n.Context(), id)
	}
	if err != nil {
		n.Fatal(err)
	}
	return id
}

func podOf(summary *stats.Summary, name string) *stats.PodStats {
	for i := range summary.Pods {
		if summary.Pods[i].PodRef.Name == name {
			return &summary.Pods[i]
		}
	}
	return nil
}

// TestContainerdStats (KV1-KV3): what a real containerd and the kernel say together, with and without a
// cgroup of the pod. One pod without makes containerd say nothing of any pod.
func TestContainerdStats(t *testing.T) {
	n := onContainerd(t)
	const busy = "while :; do :; done"
	own, plain := n.pod("own", true), n.pod("plain", false)
	n.start(own, "app", busy)
	first := n.start(plain, "app", busy)
	n.start(plain, "ended", "exit 0")
	s, err := New(Options{Node: "n1", Engine: n.engine, Runtime: n.client, Images: n.client, RootDir: n.instance.Root, MaxAge: -1})
	if err != nil {
		t.Fatal(err)
	}
	read := func() *stats.Summary {
		t.Helper()
		summary, err := s.Summary(t.Context(), false)
		if err != nil {
			t.Fatal(err)
		}
		return summary
	}
	var summary *stats.Summary
	patience.Until(n, "both use CPU time, and rates are known", func() bool {
		summary = read()
		for _, name := range []string{"own", "plain"} {
			p := podOf(summary, name)
			if p == nil || len(p.Containers) != 1 {
				return false
			}
			c := p.Containers[0]
			if c.CPU == nil || c.CPU.UsageNanoCores == nil || *c.CPU.UsageNanoCores < 1e8 || p.CPU.UsageNanoCores == nil || *p.CPU.UsageNanoCores < 1e8 || c.Memory == nil || *c.Memory.WorkingSetBytes == 0 ||
				c.Rootfs == nil { // containerd measures layers every 10 s
				return false
			}
		}
		return true
	})
	for _, name := range []string{"own", "plain"} {
		p := podOf(summary, name)
		c := p.Containers[0]
		if p.Network == nil || p.ProcessStats == nil {
			t.Fatalf("%s: network %+v, processes %+v", name, p.Network, p.ProcessStats)
		}
		if *p.CPU.UsageCoreNanoSeconds < *c.CPU.UsageCoreNanoSeconds || *c.CPU.UsageNanoCores > 2e9 || *p.Memory.WorkingSetBytes < *c.Memory.WorkingSetBytes ||
			p.Network.Name != "eth0" || *p.Network.RxBytes == 0 || *p.ProcessStats.ProcessCount == 0 || *c.Rootfs.CapacityBytes == 0 {
			t.Errorf("%s: %+v", name, p)
		}
	}
	if r := summary.Node.Runtime; r == nil || r.ImageFs == nil || *r.ImageFs.CapacityBytes == 0 {
		t.Errorf("file systems of the runtime: %+v", r)
	}

	// A restart in the pod without a cgroup: its counter goes on.
	last := *podOf(summary, "plain").CPU.UsageCoreNanoSeconds
	if err := n.client.StopContainer(t.Context(), first, 0); err != nil {
		t.Fatal(err)
	}
	for range 20 {
		now := *podOf(read(), "plain").CPU.UsageCoreNanoSeconds
		if now < last {
			t.Errorf("the pod's CPU time went from %d to %d", last, now)
		}
		last = now
	}
	if p := podOf(read(), "plain"); len(p.Containers) != 0 {
		t.Errorf("a container that has ended: %+v", p.Containers)
	}
	n.start(plain, "again", busy)
	patience.Until(n, "the new container is there and adds to the pod", func() bool {
		p := podOf(read(), "plain")
		return len(p.Containers) == 1 && *p.CPU.UsageCoreNanoSeconds > last
	})

	_, lines := get(t, s.ServeContainers, "")
	for _, name := range []string{
		"container_cpu_usage_seconds_total", "container_memory_working_set_bytes", "container_memory_rss", "container_memory_cache",
		"container_cpu_cfs_periods_total", "container_cpu_cfs_throttled_periods_total", "container_spec_cpu_quota", "container_spec_memory_limit_bytes",
	} {
		if values := valuesOf(lines, name+`{container="app"`, `pod="own"`); len(values) != 1 {
			t.Errorf("%s: %v", name, values)
		}
	}
	for name, want := range map[string]float64{"container_spec_cpu_quota": 50000, "container_spec_memory_limit_bytes": 64 << 20} {
		if values := valuesOf(lines, name+`{container="app"`, `pod="own"`); len(values) != 1 || values[0] != want {
			t.Errorf("%s: %v, want %v", name, values, want)
		}
	}
	for _, pod := range []string{"own", "plain"} {
		if values := valuesOf(lines, `container_network_receive_bytes_total{container=""`, `pod="`+pod+`"`); len(values) != 1 || values[0] == 0 {
			t.Errorf("network of %s: %v", pod, values)
		}
	}
}

// TestContainerdThatHangs (KV3): while a real containerd is stopped, and when it was killed, the page has the node
// alone and says so; afterwards it has the pods again, and their counters go on.
func TestContainerdThatHangs(t *testing.T) {
	n := onContainerd(t)
	n.start(n.pod("web", false), "app", "while :; do :; done")
	s, err := New(Options{Node: "n1", Engine: n.engine, Runtime: n.client, MaxAge: -1, Timeout: 2 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	const series = `container_cpu_usage_seconds_total{container="app"`
	var last float64
	well := func() bool {
		_, lines := get(t, s.ServeResource, "")
		values := valuesOf(lines, series, "")
		if len(values) != 1 || values[0] == 0 || len(valuesOf(lines, "resource_scrape_error 0", "")) != 1 {
			return false
		}
		if values[0] < last {
			t.Errorf("%v after %v", values[0], last)
		}
		last = values[0]
		return true
	}
	ill := func(why string) {
		t.Helper()
		code, lines := get(t, s.ServeResource, "")
		if code != http.StatusOK || len(valuesOf(lines, "resource_scrape_error 1", "")) != 1 || len(valuesOf(lines, series, "")) != 0 || len(valuesOf(lines, "node_cpu_usage_seconds_total", "")) != 1 {
			t.Errorf("%s: %d %q", why, code, lines)
		}
	}
	patience.Until(n, "the container is measured", well)
	if err := syscall.Kill(n.instance.PID(), syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	// A signal is on its way for a moment, and a program with many threads stops one by one.
	patience.Until(n, "all of containerd is stopped", func() bool {
		threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", n.instance.PID()))
		for _, thread := range threads {
			if stat, err := os.ReadFile(thread); err != nil || !strings.Contains(string(stat), ") T ") {
				return false
			}
		}
		return err == nil && len(threads) > 0
	})
	ill("stopped")
	if err := syscall.Kill(n.instance.PID(), syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	patience.Until(n, "it goes on", well)
	n.instance.Kill9()
	ill("killed")
	n.instance.Restart()
	patience.Until(n, "it goes on after a restart", well)
}

// valuesOf are those of the series that begin and contain.
func valuesOf(lines []string, begin, contain string) (out []float64) {
	for _, l := range lines {
		if strings.HasPrefix(l, begin) && strings.Contains(l, contain) {
			value, err := strconv.ParseFloat(l[strings.LastIndexByte(l, ' ')+1:], 64)
			if err == nil {
				out = append(out, value)
			}
		}
	}
	return out
}

// BenchmarkContainerdScrape measures what a scrape of each page costs this process (KV3), with as many pods as -stats.pods says.
func BenchmarkContainerdScrape(b *testing.B) {
	n := onContainerd(b)
	for i := range *crowd {
		n.start(n.pod(fmt.Sprintf("p%03d", i), true), "app", "sleep 1000")
	}
	s, err := New(Options{Node: "n1", Engine: n.engine, Runtime: n.client, Images: n.client, RootDir: n.instance.Root, MaxAge: -1})
	if err != nil {
		b.Fatal(err)
	}
	for _, page := range []struct {
		name  string
		serve http.HandlerFunc
	}{{"resource", s.ServeResource}, {"summary", s.ServeSummary}, {"cadvisor", s.ServeContainers}} {
		b.Run(page.name, func(b *testing.B) {
			get(b, page.serve, "")
			before, scrapes := processTime(b), 0
			for b.Loop() {
				if code, bytes := scrape(b, page.serve, ""); code != http.StatusOK || bytes < 1000 {
					b.Fatalf("%d, %d bytes", code, bytes)
				}
				scrapes++
			}
			b.ReportMetric(float64((processTime(b)-before).Microseconds())/1000/float64(scrapes), "cpu-ms/scrape")
			b.ReportMetric(float64(*crowd), "pods")
		})
	}
}
