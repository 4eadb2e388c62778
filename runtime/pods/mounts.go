package pods

import (
	"errors"
	"fmt"
	"path"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

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

// mounts prepares the container's mounts (spec/runtime.md 12).
func (m *Manager) mounts(pod *v1.Pod, c *v1.Container, e *criconfig.Environment, podIPs []string, imageID string) ([]*runtimeapi.Mount, error) {
	if len(c.VolumeDevices) > 0 {
		return nil, fmt.Errorf("volumeDevices: block device %q is not supported", c.VolumeDevices[0].Name)
	}
	var out []*runtimeapi.Mount
	ownHosts := false
	for i := range c.VolumeMounts {
		vm := &c.VolumeMounts[i]
		mount, err := m.mount(pod, vm, e)
		if err != nil {
			return nil, fmt.Errorf("volume mount %q: %w", vm.Name, err)
		}
		ownHosts = ownHosts || mount.ContainerPath == hostsPath
		out = append(out, mount)
	}
	if m.options.NoManagedMounts || imageID == hostImage {
		return out, nil
	}
	if !ownHosts && (pod.Spec.HostNetwork || len(podIPs) > 0) {
		file, err := m.hostsFile(pod, podIPs)
		if err != nil {
			return nil, fmt.Errorf("hosts file: %w", err)
		}
		out = append(out, &runtimeapi.Mount{ContainerPath: hostsPath, HostPath: file})
	}
	if file, err := m.dirs.TerminationFile(pod.UID, c.Name, m.randomName()); err == nil {
		out = append(out, &runtimeapi.Mount{ContainerPath: absolute(meta.TerminationPath(c)), HostPath: file})
	} else {
		m.options.Logger.Error(err, "No termination message file", "podUID", pod.UID, "container", c.Name)
	}
	return out, nil
}

// absolute makes a container path absolute; there is no other way to read it.
func absolute(p string) string { return path.Clean("/" + p) }

// randomName returns 8 hex digits.
func (m *Manager) randomName() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return fmt.Sprintf("%08x", m.random.Uint32())
}

// mount prepares one volume mount.
func (m *Manager) mount(pod *v1.Pod, vm *v1.VolumeMount, e *criconfig.Environment) (*runtimeapi.Mount, error) {
	if vm.MountPath == "" {
		return nil, fmt.Errorf("mountPath is empty")
	}
	propagation, err := mountPropagation(vm)
	if err != nil {
		return nil, err
	}
	if err := checkRecursiveReadOnly(vm); err != nil {
		return nil, err
	}
	sub := vm.SubPath
	if vm.SubPathExpr != "" {
		if sub, err = expandSubPath(vm.SubPathExpr, e); err != nil {
			return nil, err
		}
	}
	host, err := m.volume(pod, vm.Name)
	if err != nil {
		return nil, err
	}
	if sub != "" {
		if host, err = poddir.SubPath(host, sub); err != nil {
			return nil, err
		}
	}
	return &runtimeapi.Mount{
		ContainerPath: absolute(vm.MountPath), HostPath: host, Readonly: vm.ReadOnly, Propagation: propagation,
	}, nil
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

// checkRecursiveReadOnly follows spec/runtime.md 12.3 for a runtime that is not
// known to support it.
func checkRecursiveReadOnly(vm *v1.VolumeMount) error {
	if vm.RecursiveReadOnly == nil || *vm.RecursiveReadOnly == v1.RecursiveReadOnlyDisabled {
		return nil
	}
	switch {
	case !vm.ReadOnly:
		return fmt.Errorf("recursiveReadOnly needs readOnly")
	case vm.MountPropagation != nil && *vm.MountPropagation != v1.MountPropagationNone:
		return fmt.Errorf("recursiveReadOnly needs mountPropagation None")
	case *vm.RecursiveReadOnly == v1.RecursiveReadOnlyIfPossible:
		return nil
	}
	return fmt.Errorf("recursiveReadOnly %q is not supported", *vm.RecursiveReadOnly)
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

// volume makes a volume ready and returns where it is on the node.
func (m *Manager) volume(pod *v1.Pod, name string) (string, error) {
	for i := range pod.Spec.Volumes {
		v := &pod.Spec.Volumes[i]
		if v.Name != name {
			continue
		}
		switch {
		case v.EmptyDir != nil && v.EmptyDir.Medium == v1.StorageMediumDefault:
			var group *int64
			if pod.Spec.SecurityContext != nil {
				group = pod.Spec.SecurityContext.FSGroup
			}
			return m.dirs.EmptyDir(pod.UID, name, group)
		case v.EmptyDir != nil:
			return "", fmt.Errorf("emptyDir with medium %q is not supported", v.EmptyDir.Medium)
		case v.HostPath != nil:
			return poddir.HostPath(v.HostPath)
		}
		return "", fmt.Errorf("only emptyDir and hostPath volumes are supported")
	}
	return "", fmt.Errorf("the pod has no volume of this name")
}

// hostsFile writes the pod's hosts file (spec/runtime.md 12.4).
func (m *Manager) hostsFile(pod *v1.Pod, podIPs []string) (string, error) {
	if pod.Spec.HostNetwork {
		text, err := readBounded(m.options.HostsFile, maxHostsFile)
		if err != nil {
			return "", err
		}
		return m.dirs.HostsFile(pod.UID, poddir.HostNetworkHosts(text, pod.Spec.HostAliases))
	}
	hostname, domain, err := criconfig.Hostname(pod, m.node.ClusterDomain)
	if err != nil {
		return "", err
	}
	return m.dirs.HostsFile(pod.UID, poddir.Hosts(podIPs, hostname, domain, pod.Spec.HostAliases))
}
