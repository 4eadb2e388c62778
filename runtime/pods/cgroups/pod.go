package cgroups

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/podinfo"
	"github.com/podwright/podwright/runtime/pods"
	"github.com/podwright/podwright/runtime/pods/internal/cgroupname"
)

// path returns where the pod's cgroup is, below each tree.
func (h *Hierarchy) path(pod pods.PodCgroup) (string, error) {
	level, err := cgroupname.LevelOf(pod.Class)
	if err != nil {
		return "", err
	}
	return h.podPath(level, pod.UID)
}

// podPath returns the path of a pod's cgroup in a level (spec/runtime.md 3.3).
func (h *Hierarchy) podPath(level cgroupname.Level, uid types.UID) (string, error) {
	if err := podinfo.CheckName("pod UID", string(uid)); err != nil {
		return "", err
	}
	if h.names.Systemd && strings.Contains(string(uid), "_") {
		return "", fmt.Errorf("pod UID %q contains an underscore, which stands for a dash in names of systemd", uid)
	}
	name := h.names.Pod(level, uid)
	if err := podinfo.CheckName("cgroup of the pod", path.Base(name)); err != nil {
		return "", err
	}
	return name, nil
}

// Parent returns the text for the sandbox's configuration (spec/runtime.md 3.3).
func (h *Hierarchy) Parent(pod pods.PodCgroup) (string, error) {
	name, err := h.path(pod)
	if err != nil {
		return "", err
	}
	return "/" + name, nil
}

// open returns a handle of the root and the pod's path.
func (h *Hierarchy) open(pod pods.PodCgroup) (*os.Root, string, error) {
	name, err := h.path(pod)
	if err != nil {
		return nil, "", err
	}
	root, err := os.OpenRoot(h.root)
	if err != nil {
		return nil, "", fmt.Errorf("cgroups: %w", err)
	}
	return root, name, nil
}

// Exists reports whether the pod has a folder in every managed tree, whatever is set in it.
func (h *Hierarchy) Exists(pod pods.PodCgroup) (bool, error) {
	root, name, err := h.open(pod)
	if err != nil {
		return false, err
	}
	defer root.Close()
	for _, tree := range h.folders(managed...) {
		if _, err := root.Stat(path.Join(tree, name)); errors.Is(err, fs.ErrNotExist) {
			return false, nil
		} else if err != nil {
			return false, fmt.Errorf("cgroup of the pod: %w", err)
		}
	}
	return true, nil
}

// Create makes what is missing of the pod's cgroup and sets its resources.
func (h *Hierarchy) Create(pod pods.PodCgroup, r pods.CgroupResources) error {
	root, name, err := h.open(pod)
	if err != nil {
		return err
	}
	defer root.Close()
	if err := h.mkdir(root, name); err != nil {
		return err
	}
	return h.set(root, name, r)
}

// mkdir makes a cgroup and those above it.
func (h *Hierarchy) mkdir(root *os.Root, name string) error {
	for _, tree := range h.folders(append([]string{hugetlb}, managed...)...) {
		if err := root.MkdirAll(path.Join(tree, name), 0o755); err != nil {
			return fmt.Errorf("make cgroup: %w", err)
		}
	}
	if h.v1 != nil {
		return nil
	}
	return enableControllers(root, name)
}

// Resources reads what the pod's cgroup is set to.
func (h *Hierarchy) Resources(pod pods.PodCgroup) (pods.CgroupResources, error) {
	root, name, err := h.open(pod)
	if err != nil {
		return pods.CgroupResources{}, err
	}
	defer root.Close()
	return h.get(root, name)
}

// SetResources changes the pod's cgroup.
func (h *Hierarchy) SetResources(pod pods.PodCgroup, r pods.CgroupResources) error {
	root, name, err := h.open(pod)
	if err != nil {
		return err
	}
	defer root.Close()
	return h.set(root, name, r)
}

// MemoryUsage returns the bytes charged to the pod.
func (h *Hierarchy) MemoryUsage(pod pods.PodCgroup) (int64, error) {
	root, name, err := h.open(pod)
	if err != nil {
		return 0, err
	}
	defer root.Close()
	if h.v1 == nil {
		return readNumber(root, path.Join(name, "memory.current"))
	}
	return readNumber(root, path.Join(h.v1["memory"], name, "memory.usage_in_bytes"))
}

// ReduceCPU gives the pod the smallest weight there is, whatever its class, so that
// what is left of it does not disturb other pods. It succeeds if the pod has no cgroup.
func (h *Hierarchy) ReduceCPU(uid types.UID) error {
	root, err := os.OpenRoot(h.root)
	if err != nil {
		return fmt.Errorf("cgroups: %w", err)
	}
	defer root.Close()
	var problems []error
	for _, level := range cgroupname.Levels() {
		name, err := h.podPath(level, uid)
		if err != nil {
			return err
		}
		if _, err := root.Stat(path.Join(h.anchor(), name)); err != nil {
			continue
		}
		problems = append(problems, h.set(root, name, pods.CgroupResources{CPUShares: minShares}))
	}
	return errors.Join(problems...)
}
