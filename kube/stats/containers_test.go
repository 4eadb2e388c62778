package stats

import (
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	clocktesting "k8s.io/utils/clock/testing"
)

// TestContainersPage (KH7): cAdvisor's names and labels, alike on both versions of cgroups. A pod with a
// cgroup of its own has series of its own, and its interfaces, which a pod on the node's network has not.
func TestContainersPage(t *testing.T) {
	const pod = "kubepods/burstable/poduid-web"
	for _, unified := range []bool{false, true} {
		m := newMachine(t, unified)
		m.pod("web").Spec.Containers = []v1.Container{{Name: "app", Image: "registry/app"}}
		m.pod("host").Spec.HostNetwork = true
		m.run("web", "app", "c1", 0, 1500*time.Millisecond, 4096)
		m.run("host", "app", "c2", 0, time.Second, 4096)
		m.cgroup(pod, 4*time.Second, 20000, 50)
		m.cgroup(pod+"/sandbox-web", time.Millisecond, 100, 51)
		m.cgroup(pod+"/c1", 2*time.Second, 10000, 52)
		m.cgroup("elsewhere/c2", 2*time.Second, 10000, 53)
		s := m.source(func(o *Options) { o.Clock = clocktesting.NewFakeClock(time.Unix(5001, 0)) })
		_, lines := get(t, s.ServeContainers, "")
		const (
			c1    = `{container="app",id="/kubepods/burstable/poduid-web/c1",image="registry/app",name="c1",namespace="default",pod="web"}`
			c1cpu = `{container="app",cpu="total",id="/kubepods/burstable/poduid-web/c1",image="registry/app",name="c1",namespace="default",pod="web"}`
			c1sda = `{container="app",device="/dev/sda",id="/kubepods/burstable/poduid-web/c1",image="registry/app",name="c1",namespace="default",pod="web"}`
			web   = `{container="",id="/kubepods/burstable/poduid-web",image="",name="",namespace="default",pod="web"}`
			eth0  = `{container="",id="/kubepods/burstable/poduid-web",image="",interface="eth0",name="sandbox-web",namespace="default",pod="web"}`
			c2    = `{container="app",id="/elsewhere/c2",image="sha256:1",name="c2",namespace="default",pod="host"}`
			root  = `{container="",id="/",image="",name="",namespace="",pod=""}`
		)
		have := map[string]bool{}
		ofHost := 0
		for _, l := range lines {
			have[l] = true
			if len(l) > 18 && l[:18] == "container_network_" {
				ofHost++
			}
		}
		for _, want := range []string{
			`machine_cpu_cores 2`, `machine_memory_bytes 1.024e+06`, `container_scrape_error 0`,
			`container_cpu_usage_seconds_total` + c1cpu + ` 1.5`,
			`container_memory_working_set_bytes` + c1 + ` 4096`, `container_memory_rss` + c1 + ` 2048`,
			`container_memory_cache` + c1 + ` 2500`, `container_memory_swap` + c1 + ` 64`,
			`container_cpu_cfs_periods_total` + c1 + ` 50`, `container_cpu_cfs_throttled_periods_total` + c1 + ` 5`, `container_cpu_cfs_throttled_seconds_total` + c1 + ` 0.002`,
			`container_spec_cpu_quota` + c1 + ` 50000`, `container_spec_cpu_period` + c1 + ` 100000`, `container_spec_cpu_shares` + c1 + ` 998`, `container_spec_memory_limit_bytes` + c1 + ` 0`,
			`container_fs_reads_total` + c1sda + ` 1`, `container_fs_reads_bytes_total` + c1sda + ` 4096`, `container_fs_writes_total` + c1sda + ` 2`, `container_fs_writes_bytes_total` + c1sda + ` 8192`,
			`container_network_receive_bytes_total` + eth0 + ` 500`, `container_network_receive_packets_total` + eth0 + ` 5`, `container_network_receive_packets_dropped_total` + eth0 + ` 2`,
			`container_network_transmit_bytes_total` + eth0 + ` 1000`, `container_network_transmit_packets_total` + eth0 + ` 10`, `container_network_transmit_packets_dropped_total` + eth0 + ` 4`,
			`container_memory_working_set_bytes` + web + ` 18000`, `container_memory_working_set_bytes` + root + ` 614400`,
			`container_start_time_seconds` + c2 + ` 2000`,
		} {
			if !have[want] {
				t.Errorf("unified %t: no %s", unified, want)
			}
		}
		if ofHost != 16 { // 8 of the node, 8 of one pod
			t.Errorf("unified %t: %d series of networks", unified, ofHost)
		}
	}
}

// TestPodCgroup: the cgroup of the pod is the one around a container's, by the names of either driver.
func TestPodCgroup(t *testing.T) {
	for container, pod := range map[string]string{
		"kubepods.slice/kubepods-poduid_1.slice/cri-containerd-bbb.scope": "kubepods.slice/kubepods-poduid_1.slice",
		"kubepods/poduid-1/eee": "kubepods/poduid-1", "k8s.io/aaa": "", "": "",
	} {
		if got := podCgroup(container, "uid-1"); got != pod {
			t.Errorf("the pod's of %s is %s", container, got)
		}
	}
}
