//go:build containerd

package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

var (
	probeKills = flag.Int("probes.kills", 5, "how often TestContainerdProbesKill kills the agent")
	probePods  = flag.Int("probes.pods", 30, "how many probed pods it has")
)

// isReady returns a pod's Ready condition.
func isReady(p *v1.Pod) bool {
	for _, c := range p.Status.Conditions {
		if c.Type == v1.PodReady {
			return c.Status == v1.ConditionTrue
		}
	}
	return false
}

// TestContainerdProbes: each kind of probe does what it is for on a real runtime.
func TestContainerdProbes(t *testing.T) {
	beside(t)
	runtime, manifests, args := onContainerd(t)
	data := "    volumeMounts: [{name: data, mountPath: /data}]"
	volume := "  volumes: [{name: data, emptyDir: {}}]"
	// Readiness over http, from the node into the pod's network.
	writeManifest(t, manifests, "web.yaml", pod("web", runtime.Image, "mkdir /tmp/w; sleep 2; echo ok >/tmp/w/ok; exec busybox httpd -f -p 8080 -h /tmp/w",
		"    ports: [{name: web, containerPort: 8080}]",
		"    readinessProbe: {httpGet: {port: web, path: /ok}, timeoutSeconds: 30, periodSeconds: 1}"))
	// Liveness that begins to fail, once; SIGTERM is not heeded, and the pod has an hour.
	writeManifest(t, manifests, "sick.yaml", pod("sick", runtime.Image, "trap '' TERM; echo >>/data/starts; while :; do sleep 0.1; done",
		`    livenessProbe: {exec: {command: [sh, -c, "[ $(wc -l </data/starts) -gt 1 ]"]}, initialDelaySeconds: 1, timeoutSeconds: 30, periodSeconds: 1, failureThreshold: 2, terminationGracePeriodSeconds: 3}`,
		data, volume, "  terminationGracePeriodSeconds: 3600"))
	// A startup probe that takes 4 s, and a liveness probe that would kill before.
	writeManifest(t, manifests, "slow.yaml", pod("slow", runtime.Image, "sleep 4; touch /data/up; exec sleep 1000",
		`    startupProbe: {exec: {command: [test, -e, /data/up]}, timeoutSeconds: 30, periodSeconds: 1, failureThreshold: 60}`,
		`    livenessProbe: {exec: {command: [test, -e, /data/up]}, timeoutSeconds: 30, periodSeconds: 1, failureThreshold: 1}`,
		data, volume))
	// A sidecar whose startup probe gates the next init container.
	writeManifest(t, manifests, "side.yaml", pod("side", runtime.Image, "exec sleep 1000", "  initContainers:",
		fmt.Sprintf("  - {name: helper, image: %s, restartPolicy: Always, command: [sh, -c, 'sleep 3; touch /data/up; exec sleep 1000'], volumeMounts: [{name: data, mountPath: /data}], startupProbe: {exec: {command: [test, -e, /data/up]}, timeoutSeconds: 30, periodSeconds: 1, failureThreshold: 60}}", runtime.Image),
		fmt.Sprintf("  - {name: next, image: %s, command: [test, -e, /data/up], volumeMounts: [{name: data, mountPath: /data}]}", runtime.Image),
		volume))
	a := startAgent(t, args...)

	a.awaitPod("web", "ready", isReady)
	begin := time.Now()
	restarted := a.awaitPod("sick", "restarted once", func(p *v1.Pod) bool {
		return len(p.Status.ContainerStatuses) == 1 && p.Status.ContainerStatuses[0].RestartCount == 1 && p.Status.ContainerStatuses[0].State.Running != nil
	})
	last := restarted.Status.ContainerStatuses[0].LastTerminationState.Terminated
	if last == nil || last.ExitCode != 137 {
		t.Errorf("sick: it ended as %+v, want a SIGKILL after the probe's 3 s", last)
	} else if took := last.FinishedAt.Sub(last.StartedAt.Time); took < 4*time.Second {
		t.Errorf("sick: it ended %v after its start", took)
	}
	if !strings.Contains(a.log(), "Unhealthy") {
		t.Error("sick: no Unhealthy event")
	}
	slow := a.awaitPod("slow", "ready", isReady)
	if c := slow.Status.ContainerStatuses[0]; c.RestartCount != 0 || c.Started == nil || !*c.Started {
		t.Errorf("slow: %+v", c)
	}
	side := a.awaitPod("side", "running", isReady)
	for _, c := range side.Status.InitContainerStatuses {
		if c.Name == "next" && (c.RestartCount != 0 || c.State.Terminated == nil || c.State.Terminated.ExitCode != 0) {
			t.Errorf("side: the next init container did not wait: %+v", c)
		}
	}
	// The restarted one stays: its probe succeeds now.
	await(t, "10 s of peace", func() error {
		if time.Since(begin) < 10*time.Second {
			return errors.New("not yet")
		}
		return nil
	})
	if c := a.pods()["sick"].Status.ContainerStatuses[0]; c.RestartCount != 1 || c.State.Running == nil {
		t.Errorf("sick: %+v", c)
	}
}

// readyChanges reads a file of statuses and returns how often Ready changed per pod
// after it was True first.
func readyChanges(t *testing.T, path string) map[types.UID][]string {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	was := map[types.UID]v1.ConditionStatus{}
	changes := map[types.UID][]string{}
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var line struct {
			Time   time.Time
			UID    types.UID
			Name   string
			Status v1.PodStatus
		}
		if err := json.Unmarshal(lines.Bytes(), &line); err != nil {
			continue // the last line of an agent that was killed
		}
		for _, c := range line.Status.Conditions {
			if c.Type != v1.PodReady {
				continue
			}
			if old, ok := was[line.UID]; ok && old != c.Status && old == v1.ConditionTrue || ok && old != c.Status && len(changes[line.UID]) > 0 {
				changes[line.UID] = append(changes[line.UID], fmt.Sprintf("%s %s: %s (%s)", line.Time.Format(time.RFC3339Nano), line.Name, c.Status, c.Message))
			}
			was[line.UID] = c.Status
		}
	}
	return changes
}

// TestContainerdProbesKill: kill -9 of the agent, again and again, changes the
// readiness of no pod: no status with another Ready leaves the agent.
func TestContainerdProbesKill(t *testing.T) {
	runtime, manifests, args := onContainerd(t)
	statuses := filepath.Join(t.TempDir(), "statuses")
	args = append(args, "--statuses", statuses)
	probes := []string{
		"    readinessProbe: {exec: {command: [test, -e, /tmp]}, timeoutSeconds: 30, periodSeconds: 5}",
		"    readinessProbe: {tcpSocket: {port: 8080}, timeoutSeconds: 30, periodSeconds: 5}",
		"    readinessProbe: {httpGet: {port: 8080, path: /}, timeoutSeconds: 30, periodSeconds: 5}",
	}
	for i := range *probePods {
		name := fmt.Sprintf("p%02d", i)
		writeManifest(t, manifests, name+".yaml", pod(name, runtime.Image, "mkdir /tmp/w; echo ok >/tmp/w/index.html; exec busybox httpd -f -p 8080 -h /tmp/w",
			probes[i%len(probes)],
			"    startupProbe: {tcpSocket: {port: 8080}, timeoutSeconds: 30, periodSeconds: 1, failureThreshold: 60}",
			"    livenessProbe: {tcpSocket: {port: 8080}, timeoutSeconds: 30, periodSeconds: 5}"))
	}
	a := startAgent(t, args...)
	allReady := func() {
		t.Helper()
		await(t, "every pod to be ready", func() error {
			n := 0
			for _, p := range a.pods() {
				if isReady(p) {
					n++
				}
			}
			if n != *probePods {
				return fmt.Errorf("%d of %d", n, *probePods)
			}
			return nil
		})
	}
	allReady()
	ids := map[string]string{}
	for name, p := range a.pods() {
		ids[name] = containerIDs(p)["main"]
	}
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for i := range *probeKills {
		// At all moments of a start: now before it has read anything, now well after.
		for range i % 4 {
			<-tick.C
		}
		a.kill()
		a = startAgent(t, args...)
	}
	allReady()
	for range 12 { // every probe has run
		<-tick.C
	}
	for uid, list := range readyChanges(t, statuses) {
		t.Errorf("%s: Ready changed: %s", uid, strings.Join(list, "; "))
	}
	for name, p := range a.pods() {
		if !isReady(p) || containerIDs(p)["main"] != ids[name] || p.Status.ContainerStatuses[0].RestartCount != 0 {
			t.Errorf("%s: ready %v, container %s, before %s", name, isReady(p), containerIDs(p)["main"], ids[name])
		}
	}
}
