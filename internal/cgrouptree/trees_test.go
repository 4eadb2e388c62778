package cgrouptree

import (
	"os"
	"path/filepath"
	"testing"
)

// TestExamine: a folder with one tree is version 2, whatever its cgroups are called; otherwise each folder is a tree.
func TestExamine(t *testing.T) {
	root := t.TempDir()
	if trees := Examine(root); trees.Unified() || trees.Of("memory") != "" {
		t.Errorf("an empty folder: %+v", trees)
	}
	folders(t, root, "memory", "cpu,cpuacct")
	if err := os.Symlink("cpu,cpuacct", filepath.Join(root, "cpuset")); err != nil {
		t.Fatal(err)
	}
	if trees := Examine(root); trees.Unified() || trees.Of("memory") != filepath.Join(root, "memory") || trees.Of("cpuacct") != filepath.Join(root, "cpu,cpuacct") || trees.Of("cpuset") != "" {
		t.Errorf("version 1: %+v", trees)
	}
	if err := os.WriteFile(filepath.Join(root, "cgroup.controllers"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if trees := Examine(root); !trees.Unified() || trees.Of("memory") != root {
		t.Errorf("version 2: %+v", trees)
	}
}
