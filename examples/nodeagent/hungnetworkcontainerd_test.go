//go:build containerd

package main

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/internal/patience"
)

// TestContainerdHungNetwork: IN1: the network plugin hangs for one pod. Others start in
// time, the explanation of the pod says what it waits for, the agent ends in time although
// the call is under way, and when the plugin goes on all that is left of the pod is removed.
func TestContainerdHungNetwork(t *testing.T) {
	runtime, manifests, args := onContainerd(t)
	root := args[3]
	release := runtime.HangNetwork("hung-n1")
	a := startAgent(t, args...)
	others := runBystanders(t, runtime, a, manifests, 3)
	parent := "podwright-none" // no cgroups of pods
	empty := inventory(t, runtime, root, parent)
	hung := pod("hung", runtime.Image, "sleep 100000", "  terminationGracePeriodSeconds: 1")
	writeManifest(t, manifests, "hung.yaml", hung)
	a.awaitPod("hung", "waiting", func(p *v1.Pod) bool {
		return len(p.Status.ContainerStatuses) == 1 && p.Status.ContainerStatuses[0].State.Waiting != nil
	})
	for _, name := range []string{"late-0", "late-1", "late-2"} {
		startsNetworkInTime(t, a, manifests, name, runtime.Image)
	}
	if p := a.pods()["hung"]; p.Status.Phase != v1.PodPending {
		t.Errorf("the pod whose network hangs is %s", p.Status.Phase)
	}
	_, text := a.get("/explain/default/hung-n1")
	t.Logf("explanation: %s", text)
	if !strings.Contains(text, "SyncPod") {
		t.Errorf("the explanation of a pod whose network hangs: %s", text)
	}

	// The agent ends although the call does not.
	began := time.Now()
	if code := a.terminate(); code != 0 {
		t.Errorf("the agent ended with exit code %d", code)
	}
	if took := time.Since(began); took > patience.Of(5*time.Second) {
		t.Errorf("the agent took %v to end", took)
	}
	b := startAgent(t, args...)
	others.check(b)

	// Its removal ends clean once the plugin goes on.
	remove(t, filepath.Join(manifests, "hung.yaml"))
	startsNetworkInTime(t, b, manifests, "late-3", runtime.Image)
	release()
	b.awaitGone("hung")
	t.Logf("gone %v after the end of the agent", time.Since(began).Round(time.Millisecond))
	for _, name := range []string{"late-0", "late-1", "late-2", "late-3"} {
		remove(t, filepath.Join(manifests, name+".yaml"))
		b.awaitGone(name)
	}
	awaitInventory(t, "as much of everything as before the pod came", runtime, root, parent, empty)
	others.check(b)
}

// startsNetworkInTime is startsInTime for a pod with a network of its own.
func startsNetworkInTime(t *testing.T, a *testAgent, manifests, name, image string) {
	t.Helper()
	began := time.Now()
	writeManifest(t, manifests, name+".yaml", pod(name, image, "sleep 100000", "  terminationGracePeriodSeconds: 1"))
	p := a.awaitPhase(name, v1.PodRunning)
	took := time.Since(began)
	t.Logf("%s runs with address %s after %v", name, p.Status.PodIP, took.Round(time.Millisecond))
	if limit := patience.Of(5 * time.Second); took > limit || p.Status.PodIP == "" {
		t.Errorf("%s runs with address %q after %v, want an address within %v", name, p.Status.PodIP, took, limit)
	}
}
