package cgroups

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/timing"
	"github.com/podwright/podwright/internal/tree"
	"github.com/podwright/podwright/runtime/pods/internal/cgroupname"
)

// How often Destroy looks at a cgroup whose processes it killed, and the pause in
// between.
const (
	destroyTries = 20
	destroyPause = 50 * time.Millisecond
)

// Destroy kills every process in the pod's cgroup and in those below it, and removes
// them, at any level. It waits at most a second for what it killed. An error says that
// something is left; the next call continues. It succeeds if the pod has no cgroup.
func (h *Hierarchy) Destroy(ctx context.Context, uid types.UID) error {
	root, err := os.OpenRoot(h.root)
	if err != nil {
		return fmt.Errorf("cgroups: %w", err)
	}
	defer root.Close()
	var others, anchors []string // the anchors go last: they show which pods are left
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
		err := destroyAll(ctx, root, others)
		if err == nil {
			err = destroyAll(ctx, root, anchors)
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
func destroyAll(ctx context.Context, root *os.Root, paths []string) error {
	var problems []error
	for _, p := range paths {
		problems = append(problems, destroyTree(ctx, root, p))
	}
	return errors.Join(problems...)
}

// destroyTree kills and removes what is below a cgroup, then the cgroup. A pod can nest cgroups in
// its own as deeply as it likes: each is opened from the one above it.
func destroyTree(ctx context.Context, root *os.Root, name string) error {
	parent, err := root.Open(path.Dir(name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("destroy cgroup: %w", err)
	}
	defer parent.Close()
	cgroup, err := root.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("destroy cgroup: %w", err)
	}
	defer cgroup.Close()
	d := destruction{name: name}
	err = tree.Walker{
		Visit:  func(tree.Entry) error { return nil },
		Leave:  func(dir, folder int, name string) error { d.destroy(dir, folder, name); return nil },
		Failed: func(_ string, err error) error { d.note(err); return nil },
	}.Walk(ctx, cgroup)
	if err != nil {
		return fmt.Errorf("destroy cgroup %s: %w", name, err)
	}
	d.destroy(int(parent.Fd()), int(cgroup.Fd()), path.Base(name))
	return errors.Join(d.problems...)
}

// destruction collects what could not be destroyed of a cgroup.
type destruction struct {
	name     string
	problems []error
}

// maxProblems is how many of them are reported.
const maxProblems = 5

func (d *destruction) note(err error) {
	if len(d.problems) < maxProblems {
		d.problems = append(d.problems, fmt.Errorf("destroy cgroup %s: %w", d.name, err))
	}
}

// destroy kills the processes of one cgroup and removes it, unless something is left below it.
func (d *destruction) destroy(dir, cgroup int, name string) {
	if err := killIn(cgroup); err != nil {
		d.note(fmt.Errorf("%q: %w", name, err))
		return
	}
	err := unix.Unlinkat(dir, name, unix.AT_REMOVEDIR)
	above := len(d.problems) > 0 && (errors.Is(err, unix.ENOTEMPTY) || errors.Is(err, unix.EBUSY)) // reported already
	if err != nil && !errors.Is(err, unix.ENOENT) && !above {
		d.note(fmt.Errorf("%q: %w", name, err))
	}
}

// killIn kills the processes of one cgroup.
func killIn(cgroup int) error {
	fd, err := unix.Openat(cgroup, "cgroup.procs", unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	if err != nil {
		return err
	}
	list := os.NewFile(uintptr(fd), "cgroup.procs")
	defer list.Close()
	lines := bufio.NewScanner(list)
	for lines.Scan() {
		pid, err := strconv.Atoi(lines.Text())
		// 0 is a process of another namespace. The agent and init are never killed,
		// even if they were put into a pod's cgroup.
		if err != nil || pid <= 1 || pid == os.Getpid() {
			return fmt.Errorf("it holds process %q, which is not killed", lines.Text())
		}
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("kill %d: %w", pid, err)
		}
	}
	switch err := lines.Err(); {
	case errors.Is(err, unix.ENODEV): // it is gone
		return nil
	case errors.Is(err, unix.EOPNOTSUPP): // it is threaded: its processes are in the list of one above
		return nil
	default:
		return err
	}
}
