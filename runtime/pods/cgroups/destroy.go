package cgroups

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strconv"
	"strings"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/timing"
	"github.com/podwright/podwright/runtime/pods/internal/cgroupname"
)

// How often Destroy looks at a cgroup whose processes it killed, and the pause in
// between.
const (
	destroyTries = 20
	destroyPause = 50 * time.Millisecond
)

// Destroy kills every process in the pod's cgroup and in those below it, and removes
// them, at any level. It waits at most a second for what it killed. An error says
// that something is left; the next call continues. A pod without a cgroup is success.
func (h *Hierarchy) Destroy(ctx context.Context, uid types.UID) error {
	root, err := os.OpenRoot(h.root)
	if err != nil {
		return fmt.Errorf("cgroups: %w", err)
	}
	defer root.Close()
	var others, anchors []string // the anchors go last: they tell what is left
	for _, level := range cgroupname.Levels() {
		name, err := h.podPath(level, uid)
		if err != nil {
			return err
		}
		for _, tree := range h.trees[:len(h.trees)-1] {
			others = append(others, path.Join(tree, name))
		}
		anchors = append(anchors, path.Join(h.anchor(), name))
	}
	for try := 1; ; try++ {
		err := destroyAll(root, others)
		if err == nil {
			err = destroyAll(root, anchors)
		}
		if err == nil || try == destroyTries {
			return err
		}
		if cut := timing.Sleep(ctx, h.clock, destroyPause); cut != nil {
			return errors.Join(err, cut)
		}
	}
}

// destroyAll tries each path once.
func destroyAll(root *os.Root, paths []string) error {
	var problems []error
	for _, p := range paths {
		problems = append(problems, destroyTree(root, p))
	}
	return errors.Join(problems...)
}

// destroyTree kills and removes what is below a cgroup, then the cgroup.
func destroyTree(root *os.Root, name string) error {
	entries, err := fs.ReadDir(root.FS(), name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("destroy cgroup: %w", err)
	}
	var problems []error
	for _, e := range entries {
		if e.IsDir() {
			problems = append(problems, destroyTree(root, path.Join(name, e.Name())))
		}
	}
	problems = append(problems, killIn(root, name))
	if err := errors.Join(problems...); err != nil {
		return err
	}
	if err := root.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("destroy cgroup: %w", err)
	}
	return nil
}

// killIn kills the processes of one cgroup.
func killIn(root *os.Root, name string) error {
	text, err := read(root, path.Join(name, "cgroup.procs"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for field := range strings.FieldsSeq(text) {
		pid, err := strconv.Atoi(field)
		// 0 is a process of another namespace. The agent and init are never killed,
		// even if they were put into a pod's cgroup.
		if err != nil || pid <= 1 || pid == os.Getpid() {
			return fmt.Errorf("destroy cgroup: %s holds process %q, which is not killed", name, field)
		}
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("destroy cgroup: kill %d: %w", pid, err)
		}
	}
	return nil
}
