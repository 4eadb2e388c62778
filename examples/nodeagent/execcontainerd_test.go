//go:build containerd

package main

import (
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
)

// TestContainerdExec: a command over the runtime's own stream server, with input, both outputs, an exit code, a
// terminal; logs and eviction beside it.
func TestContainerdExec(t *testing.T) {
	beside(t)
	runtime, manifests, args := onContainerd(t)
	a := startAgent(t, args...)
	path := writeManifest(t, manifests, "web.yaml", pod("web", runtime.Image, "echo hello; exec sleep 1000", "  terminationGracePeriodSeconds: 1"))
	a.awaitPhase("web", v1.PodRunning)
	input := strings.Repeat("0123456789abcdef", 20000)
	if code, out, problems := a.exec(input, "web", "-i", "--", "sh", "-c", "cat; echo done >&2; exit 7"); code != 7 || out != input || problems != "done\n" {
		t.Errorf("code %d, %d bytes of %d, %q", code, len(out), len(input), problems)
	}
	if code, out, problems := a.exec("", "web", "-t", "--", "sh", "-c", "test -t 1 && echo it has one"); code != 0 || out != "it has one\r\n" {
		t.Errorf("with a terminal: %d %q %q", code, out, problems)
	}
	if code, out, _ := a.exec("word", "web", "-i", "-t", "--", "sh", "-c", "cat; sleep 0.2; echo and more"); code != 0 || out != "wordand more\n" {
		t.Errorf("a pipe in place of a terminal: %d %q", code, out)
	}
	if code, out, problems := a.exec("", "web", "--", "/no/such"); code == 0 || out != "" || !strings.Contains(problems, "/no/such") {
		t.Errorf("no such program: %d %q %q", code, out, problems)
	}
	if code, out, problems := a.tells("logs", "web"); code != 0 || out != "hello\n" {
		t.Errorf("logs: %d %q %q", code, out, problems)
	}
	if code, _, problems := a.tells("evict", "web", "--reason", "Maintenance"); code != 0 {
		t.Errorf("evict: %d %q", code, problems)
	}
	if p := a.awaitPhase("web", v1.PodFailed); p.Status.Reason != "Maintenance" {
		t.Errorf("evicted for %q", p.Status.Reason)
	}
	remove(t, path)
	a.awaitGone("web")
}
