package pods

import (
	"context"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// mountFeatures is what the runtime can do beyond plain mounts.
type mountFeatures struct {
	recursiveReadOnly bool
	options           bool
}

// mountFeatures asks the runtime, if a mount of the container depends on it.
func (st *starting) mountFeatures(ctx context.Context) (mountFeatures, error) {
	asks := slices.ContainsFunc(st.spec.VolumeMounts, func(vm v1.VolumeMount) bool {
		return wantsRecursive(&vm) || len(vm.BindMountOptions) > 0
	})
	if !asks {
		return mountFeatures{}, nil
	}
	status, err := st.m.runtime.Status(ctx, false)
	if err != nil {
		return mountFeatures{}, fmt.Errorf("ask the runtime what mounts it can make: %w", err)
	}
	f := mountFeatures{options: status.GetFeatures().GetMountOptions()}
	for _, h := range status.GetRuntimeHandlers() {
		if h.GetName() == st.handler {
			f.recursiveReadOnly = h.GetFeatures().GetRecursiveReadOnlyMounts()
		}
	}
	return f, nil
}

func wantsRecursive(vm *v1.VolumeMount) bool {
	return vm.RecursiveReadOnly != nil && *vm.RecursiveReadOnly != v1.RecursiveReadOnlyDisabled
}

// recursiveReadOnly follows spec/runtime.md 12.3.
func recursiveReadOnly(vm *v1.VolumeMount, features mountFeatures) (bool, error) {
	if !wantsRecursive(vm) {
		return false, nil
	}
	switch {
	case !vm.ReadOnly:
		return false, fmt.Errorf("recursiveReadOnly needs readOnly")
	case vm.MountPropagation != nil && *vm.MountPropagation != v1.MountPropagationNone:
		return false, fmt.Errorf("recursiveReadOnly needs mountPropagation None")
	case *vm.RecursiveReadOnly == v1.RecursiveReadOnlyIfPossible:
		return features.recursiveReadOnly, nil
	case *vm.RecursiveReadOnly != v1.RecursiveReadOnlyEnabled:
		return false, fmt.Errorf("recursiveReadOnly %q is unknown", *vm.RecursiveReadOnly)
	case !features.recursiveReadOnly:
		return false, fmt.Errorf("the runtime does not support recursiveReadOnly; with IfPossible the container starts without it")
	}
	return true, nil
}

// bindMountOptions follows spec/runtime.md 12.3.
func bindMountOptions(vm *v1.VolumeMount, features mountFeatures) ([]string, error) {
	for _, o := range vm.BindMountOptions {
		switch v1.BindMountOption(o) {
		case v1.BindMountOptionNoExec, v1.BindMountOptionNoDev, v1.BindMountOptionNoSUID:
		default:
			return nil, fmt.Errorf("bindMountOptions: %q is none of noexec, nodev and nosuid", o)
		}
	}
	if len(vm.BindMountOptions) > 0 && !features.options {
		return nil, fmt.Errorf("bindMountOptions are not supported by the runtime")
	}
	return vm.BindMountOptions, nil
}

// devices prepares the container's block devices (spec/runtime.md 12.6).
func (st *starting) devices() ([]*runtimeapi.Device, error) {
	var out []*runtimeapi.Device
	for _, vd := range st.spec.VolumeDevices {
		volume, err := st.volumes.get(st.pod, vd.Name)
		switch {
		case err != nil:
		case volume.DevicePath == "":
			err = fmt.Errorf("it is not a block device: list it under volumeMounts")
		case vd.DevicePath == "" || vd.DevicePath[0] != '/':
			err = fmt.Errorf("devicePath %q is not absolute", vd.DevicePath)
		}
		if err != nil {
			return nil, fmt.Errorf("volume device %q: %w", vd.Name, err)
		}
		permissions := "mrw"
		if volume.ReadOnly {
			permissions = "r"
		}
		out = append(out, &runtimeapi.Device{
			ContainerPath: absolute(vd.DevicePath), HostPath: volume.DevicePath, Permissions: permissions,
		})
	}
	return out, nil
}
