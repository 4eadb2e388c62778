//go:build apiserver && containerd

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const hungry = `
apiVersion: v1
kind: Pod
metadata: {name: hungry, labels: {app: hungry}}
spec:
  terminationGracePeriodSeconds: 1
  restartPolicy: Never
  containers:
  - {name: whole, image: IMAGE, command: [sh, -c, "until [ -e /go ]; do sleep 0.1; done; exec tail /dev/zero"], resources: {limits: {memory: 16Mi}}}
  - {name: child, image: IMAGE, command: [sh, -c, "tail /dev/zero; sleep 100000"], resources: {limits: {memory: 16Mi}}}
  - name: well
    image: IMAGE
    command: [sleep, "100000"]
    resources: {limits: {memory: 16Mi}}
    livenessProbe: {exec: {command: ["true"]}, timeoutSeconds: 30, periodSeconds: 1}
`

// TestContainerdAPIServerPages (KH7, KH10, KN13; runtime.md 28): the pages of the node's server through the API server's proxy; what the
// kernel kills for want of memory is one event and counts once, be it a container or a process in one that goes on.
func TestContainerdAPIServerPages(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.start("--address="+c.reachable(), "--max-pods=30", "--kube-reserved=cpu=100m", "--system-reserved=memory=64Mi")
	c.until("Node Ready", 20*time.Second, c.nodeReady)
	c.apply(hungry)
	// containerd 1.6 misses a kill that comes before it has told that the container runs, and then nothing says so.
	c.until("all run", 60*time.Second, c.ready("app=hungry", 1))
	c.kubectl("exec", "hungry", "-c", "whole", "--", "sh", "-c", ": > /go")
	for _, container := range []string{"whole", "child"} {
		c.until(container+" was killed", 40*time.Second, func() error { return c.series("/metrics", "container_oom_events_total", container, 1) })
	}
	if err := c.series("/metrics", "container_oom_events_total", "well", 0); err != nil {
		t.Error(err)
	}
	c.until("the status says so", 10*time.Second, func() error {
		pod := c.pods("app=hungry")[0]
		for _, s := range pod.Status.ContainerStatuses {
			if end := s.State.Terminated; s.Name == "whole" && end != nil && end.Reason == "OOMKilled" {
				return nil
			}
		}
		return fmt.Errorf("%+v", pod.Status.ContainerStatuses)
	})
	c.until("probes are counted", 20*time.Second, func() error {
		page := c.page("/metrics/probes")
		if !regexp.MustCompile(`(?m)^prober_probe_total\{container="well",namespace="default",pod="hungry",pod_uid="[-0-9a-f]{36}",probe_type="Liveness",result="successful"\} [1-9]`).MatchString(page) {
			return errors.New(page)
		}
		return nil
	})
	metrics := c.page("/metrics")
	for _, name := range []string{
		"kubelet_running_pods", "kubelet_running_containers", "kubelet_pleg_relist_duration_seconds_count", "kubelet_started_pods_total", "kubelet_pod_start_duration_seconds_count 1",
		`kubelet_runtime_operations_total{operation_type="run_podsandbox"} 1`, `kubelet_runtime_operations_duration_seconds_count{operation_type="list_podsandbox"}`,
		"go_goroutines", "process_resident_memory_bytes",
	} {
		if !strings.Contains(metrics, "\n"+name) {
			t.Errorf("/metrics has no %s", name)
		}
	}
	if strings.Contains(metrics, "prober_") {
		t.Error("/metrics has metrics of probes")
	}
	c.configured(t)
	c.checkpoint(t)

	// On a busy machine the end of whole is seen more than 1 s after its kill was read; then it is told as that of a process (28.2).
	for container, text := range map[string]string{"whole": "container whole", "child": "the kernel killed a process of container child"} {
		if err := c.series("/metrics", "container_oom_events_total", container, 1); err != nil {
			t.Error(err)
		}
		c.until("one event of "+container, 10*time.Second, func() error {
			list, err := c.operator.CoreV1().Events("default").List(t.Context(), metav1.ListOptions{FieldSelector: "reason=OOMKilled,involvedObject.fieldPath=spec.containers{" + container + "}"})
			if err != nil || len(list.Items) != 1 || list.Items[0].Count > 1 || !strings.Contains(list.Items[0].Message, text) {
				return fmt.Errorf("events %v, %v", list, err) //nolint:errorlint // shown only
			}
			return nil
		})
	}
	c.kubectl("delete", "pod", "hungry")
	c.until("the pod's series are gone", 20*time.Second, func() error {
		for _, path := range []string{"/metrics", "/metrics/probes"} {
			if page := c.page(path); strings.Contains(page, `"hungry"`) {
				return fmt.Errorf("%s: %s", path, page)
			}
		}
		return nil
	})
	if strings.Contains(c.logged(), "upgradeaware.go") {
		t.Error("the log has lines of klog's own form")
	}
	told, err := c.operator.CoreV1().Events("default").List(t.Context(), metav1.ListOptions{FieldSelector: "reason=MissingClusterDNS"})
	if err != nil || len(told.Items) > 0 {
		t.Errorf("runtime.md 4: a pod of the default policy has events of the missing name server: %v, %v", told, err)
	}
}

// reachable has the server's certificate made for an address of this machine that the API server's proxy goes to, and
// returns it: there is none to loopback addresses.
func (c *cluster) reachable() string {
	c.t.Helper()
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		c.t.Fatal(err)
	}
	for _, a := range addresses {
		if ip := a.(*net.IPNet).IP; ip.IsGlobalUnicast() && ip.To4() != nil {
			certificate, key, err := c.api.ServingCertificate(nodeName, ip.String())
			if err := errors.Join(err, os.WriteFile(c.serving+".crt", certificate, 0o600), os.WriteFile(c.serving+".key", key, 0o600)); err != nil {
				c.t.Fatal(err)
			}
			return ip.String()
		}
	}
	c.t.Fatalf("this machine has no address but loopback: %v", addresses)
	return ""
}

// page reads a page of the node's server through the API server.
func (c *cluster) page(path string) string {
	return c.kubectl("get", "--raw", "/api/v1/nodes/"+nodeName+"/proxy"+path)
}

// series returns nil if a metric of a container of the pod hungry has a value.
func (c *cluster) series(page, name, container string, want int) error {
	c.t.Helper()
	text := c.page(page)
	found := regexp.MustCompile(`(?m)^` + name + `\{container="` + container + `",namespace="default",pod="hungry"\} (\d+)$`).FindStringSubmatch(text)
	if found == nil || found[1] != strconv.Itoa(want) {
		return fmt.Errorf("%s of %s: %v, want %d", name, container, found, want)
	}
	return nil
}

// configured compares /configz and the Node with the command line.
func (c *cluster) configured(t *testing.T) {
	var page struct {
		Config struct {
			MaxPods        int               `json:"maxPods"`
			EvictionHard   map[string]string `json:"evictionHard"`
			SeccompDefault bool              `json:"seccompDefault"`
		} `json:"kubeletconfig"`
	}
	if err := json.Unmarshal([]byte(c.page("/configz")), &page); err != nil || page.Config.MaxPods != 30 || page.Config.EvictionHard["memory.available"] != "100Mi" || !page.Config.SeccompDefault {
		t.Errorf("/configz: %+v, %v", page, err)
	}
	node, err := c.operator.CoreV1().Nodes().Get(t.Context(), nodeName, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	has, may := node.Status.Capacity, node.Status.Allocatable
	memory := has.Memory().Value() - 164<<20
	for name, amount := range has {
		if strings.HasPrefix(string(name), v1.ResourceHugePagesPrefix) {
			memory -= amount.Value()
		}
	}
	if has.Cpu().MilliValue()-may.Cpu().MilliValue() != 100 || may.Memory().Value() != memory || may.Pods().Value() != 30 {
		t.Errorf("allocatable %v of %v", may, has)
	}
}

// checkpoint asks for one. A runtime that makes none is told as with a kubelet. kubectl shows no text of a 404.
func (c *cluster) checkpoint(t *testing.T) {
	file := t.TempDir() + "/none"
	if err := writeEmpty(file); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		"/checkpoint/default/none/well":   "(NotFound)",
		"/checkpoint/default/hungry/none": "(NotFound)",
		"/checkpoint/default/hungry/well": "checkpointing of default/hungry/well failed",
	} {
		out, err := c.api.Kubectl(t.Context(), "create", "--raw", "/api/v1/nodes/"+nodeName+"/proxy"+path, "-f", file)
		switch {
		case err == nil && strings.Contains(path, "hungry/well") && strings.Contains(out, `"items":["`+c.root+`/checkpoints/checkpoint-hungry_default-well-`):
		case err == nil || !strings.Contains(err.Error()+out, want):
			t.Errorf("%s: %s %v, want %s", path, out, err, want)
		}
	}
}
