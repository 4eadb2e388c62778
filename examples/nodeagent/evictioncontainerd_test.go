//go:build containerd

package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/internal/containerdtest"
)

// TestContainerdEviction: syncloop.md 16: memory runs out in a limited cgroup, and the
// pod that took it goes; the Guaranteed one is not touched.
func TestContainerdEviction(t *testing.T) {
	beside(t)
	runtime, manifests, args := onContainerd(t)
	parent := cgroupParent(t)
	a := startAgent(t, append(args, "--pod-cgroups", parent, "--eviction-hard", "memory.available<96Mi")...)
	await(t, "the limited cgroup", func() error {
		all, err := containerdtest.CgroupNamed(parent)
		if err != nil {
			return err
		}
		return all.SetMemory(192 << 20)
	})

	writeManifest(t, manifests, "quiet.yaml", pod("quiet", runtime.Image, "sleep 1000")+`    resources:
      requests: {cpu: 100m, memory: 32Mi}
      limits: {cpu: 100m, memory: 32Mi}
`)
	quiet := a.awaitPhase("quiet", v1.PodRunning)
	if quiet.Status.QOSClass != v1.PodQOSGuaranteed {
		t.Fatalf("QoS class %s", quiet.Status.QOSClass)
	}
	// What tail keeps of zeros that do not end is 120 MiB of the hog's own memory.
	writeManifest(t, manifests, "hog.yaml", pod("hog", runtime.Image, "(head -c 125829120 /dev/zero; sleep 1000) | tail -c 125829120"))
	hog := a.awaitPod("hog", "Failed for the reason Evicted", func(p *v1.Pod) bool {
		return p.Status.Phase == v1.PodFailed && p.Status.Reason == "Evicted"
	})
	if m := hog.Status.Message; !strings.Contains(m, "low on resource: memory. Threshold quantity: 96Mi") || !strings.Contains(m, "its request is 0") {
		t.Errorf("message %q", m)
	}
	disrupted := false
	for _, c := range hog.Status.Conditions {
		disrupted = disrupted || c.Type == v1.DisruptionTarget && c.Status == v1.ConditionTrue
	}
	if !disrupted {
		t.Errorf("no condition DisruptionTarget: %+v", hog.Status.Conditions)
	}
	a.awaitPod("hog", "its container ended", func(p *v1.Pod) bool {
		return p.Status.Phase == v1.PodFailed && p.Status.ContainerStatuses[0].State.Terminated != nil
	})
	awaitNoCgroup(t, parent, "besteffort") // the hog's memory is free
	after := a.awaitPhase("quiet", v1.PodRunning)
	if containerIDs(after)["main"] != containerIDs(quiet)["main"] || after.Status.ContainerStatuses[0].RestartCount != 0 {
		t.Errorf("the other pod was touched: %+v", after.Status.ContainerStatuses[0])
	}
	if text := a.log(); !strings.Contains(text, "Evicted") || strings.Count(text, "Evicting a pod") != 1 {
		t.Error("want exactly one eviction in the log")
	}
	remove(t, filepath.Join(manifests, "hog.yaml"))
	remove(t, filepath.Join(manifests, "quiet.yaml"))
	a.awaitGone("hog")
	a.awaitGone("quiet")
	awaitNoCgroup(t, parent, "")
}

// TestContainerdDefaults: the file system of images is watched wherever the runtime has it
// (syncloop.md 16), and a container without a seccomp profile has the runtime's (runtime.md
// 14.5), unless the flags say otherwise.
func TestContainerdDefaults(t *testing.T) {
	beside(t)
	runtime, manifests, args := onContainerd(t)
	const filtered, unfiltered = "Seccomp:\t2", "Seccomp:\t0"
	marks := t.TempDir()
	writeProfile := func(name string) {
		t.Helper()
		writeManifest(t, manifests, name+".yaml", pod(name, runtime.Image, "grep Seccomp: /proc/self/status >/marks/"+name+"; exec sleep 1000",
			"    volumeMounts: [{name: marks, mountPath: /marks}]", "  volumes: [{name: marks, hostPath: {path: "+marks+"}}]", "  terminationGracePeriodSeconds: 1"))
	}
	profileOf := func(name, want string) {
		t.Helper()
		await(t, name+" to have "+want, func() error {
			text, err := os.ReadFile(filepath.Join(marks, name))
			if err == nil && strings.TrimSpace(string(text)) != want {
				err = fmt.Errorf("it has %q", text)
			}
			return err
		})
	}
	a := startAgent(t, args...)
	writeProfile("filtered")
	profileOf("filtered", filtered)
	a.terminate()
	a = startAgent(t, append(args, "--seccomp-default=false")...)
	writeProfile("free")
	profileOf("free", unfiltered)
	a.terminate()

	a = startAgent(t, append(args, "--eviction-hard", "imagefs.available<100%", "--drain")...)
	await(t, "pressure on the images' disk", func() error {
		if !strings.Contains(a.log(), "EvictionThresholdMet") {
			return errors.New("not yet")
		}
		return nil
	})
	a.terminate()
}
