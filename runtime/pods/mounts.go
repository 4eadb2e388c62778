package pods

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"slices"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/internal/durable"
	"github.com/podwright/podwright/runtime/pods/internal/criconfig"
	"github.com/podwright/podwright/runtime/pods/internal/meta"
	"github.com/podwright/podwright/runtime/pods/internal/poddir"
)

const (
	hostsPath = "/etc/hosts"
	// maxHostsFile bounds the node's hosts file.
	maxHostsFile = 10 << 20
	// hostImage is the ID of the one image that is the node's own root file
	// system (package runtime/process); in a real store IDs are digests.
	hostImage = "host"
)

// mounts prepares the container's mounts (spec/runtime.md 12). Sub-paths are held
// from here until releaseSubPaths.
func (st *starting) mounts(ctx context.Context, e *criconfig.Environment, imageID string) ([]*runtimeapi.Mount, error) {
	m := st.m
	features, err := st.mountFeatures(ctx)
	if err != nil {
		return nil, err
	}
	var out []*runtimeapi.Mount
	ownHosts := false
	relabelled := map[string]bool{}
	for i := range st.spec.VolumeMounts {
		vm := &st.spec.VolumeMounts[i]
		mount, err := st.mount(ctx, vm, i, e, features)
		if err != nil {
			return nil, fmt.Errorf("volume mount %q: %w", vm.Name, err)
		}
		// Once per path is enough: files have one label. A sub-path is held at a path of its own, and only what is there gets it.
		if mount.SelinuxRelabel {
			mount.SelinuxRelabel = !relabelled[mount.HostPath]
			relabelled[mount.HostPath] = true
		}
		ownHosts = ownHosts || mount.ContainerPath == hostsPath
		out = append(out, mount)
	}
	if m.options.NoManagedMounts || imageID == hostImage {
		return out, nil
	}
	if !ownHosts && (st.pod.Spec.HostNetwork || len(st.podIPs) > 0) {
		file, err := m.hostsFile(st.pod, st.podIPs)
		if err != nil {
			return nil, fmt.Errorf("hosts file: %w", err)
		}
		out = append(out, &runtimeapi.Mount{ContainerPath: hostsPath, HostPath: file, SelinuxRelabel: m.selinux})
	}
	if file, err := m.dirs.TerminationFile(st.pod.UID, st.spec.Name, m.randomName(), st.messageFiles()); err == nil {
		out = append(out, &runtimeapi.Mount{
			ContainerPath: absolute(meta.TerminationPath(st.spec)), HostPath: file, SelinuxRelabel: m.selinux,
		})
	} else {
		m.options.Logger.Error(err, "No termination message file", "podUID", st.pod.UID, "container", st.spec.Name)
	}
	return out, nil
}

// messageFiles are the names of the files for messages of the container's runs that the runtime still has. Starts that fail
// must not remove them, and a clock that was set back makes the newest look oldest.
func (st *starting) messageFiles() map[string]bool {
	names := map[string]bool{}
	if st.status == nil {
		return names
	}
	for _, c := range st.status.Containers {
		if host := messageFile(c); c.Name == st.spec.Name && host != "" {
			names[path.Base(host)] = true
		}
	}
	return names
}

// absolute makes a container path absolute.
func absolute(p string) string { return path.Clean("/" + p) }

// randomName returns 8 hex digits.
func (m *Manager) randomName() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return fmt.Sprintf("%08x", m.random.Uint32())
}

// mount prepares one volume mount, the container's number index.
func (st *starting) mount(ctx context.Context, vm *v1.VolumeMount, index int, e *criconfig.Environment, features mountFeatures) (*runtimeapi.Mount, error) {
	if vm.MountPath == "" {
		return nil, fmt.Errorf("mountPath is empty")
	}
	propagation, err := mountPropagation(vm)
	if err != nil {
		return nil, err
	}
	recursive, err := recursiveReadOnly(vm, features)
	if err != nil {
		return nil, err
	}
	options, err := bindMountOptions(vm, features)
	if err != nil {
		return nil, err
	}
	sub := vm.SubPath
	if vm.SubPathExpr != "" {
		if sub, err = expandSubPath(vm.SubPathExpr, e); err != nil {
			return nil, err
		}
	}
	volume, err := st.volumes.get(st.pod, vm.Name)
	if err != nil {
		return nil, err
	}
	out := &runtimeapi.Mount{
		ContainerPath: absolute(vm.MountPath), HostPath: volume.HostPath, Propagation: propagation,
		Readonly: vm.ReadOnly || volume.ReadOnly, RecursiveReadOnly: recursive, MountOptions: options,
		SelinuxRelabel: volume.SELinuxRelabel && st.m.selinux,
	}
	switch {
	case volume.Image != "":
		out.Image, out.ImageSubPath = st.volumeImage(vm.Name, volume.Image), sub
		return out, poddir.CheckSubPath(sub)
	case volume.HostPath == "":
		return nil, fmt.Errorf("it is a block device: name it under volumeDevices")
	case sub != "":
		out.HostPath, err = st.hold(ctx, poddir.SubPath{
			Volume: vm.Name, Host: volume.HostPath, Container: st.spec.Name, Index: index, Path: sub,
			Kept:   out.Readonly && ofTheNode(st.pod, vm.Name),
			Shared: propagation == runtimeapi.MountPropagation_PROPAGATION_BIDIRECTIONAL,
		})
	}
	return out, err
}

// hold holds a sub-path of a volume until releaseSubPaths. Opening it waits for the volume alone, so it is a call of its own.
func (st *starting) hold(ctx context.Context, p poddir.SubPath) (string, error) {
	opening := nodeCall(st.pod, p.Volume, fmt.Sprintf("the look at a sub-path of volume %q", p.Volume))
	source, err := askNode(ctx, &st.m.files, opening, nodeFileLimit, func(context.Context) (*os.File, error) {
		return p.Open() // garbage collection closes what comes too late
	})
	if err != nil {
		return "", err
	}
	st.holding = true
	return askNode(ctx, &st.m.files, subPathCall(st.pod.UID), nodeFileLimit, func(context.Context) (string, error) {
		return st.m.dirs.HoldSubPath(st.pod.UID, p, source)
	})
}

// ofTheNode reports whether a volume is a path of the node.
func ofTheNode(pod *v1.Pod, volume string) bool {
	return slices.ContainsFunc(pod.Spec.Volumes, func(v v1.Volume) bool { return v.Name == volume && v.HostPath != nil })
}

// releaseSubPaths releases the sub-paths that mounts holds, once the runtime has
// mounted them.
func (st *starting) releaseSubPaths(ctx context.Context) {
	if !st.holding {
		return
	}
	st.holding = false
	if err := st.m.releaseSubPaths(ctx, st.pod.UID, st.spec.Name); err != nil {
		// The next start, or the pod's end, tries again.
		st.m.options.Logger.Error(err, "A sub-path is still held", "podUID", st.pod.UID, "container", st.spec.Name)
	}
}

// mountPropagation follows spec/runtime.md 12.2.
func mountPropagation(vm *v1.VolumeMount) (runtimeapi.MountPropagation, error) {
	if vm.MountPropagation == nil {
		return runtimeapi.MountPropagation_PROPAGATION_PRIVATE, nil
	}
	switch *vm.MountPropagation {
	case v1.MountPropagationNone:
		return runtimeapi.MountPropagation_PROPAGATION_PRIVATE, nil
	case v1.MountPropagationHostToContainer:
		return runtimeapi.MountPropagation_PROPAGATION_HOST_TO_CONTAINER, nil
	case v1.MountPropagationBidirectional:
		return runtimeapi.MountPropagation_PROPAGATION_BIDIRECTIONAL, nil
	}
	return 0, fmt.Errorf("mountPropagation %q is unknown", *vm.MountPropagation)
}

// expandSubPath expands a subPathExpr; every variable must have a value
// (spec/runtime.md 12.1).
func expandSubPath(expr string, e *criconfig.Environment) (string, error) {
	var missing error
	out, err := criconfig.Expand(expr, func(name string) (string, bool) {
		value, ok := e.Lookup(name)
		if (!ok || value == "") && missing == nil {
			missing = fmt.Errorf("subPathExpr %q: variable %q has no value", expr, name)
		}
		return value, ok
	})
	return out, errors.Join(missing, err)
}

// hostsFile writes the pod's hosts file (spec/runtime.md 12.4).
func (m *Manager) hostsFile(pod *v1.Pod, podIPs []string) (string, error) {
	if pod.Spec.HostNetwork {
		text, err := durable.ReadFile(m.options.HostsFile, maxHostsFile)
		if err != nil {
			return "", err
		}
		return m.dirs.HostsFile(pod.UID, poddir.HostNetworkHosts(text, pod.Spec.HostAliases))
	}
	hostname, domain, err := criconfig.Names(pod, m.node.ClusterDomain)
	if err != nil {
		return "", err
	}
	return m.dirs.HostsFile(pod.UID, poddir.Hosts(podIPs, hostname, domain, pod.Spec.HostAliases))
}
