//go:build containerd

package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/internal/containerdtest"
	"github.com/podwright/podwright/internal/patience"
)

// onContainerd starts a private containerd and returns it with the arguments of an
// agent that uses it, and the folder of manifests.
func onContainerd(t *testing.T) (runtime *containerdtest.Instance, manifests string, args []string) {
	t.Helper()
	runtime = containerdtest.Start(t)
	manifests = t.TempDir()
	return runtime, manifests, []string{"--manifests", manifests, "--root", t.TempDir(), "--runtime", runtime.Endpoint}
}

// criID is what the runtime itself calls a container of a status.
func criID(status string) string {
	_, id, _ := strings.Cut(status, "://")
	return id
}

// beside runs a test that mostly waits at the same time as others of its kind. A
// runtime of its own is what keeps them apart.
func beside(t *testing.T) {
	if os.Getenv(containerdtest.EndpointVariable) == "" {
		t.Parallel()
	}
}

// TestContainerdLife: pods run, end, fail and crash on a real runtime.
func TestContainerdLife(t *testing.T) {
	beside(t)
	runtime, manifests, args := onContainerd(t)
	writeManifest(t, manifests, "steady.yaml", pod("steady", runtime.Image, "sleep 1000"))
	writeManifest(t, manifests, "done.yaml", pod("done", runtime.Image, "exit 0", "  restartPolicy: Never"))
	writeManifest(t, manifests, "failed.yaml", pod("failed", runtime.Image, "echo broken >&2; exit 42", "  restartPolicy: Never"))
	writeManifest(t, manifests, "crash.yaml", pod("crash", runtime.Image, "exit 1"))
	a := startAgent(t, args...)

	steady := a.awaitPhase("steady", v1.PodRunning)
	if steady.Status.PodIP == "" {
		t.Error("a running pod has no IP")
	}
	a.awaitPhase("done", v1.PodSucceeded)
	failed := a.awaitPhase("failed", v1.PodFailed)
	if end := failed.Status.ContainerStatuses[0].State.Terminated; end == nil || end.ExitCode != 42 || end.Reason != "Error" {
		t.Errorf("failed: container state %+v, want exit code 42 and reason Error", failed.Status.ContainerStatuses[0].State)
	}
	// Two restarts take at least 10 s of back-off: the count grows, the phase stays.
	a.awaitPod("crash", "CrashLoopBackOff after two restarts", func(p *v1.Pod) bool {
		return podStatus(p) == "CrashLoopBackOff" && p.Status.ContainerStatuses[0].RestartCount >= 2 && p.Status.Phase == v1.PodRunning
	})
	id := criID(containerIDs(steady)["main"])
	if running := runtime.Running(); !slices.Contains(running, id) {
		t.Errorf("the runtime runs %q, not container %s", running, id)
	}
	if code, body := a.get("/healthz"); code != 200 || body != "ok" {
		t.Errorf("/healthz: %d %q", code, body)
	}
}

// TestContainerdKillAgent: kill -9 of the agent changes nothing.
func TestContainerdKillAgent(t *testing.T) {
	beside(t)
	runtime, manifests, args := onContainerd(t)
	writeManifest(t, manifests, "steady.yaml", pod("steady", runtime.Image, "sleep 1000"))
	writeManifest(t, manifests, "twice.yaml", pod("twice", runtime.Image, "[ -e /data/second ] && exec sleep 1000; touch /data/second; exit 1",
		"    volumeMounts: [{name: data, mountPath: /data}]", "  volumes: [{name: data, emptyDir: {}}]"))
	a := startAgent(t, args...)
	steady := a.awaitPhase("steady", v1.PodRunning)
	restarted := func(p *v1.Pod) bool {
		return len(p.Status.ContainerStatuses) == 1 && p.Status.ContainerStatuses[0].RestartCount == 1 && p.Status.ContainerStatuses[0].State.Running != nil
	}
	twice := a.awaitPod("twice", "running after one restart", restarted)
	held := runtime.Containers()
	a.kill()

	b := startAgent(t, args...)
	if got, want := containerIDs(b.awaitPhase("steady", v1.PodRunning)), containerIDs(steady); !reflect.DeepEqual(got, want) {
		t.Errorf("steady: containers %v, before %v", got, want)
	}
	if got, want := containerIDs(b.awaitPod("twice", "running after one restart", restarted)), containerIDs(twice); !reflect.DeepEqual(got, want) {
		t.Errorf("twice: containers %v, before %v", got, want)
	}
	if after := runtime.Containers(); !slices.Equal(after, held) {
		t.Errorf("containers in the runtime changed from\n%q\nto\n%q", held, after)
	}
}

// TestContainerdKillRuntime: kill -9 of containerd, and the agent finds its way
// back.
func TestContainerdKillRuntime(t *testing.T) {
	beside(t)
	runtime, manifests, args := onContainerd(t)
	runtime.NeedPrivate(t, "kills the runtime")
	writeManifest(t, manifests, "steady.yaml", pod("steady", runtime.Image, "sleep 1000"))
	a := startAgent(t, args...)
	before := a.awaitPhase("steady", v1.PodRunning)
	runtime.Kill9()
	await(t, "/healthz to say that the runtime is down", func() error {
		if code, body := a.get("/healthz"); code != 500 || body == "" {
			return fmt.Errorf("%d %q", code, body)
		}
		return nil
	})
	late := writeManifest(t, manifests, "late.yaml", pod("late", runtime.Image, "sleep 1000"))
	runtime.Restart()
	a.awaitPhase("late", v1.PodRunning)
	await(t, "/healthz to be ok again", func() error {
		if code, body := a.get("/healthz"); code != 200 {
			return fmt.Errorf("%d %q", code, body)
		}
		return nil
	})
	after := a.awaitPhase("steady", v1.PodRunning)
	if got, want := containerIDs(after), containerIDs(before); !reflect.DeepEqual(got, want) {
		t.Logf("steady was restored with containers %v, before %v", got, want)
	}
	// One sandbox and one container for each of the two pods.
	if running := runtime.Running(); len(running) != 4 {
		t.Errorf("%d sandboxes and containers run, want 4: %q", len(running), running)
	}
	remove(t, late)
	a.awaitGone("late")
}

// TestContainerdDeleteManifest: the container hears SIGTERM right away, and
// nothing stays behind.
func TestContainerdDeleteManifest(t *testing.T) {
	beside(t)
	runtime, manifests, args := onContainerd(t)
	marks := t.TempDir()
	path := writeManifest(t, manifests, "polite.yaml", pod("polite", runtime.Image,
		"trap 'date +%s.%N > /marks/term; sleep 1; exit 0' TERM; touch /marks/up; while :; do sleep 0.02; done",
		"    volumeMounts: [{name: marks, mountPath: /marks}]",
		"  terminationGracePeriodSeconds: 20",
		"  volumes: [{name: marks, hostPath: {path: "+marks+"}}]"))
	a := startAgent(t, args...)
	a.awaitPhase("polite", v1.PodRunning)
	await(t, "the container to set its trap", func() error {
		_, err := os.Stat(filepath.Join(marks, "up"))
		return err
	})
	deleted := time.Now()
	remove(t, path)
	await(t, "SIGTERM", func() error {
		_, err := os.Stat(filepath.Join(marks, "term"))
		return err
	})
	heard := time.Since(deleted)
	if heard > patience.Of(5*time.Second) { // the folder is read every 20 s in any case
		t.Errorf("SIGTERM came %v after the removal of the manifest", heard)
	}
	await(t, "the runtime to be empty", func() error {
		if left := runtime.Containers(); len(left) > 0 {
			return fmt.Errorf("%q are left", left)
		}
		return nil
	})
	t.Logf("SIGTERM %v after the removal of the manifest, runtime empty after %v (the container took 1 s to stop)",
		heard.Round(time.Millisecond), time.Since(deleted).Round(time.Millisecond))
	a.awaitGone("polite")
}

// TestContainerdLeftovers: what was deleted while no agent ran is cleaned up by
// the next one, and what belongs to others is not touched.
func TestContainerdLeftovers(t *testing.T) {
	beside(t)
	runtime, manifests, args := onContainerd(t)
	path := writeManifest(t, manifests, "gone.yaml", pod("gone", runtime.Image, "sleep 1000"))
	writeManifest(t, manifests, "stays.yaml", pod("stays", runtime.Image, "sleep 1000"))
	a := startAgent(t, args...)
	a.awaitPhase("gone", v1.PodRunning)
	stays := a.awaitPhase("stays", v1.PodRunning)
	a.kill()
	remove(t, path)

	// Another agent's folder and name: its pods are foreign to ours.
	otherManifests := t.TempDir()
	writeManifest(t, otherManifests, "foreign.yaml", pod("foreign", runtime.Image, "sleep 1000"))
	other := startAgent(t, "--manifests", otherManifests, "--root", t.TempDir(), "--runtime", runtime.Endpoint, "--node-name", "n2")
	await(t, "the foreign pod to run", func() error {
		if p := other.pods()["foreign"]; p == nil || p.Status.Phase != v1.PodRunning {
			return errors.New("not yet")
		}
		return nil
	})

	b := startAgent(t, args...)
	await(t, "the left-over pod to be removed", func() error {
		// Two pods of one sandbox and one container each are left.
		if ids := runtime.Containers(); len(ids) != 4 {
			return fmt.Errorf("%d containers", len(ids))
		}
		return nil
	})
	if got, want := containerIDs(b.awaitPhase("stays", v1.PodRunning)), containerIDs(stays); !reflect.DeepEqual(got, want) {
		t.Errorf("stays: containers %v, before %v", got, want)
	}
	if p := other.pods()["foreign"]; p == nil || p.Status.Phase != v1.PodRunning {
		t.Error("the foreign pod was harmed")
	}
}
