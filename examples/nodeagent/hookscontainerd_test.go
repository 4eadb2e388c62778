//go:build containerd

package main

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/internal/patience"
)

// answering is a container that writes the first line of each HTTP request, and the
// signal that ends it, to a file of its own. A connection that says nothing leaves no line.
const answering = `printf 'read line && echo "$line" >>/marks/NAME; printf "HTTP/1.0 200 OK\\r\\n\\r\\n"' >/answer
trap 'echo TERM >>/marks/NAME; exit 0' TERM
nc -ll -p PORT -e sh /answer &
while :; do sleep 0.1; done`

// answeringPod has a preStop hook that names no host, and a liveness probe that fails once
// the file NAME.sick is there. It is ready once it answers.
func answeringPod(name, image, marks string, port int, extra ...string) string {
	script := strings.NewReplacer("NAME", name, "PORT", fmt.Sprint(port)).Replace(answering)
	return pod(name, image, script, append([]string{
		fmt.Sprintf("    lifecycle: {preStop: {httpGet: {path: /bye, port: %d, httpHeaders: [{name: User-Agent, value: me}]}}}", port),
		fmt.Sprintf("    livenessProbe: {exec: {command: [sh, -c, '[ ! -e /marks/%s.sick ]']}, timeoutSeconds: 30, periodSeconds: 1, failureThreshold: 1}", name),
		fmt.Sprintf("    readinessProbe: {tcpSocket: {port: %d}, timeoutSeconds: 30, periodSeconds: 1}", port),
		"    volumeMounts: [{name: marks, mountPath: /marks}]", "  terminationGracePeriodSeconds: 20",
		"  volumes: [{name: marks, hostPath: {path: " + marks + "}}]",
	}, extra...)...)
}

// awaitLines waits until a file of marks has these lines.
func awaitLines(t *testing.T, marks, name string, want ...string) {
	t.Helper()
	awaitAnyLines(t, marks, name, want)
}

// awaitAnyLines waits until a file of marks has the lines of one of these lists.
func awaitAnyLines(t *testing.T, marks, name string, lists ...[]string) {
	t.Helper()
	await(t, name+" to have the lines", func() error {
		text, err := os.ReadFile(filepath.Join(marks, name))
		got := strings.TrimSpace(strings.ReplaceAll(string(text), "\r", ""))
		for _, want := range lists {
			if got == strings.Join(want, "\n") {
				return nil
			}
		}
		return fmt.Errorf("%q, want one of %q (%v)", got, lists, err)
	})
}

// TestContainerdHooksFindThePod: runtime.md 15. A preStop request without a host reaches the
// container, and comes before the signal, after a failed liveness probe, on the host network,
// and in a pod that an agent without records finds.
func TestContainerdHooksFindThePod(t *testing.T) {
	beside(t)
	runtime, manifests, args := onContainerd(t)
	marks := t.TempDir()
	free, err := net.Listen("tcp", ":0") // on the network of the host, which other tests use, too
	if err != nil {
		t.Fatal(err)
	}
	port := free.Addr().(*net.TCPAddr).Port
	if err := free.Close(); err != nil {
		t.Fatal(err)
	}
	const request = "GET /bye HTTP/1.1"
	writeManifest(t, manifests, "alive.yaml", answeringPod("alive", runtime.Image, marks, 8080))
	host := writeManifest(t, manifests, "host.yaml", answeringPod("host", runtime.Image, marks, port, "  hostNetwork: true"))
	orphan := writeManifest(t, manifests, "orphan.yaml", answeringPod("orphan", runtime.Image, marks, 8080))
	a := startAgent(t, args...)
	for _, name := range []string{"alive", "host", "orphan"} {
		a.awaitPod(name, "ready", func(p *v1.Pod) bool { ready, _, _ := counts(p); return ready == 1 })
	}
	if err := os.WriteFile(filepath.Join(marks, "alive.sick"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	awaitLines(t, marks, "alive", request, "TERM")
	remove(t, filepath.Join(marks, "alive.sick"))
	remove(t, host)
	awaitLines(t, marks, "host", request, "TERM")

	a.kill()
	remove(t, orphan)
	args[3] = t.TempDir() // no records
	b := startAgent(t, args...)
	awaitLines(t, marks, "orphan", request, "TERM")
	b.awaitPhase("alive", v1.PodRunning)
}

// TestContainerdDeletionLeavesTheHookItsTime: runtime.md 15.3. A pod is deleted while a
// liveness kill runs its preStop hook. The hook runs again to its end, and only then is the
// container told to stop. A runtime may let the command of a cancelled call go on to its end.
func TestContainerdDeletionLeavesTheHookItsTime(t *testing.T) {
	beside(t)
	runtime, manifests, args := onContainerd(t)
	marks := t.TempDir()
	path := writeManifest(t, manifests, "slow.yaml", pod("slow", runtime.Image,
		"trap 'echo TERM >>/marks/slow; exit 0' TERM; while :; do sleep 0.1; done",
		"    lifecycle: {preStop: {exec: {command: [sh, -c, 'echo begin >>/marks/slow; sleep 5; echo end >>/marks/slow']}}}",
		"    livenessProbe: {exec: {command: [sh, -c, '[ ! -e /marks/sick ]']}, timeoutSeconds: 30, periodSeconds: 1, failureThreshold: 1}",
		"    volumeMounts: [{name: marks, mountPath: /marks}]", "  terminationGracePeriodSeconds: 30",
		"  volumes: [{name: marks, hostPath: {path: "+marks+"}}]"))
	a := startAgent(t, args...)
	a.awaitPhase("slow", v1.PodRunning)
	if err := os.WriteFile(filepath.Join(marks, "sick"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	awaitLines(t, marks, "slow", "begin")
	deleted := time.Now()
	remove(t, path)
	awaitAnyLines(t, marks, "slow", []string{"begin", "begin", "end", "TERM"}, []string{"begin", "begin", "end", "end", "TERM"})
	if took := time.Since(deleted); took > patience.Of(15*time.Second) {
		t.Errorf("the pod was signalled %v after its deletion", took)
	}
	a.awaitGone("slow")
}
