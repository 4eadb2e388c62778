//go:build containerd

package main

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/internal/containerdtest"
	"github.com/podwright/podwright/internal/patience"
)

// TestContainerdDeafPods: IN1: 40 pods that ignore SIGTERM and have an hour to stop are
// removed at once. Each hears of it within 2 s, and no other pod notices: new ones start,
// one that ends is restarted at its back-off, one that is removed stops.
func TestContainerdDeafPods(t *testing.T) {
	const deaf = 40
	runtime, manifests, args := onContainerd(t)
	marks := t.TempDir()
	a := startAgent(t, args...)
	others := runBystanders(t, runtime, a, manifests, 10)
	restarts := restartsInTime(t, runtime, a, manifests, marks)
	writeManifest(t, manifests, "polite.yaml", pod("polite", runtime.Image, "trap 'exit 0' TERM; while :; do sleep 0.1; done", marking(marks)...))
	var names []string
	for i := range deaf {
		name := fmt.Sprintf("deaf-%d", i)
		writeManifest(t, manifests, name+".yaml", pod(name, runtime.Image,
			fmt.Sprintf("trap 'touch /marks/%s.told' TERM; touch /marks/%s.up; while :; do sleep 100000 & wait $!; done", name, name),
			marking(marks, "  terminationGracePeriodSeconds: 3600")...))
		names = append(names, name)
	}
	for _, name := range names {
		marked(t, longest, marks, name+".up")
	}
	polite := a.awaitPhase("polite", v1.PodRunning)

	for _, name := range names {
		remove(t, filepath.Join(manifests, name+".yaml"))
	}
	removed := time.Now()
	var waits []time.Duration
	for _, name := range names {
		waits = append(waits, marked(t, longest, marks, name+".told").Sub(removed))
	}
	slices.Sort(waits)
	t.Logf("they heard SIGTERM after %v to %v, half of them after %v", waits[0], waits[deaf-1], waits[deaf/2])
	if limit := patience.Of(2 * time.Second); waits[deaf-1] > limit {
		t.Errorf("a pod heard after %v that it must stop, want %v at most", waits[deaf-1], limit)
	}
	if _, text := a.get("/explain/default/" + names[deaf-1] + "-n1"); !strings.Contains(text, "Terminating") {
		t.Errorf("the explanation of a pod that is being stopped: %s", text)
	}

	startsInTime(t, runtime, a, manifests, "late", patience.Of(5*time.Second))
	began := time.Now()
	remove(t, filepath.Join(manifests, "polite.yaml"))
	a.awaitGone("polite")
	if took := time.Since(began); took > patience.Of(5*time.Second) {
		t.Errorf("pod %s with containers %v was gone %v after its removal", polite.Name, containerIDs(polite), took)
	}
	restarts()
	others.check(a)

	began = time.Now()
	shown := a.pods()
	for _, name := range names {
		if shown[name] == nil || shown[name].DeletionTimestamp == nil {
			t.Errorf("%s is not shown as one that is being removed", name)
		}
	}
	killAll(t, runtime, shown, names)
	for _, name := range names {
		a.awaitGone(name)
	}
	t.Logf("all were gone %v after SIGKILL", time.Since(began).Round(time.Millisecond))
	others.check(a)
}

// killAll kills the processes of containers past the agent.
func killAll(t *testing.T, runtime *containerdtest.Instance, pods map[string]*v1.Pod, names []string) {
	t.Helper()
	for _, name := range names {
		p := pods[name]
		if p == nil {
			continue
		}
		id := criID(containerIDs(p)["main"])
		if err := syscall.Kill(runtime.PIDOf(id), syscall.SIGKILL); err != nil {
			t.Fatalf("kill the process of container %s: %v", id, err)
		}
	}
}
