package main

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestOCIWrapperRaisesScores: the OCI runtime gets its own arguments, and no OOM score below what
// every process may have.
func TestOCIWrapperRaisesScores(t *testing.T) {
	root := t.TempDir()
	l := layout{root: root}
	bundle := filepath.Join(root, "bundle")
	config := filepath.Join(bundle, "config.json")
	oci := filepath.Join(root, "runtime")
	for file, text := range map[string]string{
		config:  `{"process": {"oomScoreAdj": -997}, "other": {"oomScoreAdj":-1}, "kept": {"oomScoreAdj": 938}}`,
		oci:     "#!/bin/sh\necho \"$@\"\n",
		l.oci(): l.ociWrapper(oci),
	} {
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	out, err := exec.Command(l.oci(), "--root", "x y", "create", "--bundle", bundle, "id").CombinedOutput()
	if want := "--root x y create --bundle " + bundle + " id\n"; err != nil || string(out) != want {
		t.Errorf("%q, %v; want %q", out, err, want)
	}
	text, err := os.ReadFile(config)
	if want := `{"process": {"oomScoreAdj":0}, "other": {"oomScoreAdj":0}, "kept": {"oomScoreAdj": 938}}`; err != nil || string(text) != want {
		t.Errorf("%s, %v; want %s", text, err, want)
	}
}

// TestFilesStayInTheFolder: outside its folder, the daemon uses nothing but the programs.
func TestFilesStayInTheFolder(t *testing.T) {
	l := layout{root: t.TempDir()}
	programs := tools{crio: "/programs/crio", pinns: "/programs/pinns", conmon: "/programs/conmon", oci: "/programs/runc", cni: "/programs/cni"}
	if err := l.write(programs, "127.0.0.1:1/pause:test"); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(l.config())
	if err != nil {
		t.Fatal(err)
	}
	paths := 0
	for line := range strings.Lines(string(text)) {
		_, value, ok := strings.Cut(strings.TrimSpace(line), " = ")
		value = strings.Trim(value, `[]"`)
		if !ok || !strings.HasPrefix(value, "/") || value == "/pause" {
			continue
		}
		paths++
		if !strings.HasPrefix(value, l.root+"/") && !strings.HasPrefix(value, "/programs/") {
			t.Errorf("%s", line)
		}
	}
	if paths < 10 {
		t.Errorf("only %d paths in\n%s", paths, text)
	}
	var network struct {
		Plugins []struct {
			IPAM struct{ DataDir string }
		}
	}
	text, err = os.ReadFile(l.file("cni", "10-crio.conflist"))
	if err := errors.Join(err, json.Unmarshal(text, &network)); err != nil || len(network.Plugins) != 1 || network.Plugins[0].IPAM.DataDir != l.file("ipam") {
		t.Errorf("network %+v, %v", network, err)
	}
}
