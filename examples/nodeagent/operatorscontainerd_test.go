//go:build containerd

package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/internal/patience"
)

// TestContainerdSecondAgent: as TestSecondAgent, where only the engine's own lock
// keeps the second agent out.
func TestContainerdSecondAgent(t *testing.T) {
	beside(t)
	runtime, manifests, args := onContainerd(t)
	writeManifest(t, manifests, "steady.yaml", pod("steady", runtime.Image, "sleep 1000"))
	a := startAgent(t, args...)
	a.awaitPhase("steady", v1.PodRunning)
	second := launch(t, args...)
	if code := second.wait(); code != 1 {
		t.Errorf("the second agent ended with exit code %d, want 1", code)
	}
	if text := second.log(); !strings.Contains(text, "is in use by another nodeagent") {
		t.Errorf("the second agent said %q", text)
	}
	if code, body := a.get("/healthz"); code != 200 {
		t.Errorf("/healthz of the first: %d %q", code, body)
	}
}

// TestContainerdStopInStorm: SIGTERM while many pods start ends the agent at once,
// and the next one takes up where it stopped.
func TestContainerdStopInStorm(t *testing.T) {
	const n = 20
	runtime, manifests, args := onContainerd(t)
	a := startAgent(t, args...)
	for i := range n {
		name := fmt.Sprintf("p%d", i)
		// A lost start would be the only one.
		writeManifest(t, manifests, name+".yaml", pod(name, runtime.Image, "exec sleep 1000", "  restartPolicy: Never"))
	}
	await(t, "a pod to run", func() error {
		for _, p := range a.pods() {
			if p.Status.Phase == v1.PodRunning {
				return nil
			}
		}
		return errors.New("none does")
	})
	began := time.Now()
	if code := a.terminate(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	took := time.Since(began)
	t.Logf("ended after %v", took)
	if took > patience.Of(5*time.Second) {
		t.Errorf("ended after %v", took)
	}
	b := startAgent(t, args...)
	await(t, "all pods to run", func() error {
		running := 0
		for _, p := range b.pods() {
			if p.Status.Phase == v1.PodRunning {
				running++
			}
		}
		if running < n {
			return fmt.Errorf("%d run", running)
		}
		return nil
	})
	await(t, "one sandbox and one running container for each pod, and nothing else", func() error {
		if all, running := runtime.Containers(), runtime.Running(); len(all) != 2*n || len(running) != 2*n {
			return fmt.Errorf("%d sandboxes and containers, of which %d run; want %d: %q", len(all), len(running), 2*n, all)
		}
		return nil
	})
}

// TestContainerdDiskFull: on a full disk a new pod does not start, those that run go
// on, and with room again everything is well.
func TestContainerdDiskFull(t *testing.T) {
	beside(t)
	runtime, manifests, args := onContainerd(t)
	root := args[3]
	if err := unix.Mount("podwright-test", root, "tmpfs", 0, "size=256k"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(root, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	writeManifest(t, manifests, "before.yaml", pod("before", runtime.Image, "exec sleep 1000"))
	a := startAgent(t, args...)
	before := a.awaitPhase("before", v1.PodRunning)

	filler := filepath.Join(root, "filler")
	f, err := os.Create(filler)
	if err != nil {
		t.Fatal(err)
	}
	for err == nil {
		_, err = f.Write(make([]byte, 512))
	}
	if !errors.Is(err, unix.ENOSPC) {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	writeManifest(t, manifests, "late.yaml", pod("late", runtime.Image, "exec sleep 1000"))
	await(t, "the log to name the reason", func() error {
		if strings.Contains(a.log(), "no space left on device") {
			return nil
		}
		return errors.New("it does not")
	})
	await(t, "/healthz to say what is wrong", func() error {
		if code, body := a.get("/healthz"); code != 500 || !strings.Contains(body, "checkpoints fail") {
			return fmt.Errorf("%d %q", code, body)
		}
		return nil
	})
	// A restart on the full disk must not harm what runs.
	a.kill()
	b := startAgent(t, args...)
	after := b.awaitPhase("before", v1.PodRunning)
	if containerIDs(before)["main"] != containerIDs(after)["main"] {
		t.Errorf("containers changed from %v to %v", containerIDs(before), containerIDs(after))
	}
	remove(t, filler)
	b.awaitPhase("late", v1.PodRunning)
	await(t, "/healthz to be well again", func() error {
		if code, body := b.get("/healthz"); code != 200 {
			return fmt.Errorf("%d %q", code, body)
		}
		return nil
	})
	if code := b.terminate(); code != 0 {
		t.Errorf("exit code %d", code)
	}
}

// TestContainerdDrainStubborn: --drain ends a pod that ignores SIGTERM after its
// grace period, and leaves nothing in the runtime.
func TestContainerdDrainStubborn(t *testing.T) {
	beside(t)
	runtime, manifests, args := onContainerd(t)
	writeManifest(t, manifests, "stubborn.yaml", pod("stubborn", runtime.Image, "trap '' TERM; while :; do sleep 0.1; done", "  terminationGracePeriodSeconds: 2"))
	writeManifest(t, manifests, "crash.yaml", pod("crash", runtime.Image, "exit 1"))
	writeManifest(t, manifests, "none.yaml", pod("none", "localhost/none:1", "exit 1"))
	a := startAgent(t, append(args, "--drain")...)
	a.awaitPhase("stubborn", v1.PodRunning)
	began := time.Now()
	if code := a.terminate(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	if took := time.Since(began); took < 2*time.Second {
		t.Errorf("drained after %v, before the grace period of 2 s ended", took)
	}
	if left := runtime.Containers(); len(left) > 0 {
		t.Errorf("left in the runtime: %q", left)
	}
}

// TestContainerdStopWithoutRuntime: an agent whose runtime is down ends at once, and
// one that is to drain says which pods it could not stop once it is told to give up.
func TestContainerdStopWithoutRuntime(t *testing.T) {
	beside(t)
	runtime, manifests, args := onContainerd(t)
	runtime.NeedPrivate(t, "kills the runtime")
	writeManifest(t, manifests, "steady.yaml", pod("steady", runtime.Image, "exec sleep 1000"))
	a := startAgent(t, args...)
	before := a.awaitPhase("steady", v1.PodRunning)
	runtime.Kill9()
	began := time.Now()
	if code := a.terminate(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	if took := time.Since(began); took > patience.Of(10*time.Second) {
		t.Errorf("ended after %v", took)
	}

	late := launch(t, args...)
	if code := late.wait(); code != 1 {
		t.Errorf("an agent without a runtime ended with exit code %d, want 1", code)
	}
	if text := late.log(); !strings.Contains(text, "is the runtime running") {
		t.Errorf("it said %q", text)
	}

	runtime.Restart()
	b := startAgent(t, append(args, "--drain")...)
	after := b.awaitPhase("steady", v1.PodRunning)
	if containerIDs(before)["main"] != containerIDs(after)["main"] {
		t.Errorf("containers changed from %v to %v", containerIDs(before), containerIDs(after))
	}
	runtime.Kill9()
	if err := b.cmd.Process.Signal(unix.SIGTERM); err != nil {
		t.Fatal(err)
	}
	await(t, "the drain to fail at first", func() error {
		if strings.Contains(b.log(), "stopping all pods") && strings.Contains(b.log(), "unavailable") {
			return nil
		}
		return errors.New("not yet")
	})
	runtime.Restart()
	// It goes on trying, and ends when the pod is gone.
	if code := b.wait(); code != 0 {
		t.Errorf("draining: exit code %d", code)
	}
	if left := runtime.Containers(); len(left) > 0 {
		t.Errorf("left in the runtime: %q", left)
	}
}
