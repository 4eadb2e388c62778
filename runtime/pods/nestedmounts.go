package pods

import (
	"context"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/runtime/pods/internal/criconfig"
	"github.com/podwright/podwright/runtime/pods/internal/meta"
	"github.com/podwright/podwright/runtime/pods/internal/poddir"
)

// makeMountPoints makes, in volumes of files, what other mounts of the container are mounted on (spec/runtime.md 12.1).
func (st *starting) makeMountPoints(ctx context.Context, mounts []*runtimeapi.Mount) error {
	volumes := st.m.volumesOfFiles(st.pod)
	if len(volumes) == 0 {
		return nil
	}
	at := map[string]*runtimeapi.Mount{}
	for _, mount := range mounts {
		at[absolute(mount.GetContainerPath())] = mount
	}
	for _, mount := range mounts {
		point := absolute(mount.GetContainerPath())
		outer := ""
		for p := point; p != "/" && outer == ""; {
			if p = path.Dir(p); at[p] != nil {
				outer = p
			}
		}
		name, ok := volumes[at[outer].GetHostPath()]
		if !ok || at[outer].GetPropagation() == runtimeapi.MountPropagation_PROPAGATION_BIDIRECTIONAL {
			continue // on the node, the mount would outlive the container and keep the volume from being removed
		}
		folder := func() (bool, error) { return st.isFolder(ctx, mount) }
		if err := poddir.MakeMountPoint(at[outer].GetHostPath(), below(outer, point), folder); err != nil {
			return fmt.Errorf("mount at %q, inside volume %q: %w", point, name, err)
		}
	}
	return nil
}

// below returns the part of point after outer, which is above it.
func below(outer, point string) string {
	return strings.TrimPrefix(strings.TrimPrefix(point, outer), "/")
}

// isFolder reports whether what is mounted is a folder, as runtimes make a path of the node that is missing. It may be wrong
// about a path that only the runtime sees.
func (st *starting) isFolder(ctx context.Context, mount *runtimeapi.Mount) (bool, error) {
	call := nodeCall(st.pod, st.spec.Name, fmt.Sprintf("the look at what is mounted at %q", mount.GetContainerPath()))
	return askNode(ctx, &st.m.files, call, nodeFileLimit, func(context.Context) (bool, error) {
		info, err := os.Stat(mount.GetHostPath())
		return err != nil || info.IsDir(), nil
	})
}

// volumesOfFiles are the volumes of config maps, secrets and the pod's fields that the engine makes, by where they are.
func (m *Manager) volumesOfFiles(pod *v1.Pod) map[string]string {
	out := map[string]string{}
	for _, v := range m.ownFiles(pod) {
		if p := m.dirs.VolumePath(pod.UID, filesPlugin(v), v.Name); p != "" {
			out[p] = v.Name
		}
	}
	return out
}

// mountedInside reports whether a container of the pod may have something mounted on, or in, an entry at the top of a volume,
// as far as its definition says. The entry itself, mounted as a sub-path, does not count: a container that found none waits for
// the file.
func mountedInside(pod *v1.Pod, volume, entry string) bool {
	for _, c := range containersOf(pod) {
		places := map[string]bool{}
		points := []string{hostsPath, absolute(meta.TerminationPath(c.spec))}
		for i := range c.spec.VolumeMounts {
			vm := &c.spec.VolumeMounts[i]
			if vm.Name == volume && vm.SubPath == "" && vm.SubPathExpr == "" {
				places[absolute(vm.MountPath)] = true
			}
			if vm.Name != volume || entryOf(c.spec, vm) != entry {
				points = append(points, absolute(vm.MountPath))
			}
		}
		for _, point := range points {
			for p := point; p != "/"; p = path.Dir(p) {
				if path.Base(p) == entry && places[path.Dir(p)] {
					return true
				}
			}
		}
	}
	return false
}

// isSubPath reports whether a container mounts an entry at the top of a volume, or something in it, as a sub-path of the volume.
func isSubPath(pod *v1.Pod, volume, entry string) bool {
	for _, c := range containersOf(pod) {
		for i := range c.spec.VolumeMounts {
			if vm := &c.spec.VolumeMounts[i]; vm.Name == volume && entryOf(c.spec, vm) == entry {
				return true
			}
		}
	}
	return false
}

// entryOf returns the entry at the top of a volume that a sub-path of it is, or is in. It is empty for a mount of the whole volume,
// and for an expression with a variable whose value is not in the definition: what is mounted there must not be taken away.
func entryOf(c *v1.Container, vm *v1.VolumeMount) string {
	sub, known := vm.SubPath, true
	if vm.SubPathExpr != "" {
		var err error
		sub, err = criconfig.Expand(vm.SubPathExpr, func(name string) (string, bool) {
			for _, e := range slices.Backward(c.Env) {
				if e.Name == name {
					known = known && e.ValueFrom == nil && !strings.Contains(e.Value, "$")
					return e.Value, true
				}
			}
			known = false
			return "", true
		})
		known = known && err == nil
	}
	if sub == "" || !known {
		return ""
	}
	first, _, _ := strings.Cut(path.Clean(sub), "/")
	return first
}
