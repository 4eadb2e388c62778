package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/runtime/process"
	"github.com/podwright/podwright/status/checkpoint"
)

// TestCheckpointCommand: the records are shown without an agent, without secrets,
// and without touching anything.
func TestCheckpointCommand(t *testing.T) {
	root := t.TempDir()
	folder := filepath.Join(root, "state", "pods")
	pod := &v1.Pod{Spec: v1.PodSpec{Containers: []v1.Container{{Name: "main", Env: []v1.EnvVar{{Name: "TOKEN", Value: "s3cret"}}}}}}
	err := checkpoint.NewFiles(checkpoint.Dir(folder)).Write(t.Context(), []*checkpoint.Record{
		{UID: "uid-web", Namespace: "shop", Name: "web", Status: &v1.PodStatus{Phase: v1.PodRunning}, Pod: pod},
		{UID: "uid-job", Namespace: "shop", Name: "job", Finished: true, Containers: []checkpoint.Container{{Name: "main", RestartCount: 3}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, "uid-bad"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	command := func(args ...string) (code int, out, errs string) {
		var stdout, stderr bytes.Buffer
		code = run(append([]string{"checkpoint"}, args...), process.Supervisor{}, &stdout, &stderr)
		return code, stdout.String(), stderr.String()
	}
	code, out, _ := command("list", "--root", root)
	lines := strings.Split(out, "\n")
	if code != 0 || !strings.Contains(lines[1], "job") || !strings.Contains(lines[1], "finished") || !strings.Contains(lines[2], "Running") ||
		!strings.Contains(lines[3], "uid-bad: corrupt") {
		t.Errorf("list: %d\n%s", code, out)
	}
	code, out, _ = command("--root", root, "show", "uid-web")
	if code != 0 || !strings.Contains(out, "phase: Running") || !strings.Contains(out, "TOKEN") || strings.Contains(out, "s3cret") {
		t.Errorf("show: %d\n%s", code, out)
	}
	for line, want := range map[string]int{"show uid-none": 4, "show uid-bad": 1, "": 2, "erase": 2, "show": 2} {
		if code, _, errs := command(append(strings.Fields(line), "--root", root)...); code != want || errs == "" {
			t.Errorf("%q: %d %q", line, code, errs)
		}
	}
	config := filepath.Join(t.TempDir(), "agent.yaml")
	if err := os.WriteFile(config, []byte("root: "+root+"\nmanifests: /none\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if code, out, errs := command("list", "--config", config); code != 0 || !strings.Contains(out, "job") {
		t.Errorf("by the configuration: %d %s%s", code, out, errs)
	}
	if code, out, errs := command("list", "--config", config, "--root", root+"/none"); code != 1 || out != "" || !strings.Contains(errs, "no agent has kept records in "+root+"/none") {
		t.Errorf("a folder of no agent: %d %s%s", code, out, errs)
	}
	if _, err := os.Stat(filepath.Join(folder, "uid-bad")); err != nil {
		t.Errorf("an inspection moved a file: %v", err)
	}
}
