package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestValidate: every fault of a folder by file, line and field; nothing is started, and no folder made.
func TestValidate(t *testing.T) {
	dir, root := t.TempDir(), filepath.Join(t.TempDir(), "root")
	writeManifest(t, dir, "good.yaml", pod("good", "host", "exit 0"))
	for name, text := range map[string]string{
		"a.yaml":  "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec:\n  restartPolicy: Sometimes\n  containers:\n  - name: Main\n    image: host\n  - name: other\n",
		"b.yaml":  "apiVersion: v1\nkind: Pod\nmetadata: {name: b}\nspec:\n  containers:\n  - name: main\n    imag: x\n    image: host\n",
		"c.yaml":  "apiVersion: v1\nkind: Pod\nmetadata:\n  name: c\n spec: {}\n",
		"d.yaml":  "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: d}\n",
		"f.yaml":  "apiVersion: v1\nkind: Pod\nmetadata: {name: f}\nspec:\n  container: [{name: main, image: host}]\n",
		"g1.yaml": "apiVersion: v1\nkind: Pod\nmetadata: {name: g}\nspec:\n  foo: 1\n  containers: [{name: main, image: host}]\n",
		"g2.yaml": pod("g", "host", "exit 0"),
		"e.yaml":  "apiVersion: v1\nkind: Pod\nmetadata: {name: e}\nspec:\n  hostNetwork: true\n  containers: [{name: main, image: host}]\n",
	} {
		writeManifest(t, dir, name, text)
	}
	code, out, problems := command(t, "--validate", dir, "--root", root, "--node-name", "n1", "--pod-security", "baseline")
	if code != 1 || problems != "" {
		t.Errorf("code %d, %s", code, problems)
	}
	for _, want := range []string{
		dir + "/a.yaml:5: spec.restartPolicy: ",
		dir + "/a.yaml:7: spec.containers[0].name: ",
		dir + "/a.yaml:9: spec.containers[1].image: ",
		dir + "/b.yaml:7: spec.containers[0].imag: unknown field; the pod runs without it",
		dir + "/c.yaml:",
		dir + "/d.yaml: not a pod, but a manifest of another kind",
		dir + ": pod e-n1 is refused: ",
		dir + "/f.yaml:4: spec.containers: Required value",
		dir + "/f.yaml:5: spec.container: unknown field\n",
		dir + "/g1.yaml:5: spec.foo: unknown field\n",
		dir + "/g1.yaml: another pod has the same name: ",
		"\ngood pods: 2, faults: 11\n",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("lacks %q:\n%s", want, out)
		}
	}
	if _, err := os.Stat(root); err == nil {
		t.Error("it made the agent's folder")
	}
	if code, out, problems := command(t, "--validate", "../manifests", "--root", root); code != 0 || out != "good pods: 7, faults: 0\n" || problems != "" {
		t.Errorf("the bundled manifests: %d %s%s", code, out, problems)
	}
	if code, _, problems := command(t, "--validate", filepath.Join(dir, "none"), "--root", root); code != 2 || !strings.Contains(problems, "--validate: stat") || !strings.Contains(problems, "no such file") || strings.Contains(problems, "--manifests") {
		t.Errorf("a folder that is not there: %d %s", code, problems)
	}
}

// TestValidateEnds: what cannot be read is named, and nothing waits for it.
func TestValidateEnds(t *testing.T) {
	dir, root := t.TempDir(), filepath.Join(t.TempDir(), "root")
	writeManifest(t, dir, "good.yaml", pod("good", "host", "exit 0"))
	for _, fifo := range []string{filepath.Join(dir, "fifo.yaml"), filepath.Join(dir, "folder", "fifo")} {
		if err := errors.Join(os.MkdirAll(filepath.Dir(fifo), 0o700), syscall.Mkfifo(fifo, 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	writeManifest(t, dir, "large.yaml", "")
	if err := os.Truncate(filepath.Join(dir, "large.yaml"), 1<<40); err != nil { // no memory would hold it
		t.Fatal(err)
	}
	code, out, problems := command(t, "--validate", dir, "--root", root)
	if code != 1 || problems != "" {
		t.Errorf("code %d, %s", code, problems)
	}
	for _, want := range []string{
		dir + "/fifo.yaml: not a regular file but a FIFO\n",
		dir + "/large.yaml: manifest is too large: more than 10 MiB\n",
		dir + "/folder: not a regular file but a folder\n",
		"\ngood pods: 1, faults: 3\n",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("lacks %q:\n%s", want, out)
		}
	}

	// The folder itself cannot be read.
	code, out, problems = command(t, "--validate", filepath.Join(dir, "fifo.yaml"), "--root", root)
	if code != 1 || out != "" || !strings.Contains(problems, "--validate") || !strings.Contains(problems, "a FIFO") {
		t.Errorf("a FIFO instead of a folder: %d %s%s", code, out, problems)
	}
	closed := filepath.Join(t.TempDir(), "closed")
	if err := os.Mkdir(closed, 0); err != nil {
		t.Fatal(err)
	}
	if _, err := os.ReadDir(closed); err == nil {
		return // root may read it
	}
	code, out, problems = command(t, "--validate", closed, "--root", root)
	if code != 1 || out != "" || !strings.Contains(problems, "permission denied") {
		t.Errorf("a closed folder: %d %s%s", code, out, problems)
	}
}
