package main

import (
	"errors"
	"fmt"
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

// TestValidateNamesOneUIDOfTwoPods: of two pods with one UID only one runs.
func TestValidateNamesOneUIDOfTwoPods(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"a", "b"} {
		writeManifest(t, dir, name+".yaml", "apiVersion: v1\nkind: Pod\nmetadata: {name: "+name+", uid: u-1}\nspec: {containers: [{name: main, image: host}]}\n")
	}
	code, out, problems := command(t, "--validate", dir, "--node-name", "n1")
	want := dir + ": pod default/b-n1 and pod default/a-n1 have the same UID u-1: only one of them runs\ngood pods: 1, faults: 1\n"
	if code != 1 || out != want || problems != "" {
		t.Errorf("code %d\n%s%swant\n%s", code, out, problems, want)
	}
}

// TestValidateNamesEveryMisfit: each value of a wrong type and each key that is there twice has its place; unknown fields beside them are
// named as well.
func TestValidateNamesEveryMisfit(t *testing.T) {
	const head = "apiVersion: v1\nkind: Pod\n"
	for _, c := range []struct {
		name, text string
		wants      []string
	}{
		{"types", head + `metadata:
  name: n
  labels: {app.kubernetes.io/version: 1}
spec:
  foo: bar
  hostNetwork: "yes"
  priority: 99999999999
  terminationGracePeriodSeconds: 1.5
  containers:
  - name: main
    image: host
    imag: x
    env: [{name: A, value: a}, {name: B, value: 7}]
    ports: [{containerPort: "80"}]
    resources: {limits: {memory: 1Gb}}
  - text
  - name: other
    image: host
    command: sleep
`, []string{
			":4: metadata.name: want text, got true or false; put it in quotes",
			":5: metadata.labels[app.kubernetes.io/version]: want text, got a number; put it in quotes",
			":7: spec.foo: unknown field",
			":8: spec.hostNetwork: want true or false, got text",
			":9: spec.priority: the number 99999999999 is out of range",
			":10: spec.terminationGracePeriodSeconds: want a whole number, got 1.5",
			":14: spec.containers[0].imag: unknown field",
			":15: spec.containers[0].env[1].value: want text, got a number; put it in quotes",
			":16: spec.containers[0].ports[0].containerPort: want a whole number, got text",
			":17: spec.containers[0].resources.limits.memory: quantities must match",
			":18: spec.containers[1]: want a map, got text",
			":21: spec.containers[2].command: want a list, got text",
		}},
		{"a map for a list", head + "metadata: {name: a}\nspec:\n  containers: {name: main}\n", []string{":5: spec.containers: want a list, got a map"}},
		{"too deep", head + "metadata: {name: a}\nspec: " + strings.Repeat("[", 5000) + strings.Repeat("]", 5000) + "\n", []string{":4: spec: want a map, got a list"}},
		{"too many", head + "metadata:\n  name: a\n  labels:\n" + wrongLabels(maxMisfits+1) + "spec: {containers: [{name: a, image: host}]}\n", []string{
			":6: metadata.labels.l1000: want text, got a number; put it in quotes",
		}},
		{"twice", head + "metadata: {name: a}\nspec:\n  containers:\n  - name: a\n    image: host\n    image: other\n  hostPID: true\n  hostPID: false\n", []string{
			`:8: key "image" is there twice; the last one counts`, `:10: key "hostPID" is there twice; the last one counts`,
		}},
		{"a list", "- a\n", []string{": not a pod manifest: want fields, such as kind: Pod, got a list"}},
		{"text", "text\n", []string{": not a pod manifest: want fields, such as kind: Pod, got text"}},
		{"two documents", head + "metadata: {name: 1}\n---\n" + head, []string{": not a pod manifest: it holds more than one document"}},
		{"an empty document", "---\n---\n" + head + "metadata: {name: 1}\n", []string{": not a pod manifest: metadata.name: want text, got a number; put it in quotes"}},
		{"a quantity that takes too long", head + `metadata: {name: 1}
spec:
  containers: [{name: a, image: host, resources: {limits: {memory: "1e999999999"}}}]
`, []string{": not a pod manifest: spec.containers[0].resources.limits[memory]: the quantity is out of range"}},
		{"another kind", "apiVersion: v1\nkind: Pods\nmetadata: {name: 1}\n", []string{`: not a pod manifest: it is of kind "Pods"`}},
	} {
		dir := t.TempDir()
		path := writeManifest(t, dir, "a.yaml", c.text)
		code, out, problems := command(t, "--validate", dir, "--root", filepath.Join(dir, ".root"), "--node-name", "n1")
		if code != 1 || problems != "" || !strings.Contains(out, "good pods: 0,") || c.name != "too many" && strings.Count(out, "\n") != len(c.wants)+1 {
			t.Errorf("%s: code %d, %s\n%s", c.name, code, problems, out)
		}
		for _, want := range c.wants {
			if !strings.Contains(out, path+want) {
				t.Errorf("%s: lacks %q:\n%s", c.name, want, out)
			}
		}
	}
}

// wrongLabels are lines of labels with numbers in place of texts.
func wrongLabels(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "    l%d: %d\n", 1000+i, i)
	}
	return b.String()
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
