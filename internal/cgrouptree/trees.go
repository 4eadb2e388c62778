package cgrouptree

import (
	"os"
	"path/filepath"
	"strings"
)

// Unified reports whether a folder such as /sys/fs/cgroup holds the one tree of version 2.
func Unified(root string) bool {
	_, err := os.Stat(filepath.Join(root, "cgroup.controllers"))
	return err == nil
}

// Trees are the trees of a machine's cgroups. A machine without cgroups has none.
type Trees struct {
	root string
	// folders are those of the controllers on version 1; nil on version 2.
	folders map[string]string
}

// Examine detects which trees a folder such as /sys/fs/cgroup holds.
func Examine(root string) Trees {
	t := Trees{root: root}
	if Unified(root) {
		return t
	}
	t.folders = map[string]string{}
	entries, _ := os.ReadDir(root)
	for _, e := range entries {
		if !e.IsDir() { // a link is another name of a tree that exists as well
			continue
		}
		for controller := range strings.SplitSeq(e.Name(), ",") {
			t.folders[controller] = filepath.Join(root, e.Name())
		}
	}
	return t
}

// Unified reports whether this is the one tree of version 2.
func (t Trees) Unified() bool { return t.folders == nil }

// Of returns the folder of a controller's tree, empty if there is none.
func (t Trees) Of(controller string) string {
	if t.Unified() {
		return t.root
	}
	return t.folders[controller]
}
