//go:build apiserver && containerd

package main

import (
	"errors"
	"flag"
	"fmt"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/podwright/podwright/kube/apitest"
)

var scaleDown = flag.Bool("scale-down", false, "the load of an autoscaled deployment ends too, while kubenode is killed")

// busy is a deployment that uses its limit of CPU until a file tells it to stop, twice what it requests.
const busy = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: busy}
spec:
  replicas: 1
  selector: {matchLabels: {app: busy}}
  template:
    metadata: {labels: {app: busy}}
    spec:
      terminationGracePeriodSeconds: 1
      containers:
      - name: app
        image: IMAGE
        command: [sh, -c, "while [ ! -e /tmp/stop ]; do :; done; trap 'exit 0' TERM; sleep 100000 & wait"]
        resources: {requests: {cpu: 50m, memory: 16Mi}, limits: {cpu: 100m}}
---
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: busy}
spec:
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: busy}
  minReplicas: 1
  maxReplicas: 3
  metrics: [{type: Resource, resource: {name: cpu, target: {type: Utilization, averageUtilization: 60}}}]
  behavior: {scaleDown: {stabilizationWindowSeconds: 0}}
`

// TestContainerdAPIServerAutoscale (KV2): metrics-server has the rights of rbac.yaml and is content with what
// it reads; kubectl top shows the node and its pods, and an autoscaler follows their load.
func TestContainerdAPIServerAutoscale(t *testing.T) {
	t.Parallel()
	c := newClusterWith(t, apitest.Options{Scheduler: true, Controllers: true, MetricsServer: true, ControllerArgs: []string{
		"--horizontal-pod-autoscaler-sync-period=1s", "--horizontal-pod-autoscaler-initial-readiness-delay=1s", "--horizontal-pod-autoscaler-cpu-initialization-period=1s",
	}})
	c.start()
	c.kubectl("apply", "-f", "rbac.yaml")
	c.kubectl("create", "clusterrolebinding", "scraper", "--clusterrole=kubenode-metrics-reader", "--user="+apitest.MetricsServerUser)
	c.until("Node Ready", 30*time.Second, c.nodeReady)
	c.apply(busy)
	c.until("busy runs", 30*time.Second, c.ready("app=busy", 1))
	if err := c.api.ServeMetrics(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the end of metrics-server's log:\n%s", c.api.MetricsServer.Tail())
		}
	})
	c.until("kubectl top nodes", time.Minute, func() error { return c.top(1, "top", "nodes", "--no-headers") })
	c.until("kubectl top pods", time.Minute, func() error { return c.top(50, "top", "pods", "--no-headers", "-l", "app=busy") })
	c.until("three pods under load", time.Minute, c.ready("app=busy", 3))
	if !*scaleDown {
		return
	}
	c.until("kubectl top shows all", time.Minute, func() error {
		out, err := c.api.Kubectl(t.Context(), "top", "pods", "--no-headers", "-l", "app=busy")
		if n := strings.Count(out, "\n"); err == nil && n != 3 {
			return fmt.Errorf("%d pods: %s", n, out)
		}
		return err
	})
	for _, pod := range c.pods("app=busy") {
		c.kubectl("exec", pod.Name, "--", "touch", "/tmp/stop")
	}
	c.kill(syscall.SIGKILL)
	c.start()
	c.until("one pod without load", 2*time.Minute, c.ready("app=busy", 1))
}

// top returns nil if the first line of kubectl top has at least so many thousandths of a CPU, and memory.
func (c *cluster) top(least int, args ...string) error {
	out, err := c.api.Kubectl(c.t.Context(), args...)
	if err != nil {
		return err
	}
	fields := strings.Fields(out) // NAME CPU(cores) [CPU%] MEMORY(bytes)...
	if len(fields) < 3 {
		return errors.New(out)
	}
	milli, err := strconv.Atoi(strings.TrimSuffix(fields[1], "m"))
	if err != nil || milli < least || !strings.Contains(out, "Mi") {
		return fmt.Errorf("%s: %w", out, err)
	}
	return nil
}
