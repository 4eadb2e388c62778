package stats

import (
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	clocktesting "k8s.io/utils/clock/testing"
)

// TestResourcePage (KV2): the page has the kubelet's names and labels. What has ended has no series; what
// runs and could not be measured has its start alone, which makes metrics-server leave out its pod.
func TestResourcePage(t *testing.T) {
	m := newMachine(t, true)
	m.pod("web")
	m.pod("half")
	m.run("web", "app", "c1", 0, 1500*time.Millisecond, 4096)
	m.run("web", "ended", "c2", 0, time.Second, 4096)
	m.end("c2")
	m.run("half", "app", "c3", 1, 0, 0)
	s := m.source(func(o *Options) { o.Clock = clocktesting.NewFakeClock(time.Unix(5001, 0)) })
	code, lines := get(t, s.ServeResource, "")
	want := []string{
		`container_cpu_usage_seconds_total{container="app",namespace="default",pod="web"} 1.5 5000000`,
		`container_memory_working_set_bytes{container="app",namespace="default",pod="web"} 4096 5000000`,
		`container_start_time_seconds{container="app",namespace="default",pod="half"} 2001`,
		`container_start_time_seconds{container="app",namespace="default",pod="web"} 2000`,
		`node_cpu_usage_seconds_total 1.63 5001000`,
		`node_memory_working_set_bytes 614400 5001000`,
		`node_swap_usage_bytes 10240 5001000`,
		`pod_cpu_usage_seconds_total{namespace="default",pod="half"} 0 5001000`,
		`pod_cpu_usage_seconds_total{namespace="default",pod="web"} 1.5 5001000`,
		`pod_memory_working_set_bytes{namespace="default",pod="web"} 4096 5001000`,
		`resource_scrape_error 0`,
		`scrape_error 0`,
	}
	if diff := cmp.Diff(want, lines); diff != "" || code != http.StatusOK {
		t.Errorf("%d\n%s", code, diff)
	}
}

// TestResourcePageOfASuccessor (KV2): while a pod and its successor of the same name both run, the page shows the
// successor alone, and so no series twice. The summary has both.
func TestResourcePageOfASuccessor(t *testing.T) {
	for old, successor := range map[string]string{"a": "b", "b": "a"} { // the UIDs do not decide
		m := newMachine(t, true)
		for _, name := range []string{"a", "b", "other"} {
			pod := m.pod(name)
			if name != "other" {
				pod.Name = "web"
			}
		}
		for _, s := range m.containers.sandboxes {
			if s.GetId() == "sandbox-"+successor {
				s.CreatedAt = m.sandboxCreated.Add(time.Second).UnixNano()
			}
		}
		m.run(old, "app", "c1", 0, 100*time.Second, 8192)
		m.run(successor, "app", "c2", 0, time.Second, 4096)
		m.run("other", "app", "c3", 0, 2*time.Second, 1024)
		s := m.source(func(o *Options) { o.Clock = clocktesting.NewFakeClock(time.Unix(5001, 0)) })
		_, lines := get(t, s.ServeResource, "")
		want := []string{
			`container_cpu_usage_seconds_total{container="app",namespace="default",pod="other"} 2 5000000`,
			`container_cpu_usage_seconds_total{container="app",namespace="default",pod="web"} 1 5000000`,
		}
		got := slices.DeleteFunc(slices.Clone(lines), func(l string) bool { return !strings.HasPrefix(l, "container_cpu") })
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
		seen := map[string]bool{}
		for _, line := range lines {
			series, _, _ := strings.Cut(line, " ")
			if seen[series] {
				t.Errorf("twice: %s", line)
			}
			seen[series] = true
		}
		if summary, err := s.Summary(t.Context(), true); err != nil || len(summary.Pods) != 3 {
			t.Errorf("%+v, %v", summary, err)
		}
	}
}

// TestResourcePageOfAFailingRuntime (KV3): the node is there, the pods are not, and the page says so.
func TestResourcePageOfAFailingRuntime(t *testing.T) {
	m := newMachine(t, false)
	m.pod("web")
	m.run("web", "app", "c1", 0, time.Second, 4096)
	m.containers.fail = errors.New("broken")
	s := m.source(func(o *Options) { o.Clock = clocktesting.NewFakeClock(time.Unix(5001, 0)) })
	code, lines := get(t, s.ServeResource, "")
	want := []string{
		`node_cpu_usage_seconds_total 1.63 5001000`, `node_memory_working_set_bytes 614400 5001000`, `node_swap_usage_bytes 10240 5001000`,
		`resource_scrape_error 1`, `scrape_error 1`,
	}
	if diff := cmp.Diff(want, lines); diff != "" || code != http.StatusOK {
		t.Errorf("%d\n%s", code, diff)
	}
	if _, err := s.Summary(t.Context(), true); !errors.Is(err, errRuntime) || !errors.Is(err, m.containers.fail) {
		t.Errorf("%v", err)
	}
	if code, _ := get(t, s.ServeSummary, ""); code != http.StatusServiceUnavailable {
		t.Errorf("summary: %d", code)
	}
}

// TestNewbornIsMeasured (KV1): a container that the runtime has not measured yet is, by its cgroup.
func TestNewbornIsMeasured(t *testing.T) {
	for _, unified := range []bool{false, true} {
		m := newMachine(t, unified)
		m.pod("web")
		m.run("web", "app", "c1", 0, 0, 0)
		m.cgroup("system.slice/cri-containerd-c1.scope", 2*time.Second, 1000, 41)
		summary, err := m.source().Summary(t.Context(), true)
		if err != nil {
			t.Fatal(err)
		}
		c := summary.Pods[0].Containers[0]
		if *c.CPU.UsageCoreNanoSeconds != 2e9 || *c.Memory.WorkingSetBytes != 900 || *c.Memory.UsageBytes != 1000 || *c.Swap.SwapUsageBytes != 64 {
			t.Errorf("unified %t: %+v %+v %+v", unified, c.CPU, c.Memory, c.Swap)
		}
	}
}

// TestSwapComesFromTheCgroup (KV1, KV2): containerd does not report it. Each page has it, whatever other page was scraped just
// before, and the pod's is that of its own cgroup.
func TestSwapComesFromTheCgroup(t *testing.T) {
	for _, unified := range []bool{false, true} {
		m := newMachine(t, unified)
		m.pod("web")
		m.run("web", "app", "c1", 0, time.Second, 4096)
		m.run("web", "side", "c2", 0, time.Second, 4096)
		m.cgroup("kubepods/poduid-web", time.Second, 4096, 41)
		m.cgroup("kubepods/poduid-web/c1", time.Second, 4096, 41)
		m.cgroup("kubepods/poduid-web/c2", time.Second, 4096, 42)
		m.pod("bare")
		m.run("bare", "app", "c3", 0, time.Second, 4096)
		m.cgroup("system.slice/cri-containerd-c3.scope", time.Second, 4096, 43)
		clock := clocktesting.NewFakeClock(time.Unix(5001, 0))
		s := m.source(func(o *Options) { o.Clock = clock })
		for _, before := range []func(){func() {}, func() { get(t, s.ServeContainers, "") }} {
			clock.Step(10 * time.Second)
			before()
			_, lines := get(t, s.ServeResource, "")
			at := strconv.FormatInt(clock.Now().UnixMilli(), 10)
			want := []string{
				`container_swap_usage_bytes{container="app",namespace="default",pod="bare"} 64 ` + at,
				`container_swap_usage_bytes{container="app",namespace="default",pod="web"} 64 ` + at,
				`container_swap_usage_bytes{container="side",namespace="default",pod="web"} 64 ` + at,
				`pod_swap_usage_bytes{namespace="default",pod="bare"} 64 ` + at,
				`pod_swap_usage_bytes{namespace="default",pod="web"} 64 ` + at,
			}
			got := slices.DeleteFunc(lines, func(l string) bool { return !strings.Contains(l, "_swap_usage_bytes{") })
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("unified %t:\n%s", unified, diff)
			}
		}
		clock.Step(10 * time.Second)
		for _, only := range []bool{true, false} {
			summary, err := s.Summary(t.Context(), only)
			if err != nil {
				t.Fatal(err)
			}
			for _, p := range summary.Pods {
				if p.Swap == nil || *p.Swap.SwapUsageBytes != 64 || p.Containers[0].Swap == nil {
					t.Errorf("unified %t: %+v", unified, p)
				}
			}
		}
	}
}

// TestPodStatsOfTheRuntime (KV1): they count if the runtime has them; one that has not is asked for those
// of containers, and for those of pods again after 5 min.
func TestPodStatsOfTheRuntime(t *testing.T) {
	m := newMachine(t, true)
	m.pod("web")
	m.run("web", "app", "c1", 0, time.Second, 4096)
	clock := clocktesting.NewFakeClock(time.Unix(5001, 0))
	s := m.source(func(o *Options) { o.Clock = clock })
	asked := func(pods, containers int) {
		t.Helper()
		clock.Step(2 * time.Second)
		if _, err := s.Summary(t.Context(), true); err != nil {
			t.Fatal(err)
		}
		if m.containers.podCalls != pods || m.containers.calls != containers {
			t.Errorf("%d calls for pods, %d for containers, want %d and %d", m.containers.podCalls, m.containers.calls, pods, containers)
		}
	}
	asked(1, 1)
	asked(1, 2)
	m.containers.podStats = []*runtimeapi.PodSandboxStats{{
		Attributes: &runtimeapi.PodSandboxAttributes{Id: "sandbox-web"},
		Linux: &runtimeapi.LinuxPodSandboxStats{
			Cpu: said("", 3*time.Second, 0).GetCpu(), Memory: said("", 0, 9999).GetMemory(), Process: &runtimeapi.ProcessUsage{ProcessCount: &runtimeapi.UInt64Value{Value: 5}},
			Network:    &runtimeapi.NetworkUsage{Timestamp: 1, DefaultInterface: &runtimeapi.NetworkInterfaceUsage{Name: "eth0", RxBytes: &runtimeapi.UInt64Value{Value: 12}}},
			Containers: []*runtimeapi.ContainerStats{said("c1", 2*time.Second, 8888)},
		},
	}}
	asked(1, 3)
	clock.Step(podStatsPause)
	asked(2, 3)
	clock.Step(2 * time.Second)
	summary, err := s.Summary(t.Context(), false)
	if err != nil {
		t.Fatal(err)
	}
	p := summary.Pods[0]
	if *p.CPU.UsageCoreNanoSeconds != 3e9 || *p.Memory.WorkingSetBytes != 9999 || *p.ProcessStats.ProcessCount != 5 || *p.Network.RxBytes != 12 || *p.Containers[0].CPU.UsageCoreNanoSeconds != 2e9 {
		t.Errorf("%+v", p)
	}
}
