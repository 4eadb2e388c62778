package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/internal/patience"
)

// What operators do to agents, on the process runtime.

// TestSecondAgent: two agents on one folder would fight; the second says so and
// ends, and the first does not notice.
func TestSecondAgent(t *testing.T) {
	t.Parallel()
	manifests := t.TempDir()
	args := []string{"--manifests", manifests, "--root", t.TempDir()}
	drainAtEnd(t, args...)
	writeManifest(t, manifests, "steady.yaml", pod("steady", "host", "sleep 1000"))
	a := startAgent(t, args...)
	before := a.awaitPhase("steady", v1.PodRunning)
	second := launch(t, args...)
	if code := second.wait(); code != 1 {
		t.Errorf("the second agent ended with exit code %d, want 1", code)
	}
	if text := second.log(); !strings.Contains(text, "is in use by another nodeagent") {
		t.Errorf("the second agent said %q", text)
	}
	after := a.awaitPhase("steady", v1.PodRunning)
	if containerIDs(before)["main"] != containerIDs(after)["main"] {
		t.Errorf("containers changed from %v to %v", containerIDs(before), containerIDs(after))
	}
	if code, body := a.get("/healthz"); code != 200 {
		t.Errorf("/healthz of the first: %d %q", code, body)
	}
}

// TestStrangeFiles: what is no manifest is named in the log, and blocks nothing.
func TestStrangeFiles(t *testing.T) {
	t.Parallel()
	manifests := t.TempDir()
	args := []string{"--manifests", manifests, "--root", t.TempDir()}
	drainAtEnd(t, args...)
	if err := syscall.Mkfifo(filepath.Join(manifests, "a-fifo.yaml"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/dev/zero", filepath.Join(manifests, "b-device.yaml")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("b-loop.yaml", filepath.Join(manifests, "b-loop.yaml")); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(manifests, "c-folder.yaml"), 0o750); err != nil {
		t.Fatal(err)
	}
	huge := append([]byte(pod("huge", "host", "sleep 1000")+"\n#"), bytes.Repeat([]byte("x"), 11<<20)...)
	if err := os.WriteFile(filepath.Join(manifests, "d-huge.yaml"), huge, 0o600); err != nil {
		t.Fatal(err)
	}
	writeManifest(t, manifests, "steady.yaml", pod("steady", "host", "sleep 1000"))
	a := startAgent(t, args...)
	a.awaitPhase("steady", v1.PodRunning)
	for _, want := range []string{"a-fifo.yaml", "b-device.yaml", "b-loop.yaml", "c-folder.yaml", "d-huge.yaml"} {
		await(t, "the log to mention "+want, func() error {
			if strings.Contains(a.log(), want) {
				return nil
			}
			return errors.New("not yet")
		})
	}
	if n := len(a.pods()); n != 1 {
		t.Errorf("%d pods, want 1", n)
	}
}

// TestFolderComesAndGoes: without the folder nothing is desired; with it everything
// is again. Another file in its place changes nothing.
func TestFolderComesAndGoes(t *testing.T) {
	t.Parallel()
	manifests := filepath.Join(t.TempDir(), "manifests")
	if err := os.Mkdir(manifests, 0o750); err != nil {
		t.Fatal(err)
	}
	args := []string{"--manifests", manifests, "--root", t.TempDir()}
	text := pod("steady", "host", "exec sleep 1000", "  terminationGracePeriodSeconds: 2")
	writeManifest(t, manifests, "steady.yaml", text)
	a := startAgent(t, append(args, "--drain")...)
	a.awaitPhase("steady", v1.PodRunning)
	for range 2 {
		if err := os.RemoveAll(manifests); err != nil {
			t.Fatal(err)
		}
		a.awaitGone("steady")
		if err := os.Mkdir(manifests, 0o750); err != nil {
			t.Fatal(err)
		}
		writeManifest(t, manifests, "steady.yaml", text)
		a.awaitPhase("steady", v1.PodRunning)
	}
	if code := a.terminate(); code != 0 {
		t.Errorf("exit code %d", code)
	}
}

// TestManyAtOnce: 200 manifests appear, run, and vanish.
func TestManyAtOnce(t *testing.T) {
	t.Parallel()
	const n = 200
	parent := t.TempDir()
	manifests, staged := filepath.Join(parent, "manifests"), filepath.Join(parent, "staged")
	for _, dir := range []string{manifests, staged} {
		if err := os.Mkdir(dir, 0o750); err != nil {
			t.Fatal(err)
		}
	}
	root := t.TempDir()
	a := startAgent(t, "--manifests", manifests, "--root", root, "--drain", "--max-pods", "0")
	began := time.Now()
	for i := range n {
		name := fmt.Sprintf("p%d", i)
		writeManifest(t, manifests, name+".yaml", pod(name, "host", "exec sleep 1000"))
	}
	await(t, "200 pods to run", func() error {
		running := 0
		for _, p := range a.pods() {
			if p.Status.Phase == v1.PodRunning {
				running++
			}
		}
		if running < n {
			return fmt.Errorf("%d run", running)
		}
		return nil
	})
	t.Logf("%d pods run after %v", n, time.Since(began).Round(time.Millisecond))
	began = time.Now()
	if code := a.terminate(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	t.Logf("drained after %v", time.Since(began).Round(time.Millisecond))
	left, err := os.ReadDir(filepath.Join(root, "runtime", "containers"))
	if err != nil || len(left) != 0 {
		t.Errorf("%d containers left, %v", len(left), err)
	}
}

// TestSecondSignal: draining waits for a pod that ignores SIGTERM, a second signal
// ends the agent at once, and the next one finishes the drain.
func TestSecondSignal(t *testing.T) {
	t.Parallel()
	manifests, root := t.TempDir(), t.TempDir()
	args := []string{"--manifests", manifests, "--root", root, "--drain"}
	mark := filepath.Join(t.TempDir(), "deaf")
	path := writeManifest(t, manifests, "stubborn.yaml", pod("stubborn", "host", "trap '' TERM; touch "+mark+"; while :; do sleep 0.1; done",
		"  terminationGracePeriodSeconds: 20"))
	a := startAgent(t, args...)
	a.awaitPhase("stubborn", v1.PodRunning)
	await(t, "the container to ignore SIGTERM", func() error { _, err := os.Stat(mark); return err })
	if err := a.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	await(t, "the drain to begin", func() error {
		p := a.pods()["stubborn"]
		if p == nil || p.DeletionTimestamp == nil {
			return errors.New("the pod is not being stopped")
		}
		return nil
	})
	began := time.Now()
	await(t, "a second signal to count", func() error { // one within a second of the first does not
		err := a.cmd.Process.Signal(syscall.SIGTERM)
		if err != nil || strings.Contains(a.log(), "second signal\n") {
			return nil
		}
		return errors.New("the agent waits")
	})
	if code := a.wait(); code != 1 {
		t.Errorf("exit code %d, want 1", code)
	}
	if took := time.Since(began); took > patience.Of(5*time.Second) {
		t.Errorf("the second signal took %v", took)
	}
	if text := a.log(); !strings.Contains(text, "second signal") || strings.Contains(text, "DATA RACE") {
		t.Errorf("said %q", text)
	}

	// The next agent ends what was begun, within the grace period that was given.
	remove(t, path)
	writeManifest(t, manifests, "stubborn.yaml", pod("stubborn", "host", "exec sleep 1000", "  terminationGracePeriodSeconds: 1"))
	b := startAgent(t, args...)
	b.awaitPhase("stubborn", v1.PodRunning)
	if code := b.terminate(); code != 0 {
		t.Errorf("draining: exit code %d", code)
	}
	left, err := os.ReadDir(filepath.Join(root, "runtime", "containers"))
	if err != nil || len(left) != 0 {
		t.Errorf("left in the runtime: %v, %v", left, err)
	}
}

// TestSignalsAtOnceAreOneRequest: programs such as timeout send their signal to the agent and then to its
// group, so it comes twice. The agent stops its pods all the same.
func TestSignalsAtOnceAreOneRequest(t *testing.T) {
	t.Parallel()
	manifests, root := t.TempDir(), t.TempDir()
	writeManifest(t, manifests, "steady.yaml", pod("steady", "host", "exec sleep 1000", "  terminationGracePeriodSeconds: 2"))
	args := []string{"--manifests", manifests, "--root", root, "--drain"}
	drainAtEnd(t, args...)
	a := startAgent(t, args...)
	a.awaitPhase("steady", v1.PodRunning)
	// While it is stopped signals wait, so that they come at once. Two of a kind would be one.
	for _, s := range []syscall.Signal{syscall.SIGSTOP, syscall.SIGTERM, syscall.SIGINT, syscall.SIGCONT} {
		if err := a.cmd.Process.Signal(s); err != nil {
			t.Fatal(err)
		}
	}
	if code := a.wait(); code != 0 {
		t.Errorf("exit code %d, want 0", code)
	}
	left, err := os.ReadDir(filepath.Join(root, "runtime", "containers"))
	if err != nil || len(left) != 0 {
		t.Errorf("left in the runtime: %v, %v", left, err)
	}
}
