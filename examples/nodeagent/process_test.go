package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
)

// manifestsCopy copies the bundled manifests, so that a test can delete some.
func manifestsCopy(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS("../manifests")); err != nil {
		t.Fatal(err)
	}
	return dir
}

// drainAtEnd stops what a test left running: process containers outlive agents.
func drainAtEnd(t *testing.T, args ...string) {
	t.Cleanup(func() {
		a := startAgent(t, append(args, "--drain")...)
		if code := a.terminate(); code != 0 {
			t.Errorf("draining: exit code %d", code)
		}
	})
}

// TestBundledManifests is what a new user sees first.
func TestBundledManifests(t *testing.T) {
	t.Parallel()
	manifests := manifestsCopy(t)
	args := []string{"--manifests", manifests, "--root", t.TempDir()}
	drainAtEnd(t, args...)
	a := startAgent(t, args...)

	a.awaitPhase("clock", v1.PodRunning)
	a.awaitPhase("backup", v1.PodSucceeded)
	failing := a.awaitPhase("failing", v1.PodFailed)
	if end := failing.Status.ContainerStatuses[0].State.Terminated; end == nil || end.ExitCode != 3 {
		t.Errorf("failing: container state %+v, want exit code 3", failing.Status.ContainerStatuses[0].State)
	}
	a.awaitPod("pair", "2/2 running", func(p *v1.Pod) bool {
		ready, total, _ := counts(p)
		return p.Status.Phase == v1.PodRunning && ready == 2 && total == 2
	})
	a.awaitPhase("slowstop", v1.PodRunning)
	crash := a.awaitPod("crashloop", "CrashLoopBackOff with a restart", func(p *v1.Pod) bool {
		return podStatus(p) == "CrashLoopBackOff" && p.Status.ContainerStatuses[0].RestartCount >= 1
	})
	if crash.Status.Phase != v1.PodRunning {
		t.Errorf("crashloop: phase %s, want Running while it is to be restarted", crash.Status.Phase)
	}
	if code, body := a.get("/healthz"); code != 200 || body != "ok" {
		t.Errorf("/healthz: %d %q", code, body)
	}
	if code, body := a.get("/problems"); code != 200 || body != "no problems\n" {
		t.Errorf("/problems: %d %q", code, body)
	}
	deployment := filepath.Join(manifests, "deployment.yaml")
	if err := os.WriteFile(deployment, []byte("apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	await(t, "/problems to name a manifest of another kind", func() error {
		_, body := a.get("/problems")
		_, figures := a.get("/metrics")
		if !strings.HasPrefix(body, "source deployment.yaml: ") || !strings.Contains(body, "move the file elsewhere") ||
			!strings.Contains(figures, `podwright_problems{kind="source"} 1`) {
			return fmt.Errorf("%q", body)
		}
		return nil
	})
	if code, body := a.get("/healthz"); code != 200 || body != "ok" {
		t.Errorf("/healthz beside a manifest of another kind: %d %q", code, body)
	}
	remove(t, deployment)
	if code, body := a.get("/metrics"); code != 200 || !strings.Contains(body, "pod_worker_duration_seconds") {
		t.Errorf("/metrics: %d, no pod_worker_duration_seconds in\n%.2000s", code, body)
	}
	if code, body := a.get("/explain/default/crashloop-n1"); code != 200 || !strings.Contains(body, `"state": "setup"`) || !strings.Contains(body, "CrashLoopBackOff") {
		t.Errorf("/explain: %d %s", code, body)
	}
	if code, _ := a.get("/explain/default/absent"); code != 404 {
		t.Errorf("/explain of an unknown pod: %d, want 404", code)
	}

	remove(t, filepath.Join(manifests, "clock.yaml"))
	a.awaitGone("clock")
	remove(t, filepath.Join(manifests, "slowstop.yaml"))
	a.awaitPod("slowstop", "Terminating", func(p *v1.Pod) bool { return podStatus(p) == "Terminating" })
	a.awaitGone("slowstop")
	if n := len(a.pods()); n != 5 {
		t.Errorf("%d pods left, want 5", n)
	}
}

// TestKillAgent: an agent that dies loses nothing and disturbs nothing.
func TestKillAgent(t *testing.T) {
	t.Parallel()
	manifests := t.TempDir()
	args := []string{"--manifests", manifests, "--root", t.TempDir()}
	drainAtEnd(t, args...)
	writeManifest(t, manifests, "steady.yaml", pod("steady", "host", "sleep 1000"))
	writeManifest(t, manifests, "once.yaml", pod("once", "host", "exit 0", "  restartPolicy: Never"))
	writeManifest(t, manifests, "crash.yaml", pod("crash", "host", "exit 1"))
	writeManifest(t, manifests, "later.yaml", pod("later", "host", "while [ ! -e '"+filepath.Join(manifests, ".go")+"' ]; do sleep 0.05; done; exit 7", "  restartPolicy: Never"))

	a := startAgent(t, args...)
	steady := a.awaitPhase("steady", v1.PodRunning)
	a.awaitPhase("once", v1.PodSucceeded)
	a.awaitPhase("later", v1.PodRunning)
	crash := a.awaitPod("crash", "restarted", func(p *v1.Pod) bool {
		return len(p.Status.ContainerStatuses) == 1 && p.Status.ContainerStatuses[0].RestartCount >= 1
	})
	a.kill()

	// One container ends while no agent runs.
	writeManifest(t, manifests, ".go", "")
	b := startAgent(t, args...)
	later := b.awaitPhase("later", v1.PodFailed)
	if end := later.Status.ContainerStatuses[0].State.Terminated; end == nil || end.ExitCode != 7 {
		t.Errorf("the unseen exit: %+v, want exit code 7", later.Status.ContainerStatuses[0].State)
	}
	b.awaitPhase("once", v1.PodSucceeded)
	again := b.awaitPhase("steady", v1.PodRunning)
	if got, want := containerIDs(again), containerIDs(steady); !reflect.DeepEqual(got, want) {
		t.Errorf("steady: containers %v, before the restart %v", got, want)
	}
	if n := again.Status.ContainerStatuses[0].RestartCount; n != 0 {
		t.Errorf("steady: %d restarts", n)
	}
	after := b.awaitPod("crash", "its restarts again", func(p *v1.Pod) bool { return len(p.Status.ContainerStatuses) == 1 })
	if got, want := after.Status.ContainerStatuses[0].RestartCount, crash.Status.ContainerStatuses[0].RestartCount; got < want {
		t.Errorf("crash: restart count fell from %d to %d", want, got)
	}
	if code := b.terminate(); code != 0 {
		t.Errorf("exit code %d after SIGTERM", code)
	}
}

// TestKillAgentThenSpoil: a manifest that is unreadable when the agent starts does not
// kill the pod it defined before, nor forget that a job has run, and keeps no other
// pod from being stopped.
func TestKillAgentThenSpoil(t *testing.T) {
	t.Parallel()
	manifests, notes := t.TempDir(), t.TempDir()
	args := []string{"--manifests", manifests, "--root", t.TempDir()}
	drainAtEnd(t, args...)
	said := func(pod, want string) {
		t.Helper()
		if got, err := os.ReadFile(filepath.Join(notes, pod)); string(got) != want {
			t.Errorf("%s wrote %q (%v), want %q", pod, got, err, want)
		}
	}
	script := fmt.Sprintf("trap 'echo stopped >> %[1]s; exit 0' TERM; echo started >> %[1]s; while :; do sleep 0.05; done", filepath.Join(notes, "steady"))
	steady, once := pod("steady", "host", script), pod("once", "host", "echo ran >> "+filepath.Join(notes, "once"), "  restartPolicy: Never")
	writeManifest(t, manifests, "steady.yaml", steady)
	writeManifest(t, manifests, "once.yaml", once)
	writeManifest(t, manifests, "other.yaml", pod("other", "host", "sleep 1000"))
	a := startAgent(t, args...)
	before := a.awaitPhase("steady", v1.PodRunning)
	a.awaitPhase("once", v1.PodSucceeded)
	a.awaitPhase("other", v1.PodRunning)
	await(t, "the note of steady", func() error { _, err := os.Stat(filepath.Join(notes, "steady")); return err })
	a.kill()

	writeManifest(t, manifests, "steady.yaml", steady[:len(steady)/2])
	writeManifest(t, manifests, "once.yaml", "")
	b := startAgent(t, args...)
	b.awaitPhase("other", v1.PodRunning)
	await(t, "the log to say that pods are left alone", func() error {
		if !strings.Contains(b.log(), "Unknown pods are left alone") {
			return errors.New("not yet")
		}
		return nil
	})
	remove(t, filepath.Join(manifests, "other.yaml"))
	b.awaitGone("other")
	await(t, "the agent to show no pod, as it can know none", func() error {
		if n := len(b.pods()); n != 0 {
			return fmt.Errorf("%d pods", n)
		}
		return nil
	})
	if code, body := b.get("/healthz"); code != 200 {
		t.Errorf("/healthz: %d %q", code, body)
	}
	said("steady", "started\n")

	writeManifest(t, manifests, "steady.yaml", steady)
	writeManifest(t, manifests, "once.yaml", once)
	after := b.awaitPhase("steady", v1.PodRunning)
	b.awaitPhase("once", v1.PodSucceeded)
	if before.UID != after.UID || !reflect.DeepEqual(containerIDs(before), containerIDs(after)) || after.Status.ContainerStatuses[0].RestartCount != 0 {
		t.Errorf("steady: UID %s, status %+v, before UID %s, status %+v", after.UID, after.Status.ContainerStatuses, before.UID, before.Status.ContainerStatuses)
	}
	said("steady", "started\n")
	said("once", "ran\n")
}

// TestBadManifests: what is wrong with one manifest is said and harms no other.
func TestBadManifests(t *testing.T) {
	t.Parallel()
	manifests := t.TempDir()
	args := []string{"--manifests", manifests, "--root", t.TempDir()}
	drainAtEnd(t, args...) // and that ends well, though it keeps what an unreadable manifest may want (ND2)
	good := writeManifest(t, manifests, "good.yaml", pod("good", "host", "sleep 1000"))
	writeManifest(t, manifests, "malformed.yaml", "apiVersion: v1\nkind: Pod\n  oops: [")
	writeManifest(t, manifests, "empty.yaml", "apiVersion: v1\nkind: Pod\nmetadata: {name: hollow}\nspec: {}\n")
	writeManifest(t, manifests, "traversal.yaml", pod("../../etc", "host", "true"))
	writeManifest(t, manifests, "unknown.yaml", strings.Replace(pod("unknown", "host", "sleep 1000"), "spec:", "spec:\n  colour: red", 1))
	writeManifest(t, manifests, "image.yaml", pod("image", "registry.example/none:1", "true"))
	writeManifest(t, manifests, "good2.yaml", pod("good", "host", "sleep 2000"))

	a := startAgent(t, args...)
	of2 := a.awaitPhase("good", v1.PodRunning) // the later manifest has the name
	a.awaitPhase("unknown", v1.PodRunning)
	a.awaitPod("image", "an image failure", func(p *v1.Pod) bool {
		return podStatus(p) == "ErrImagePull" || podStatus(p) == "ImagePullBackOff"
	})
	for _, want := range []string{"malformed.yaml", "empty.yaml", "traversal.yaml", "colour", "good2.yaml"} {
		await(t, "the log to mention "+want, func() error {
			if strings.Contains(a.log(), want) {
				return nil
			}
			return errors.New(a.log())
		})
	}
	if n := len(a.pods()); n != 3 {
		t.Errorf("%d pods, want 3", n)
	}

	// A manifest that goes bad never kills the pod it defined.
	remove(t, filepath.Join(manifests, "good2.yaml"))
	before := a.awaitPod("good", "that of good.yaml, running", func(p *v1.Pod) bool { return p.UID != of2.UID && p.Status.Phase == v1.PodRunning })
	if err := os.WriteFile(good, []byte("kind: [Pod"), 0o600); err != nil {
		t.Fatal(err)
	}
	await(t, "the log to say that good.yaml is kept", func() error {
		for line := range strings.Lines(a.log()) {
			if strings.Contains(line, "path="+good) && strings.Contains(line, "its last good pod stays") {
				return nil
			}
		}
		return errors.New("not yet")
	})
	writeManifest(t, manifests, "later.yaml", pod("later", "host", "sleep 1000"))
	a.awaitPhase("later", v1.PodRunning) // what the folder says now is acted upon
	after := a.awaitPhase("good", v1.PodRunning)
	if before.UID != after.UID || !reflect.DeepEqual(containerIDs(before), containerIDs(after)) {
		t.Errorf("pod %s with containers %v has become %s with %v", before.UID, containerIDs(before), after.UID, containerIDs(after))
	}
}

// TestRefusals: what cannot work is one clear sentence and a non-zero exit.
func TestRefusals(t *testing.T) {
	t.Parallel()
	manifests := t.TempDir()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	notAFolder := writeManifest(t, manifests, "file", "")
	tests := []struct {
		name string
		args []string
		want string
		code int
	}{
		{"no manifests", nil, "--manifests is required", 2},
		{"missing folder", []string{"--manifests", manifests + "/none"}, "no such file", 2},
		{"no listener", []string{"--manifests", manifests, "--runtime", "unix://" + manifests + "/none.sock"}, "none.sock", 1},
		{"not a unix socket", []string{"--manifests", manifests, "--runtime", "tcp://127.0.0.1:1"}, "unix", 2},
		{"no such port", []string{"--manifests", manifests, "--listen", "127.0.0.1:99999"}, "there is no port", 2},
		{"no URL", []string{"--manifest-url", "foo"}, "the URL must be", 2},
		{"root is a file", []string{"--manifests", manifests, "--root", notAFolder + "/x"}, notAFolder, 1},
		{"port in use", []string{"--manifests", manifests, "--listen", taken.Addr().String()}, "in use", 1},
		{"bad level", []string{"--manifests", manifests, "--log-level", "loud"}, "--log-level", 2},
		{"bad node name", []string{"--manifests", manifests, "--node-name", "No Such Name"}, "No Such Name", 2},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			args := append([]string{"--root", t.TempDir()}, test.args...)
			a := launch(t, args...)
			if code := a.wait(); code != test.code {
				t.Errorf("exit code %d, want %d", code, test.code)
			}
			if !strings.Contains(a.log(), test.want) {
				t.Errorf("said %q, want it to contain %q", a.log(), test.want)
			}
		})
	}
}

// TestDrain: with --drain nothing is left.
func TestDrain(t *testing.T) {
	t.Parallel()
	manifests, root := t.TempDir(), t.TempDir()
	marks := t.TempDir()
	up, mark := filepath.Join(marks, "up"), filepath.Join(marks, "stopped")
	writeManifest(t, manifests, "polite.yaml", pod("polite", "host", fmt.Sprintf("trap 'touch %s; exit 0' TERM; touch %s; while :; do sleep 0.05; done", mark, up)))
	a := startAgent(t, "--manifests", manifests, "--root", root, "--drain")
	a.awaitPhase("polite", v1.PodRunning)
	await(t, "the container to set its trap", func() error { _, err := os.Stat(up); return err })
	if code := a.terminate(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	if _, err := os.Stat(mark); err != nil {
		t.Errorf("the container did not get SIGTERM: %v", err)
	}
	left, err := os.ReadDir(filepath.Join(root, "runtime", "containers"))
	if err != nil || len(left) != 0 {
		t.Errorf("left in the runtime: %v, %v", left, err)
	}
}

// TestObjectsReachPods: D8, OB7. With --objects a pod gets its config maps and secrets, and a change
// of one reaches the volume of the pod that runs.
func TestObjectsReachPods(t *testing.T) {
	t.Parallel()
	manifests, objects := t.TempDir(), filepath.Join(t.TempDir(), "objects")
	if err := os.Mkdir(objects, 0o700); err != nil {
		t.Fatal(err)
	}
	write := func(path, text string) {
		t.Helper()
		if err := os.WriteFile(path+".new", []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(path+".new", path); err != nil {
			t.Fatal(err)
		}
	}
	settings := func(mode string) string {
		return "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings}\ndata: {mode: " + mode + "}\n"
	}
	write(filepath.Join(objects, "settings.yaml"), settings("fast"))
	write(filepath.Join(manifests, "web.yaml"), `apiVersion: v1
kind: Pod
metadata: {name: web, uid: web-1}
spec:
  containers:
  - name: main
    image: host
    command: [sleep, "1000"]
    env: [{name: MODE, valueFrom: {configMapKeyRef: {name: settings, key: mode}}}]
    volumeMounts: [{name: v, mountPath: `+t.TempDir()+`}]
  volumes: [{name: v, configMap: {name: settings}}]
`)
	root := t.TempDir()
	args := []string{"--manifests", manifests, "--objects", objects, "--root", root}
	drainAtEnd(t, args...)
	a := startAgent(t, args...)
	a.awaitPhase("web", v1.PodRunning)
	holds := func(want string) func() error {
		return func() error {
			found, _ := filepath.Glob(filepath.Join(root, "pods", "web-1", "volumes", "*", "v", "mode"))
			if len(found) != 1 {
				return fmt.Errorf("volumes %q", found)
			}
			if text, err := os.ReadFile(found[0]); err != nil || string(text) != want {
				return fmt.Errorf("%q, %w", text, err)
			}
			return nil
		}
	}
	await(t, "the volume", holds("fast"))
	write(filepath.Join(objects, "settings.yaml"), settings("slow"))
	await(t, "the new content", holds("slow"))
	if n := a.awaitPhase("web", v1.PodRunning).Status.ContainerStatuses[0].RestartCount; n != 0 {
		t.Errorf("%d restarts", n)
	}
	a.terminate()
	if err := os.Chmod(objects, 0o755); err != nil {
		t.Fatal(err)
	}
	open := launch(t, args...)
	if code := open.wait(); code == 0 || !strings.Contains(open.log(), "--objects") || !strings.Contains(open.log(), "chmod 700") {
		t.Errorf("an open folder: exit code %d, %s", code, open.log())
	}
	if err := os.Chmod(objects, 0o700); err != nil {
		t.Fatal(err)
	}
}
