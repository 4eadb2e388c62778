package pods

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/runtime"
)

// Grants gives containers what the node has only once: CPUs of their own, devices, parts of
// memory. A CPU manager, a device manager or a driver of resource claims can implement it; the
// engine has none of these (spec/runtime.md 26).
//
// It is called from many goroutines at once, but never concurrently for one pod. Calls may
// block, and must return soon after ctx ends. It must remember what it gave: after a crash of
// the agent, containers still have it.
type Grants interface {
	// Grant returns what a container gets. It is called before the container is created, for
	// each of its runs, and, while it runs, before its resources or those of its pod are
	// changed, and gives the same again until Release. An error keeps the container, or the
	// change, waiting and is shown to users.
	Grant(ctx context.Context, pod *v1.Pod, container *v1.Container) (Grant, error)
	// Release takes back what a pod's containers have. It is called once they have stopped for
	// good, any number of times, even for pods that were given nothing, and perhaps by a
	// restarted engine. While it fails, the pod does not count as gone, and it is called again.
	Release(ctx context.Context, uid types.UID) error
}

// Grant is what a container gets besides what its manifest says. Zero: nothing.
type Grant struct {
	// CPUs and MemoryNodes bind the container to CPUs and NUMA nodes, as lists like "0-3,8".
	// Empty: it is not bound.
	CPUs, MemoryNodes string
	// ExclusiveCPUs says that no other container uses the CPUs: the container, and the cgroup
	// of its pod, then get no CPU quota (spec/runtime.md 13, 26.1).
	ExclusiveCPUs bool
	Devices       []GrantedDevice
	// CDI are full names of devices of the Container Device Interface: vendor/class=name.
	CDI []string
	// Env is added to the environment where the manifest does not set the name.
	Env []v1.EnvVar
	// Mounts come after those of the manifest.
	Mounts []GrantedMount
	// Annotations are added to the container's for the runtime. The engine's own stay.
	Annotations map[string]string
}

// GrantedDevice is a device of the node. Both paths are absolute.
type GrantedDevice struct {
	HostPath, ContainerPath string
	// Permissions are letters of r, w and m (mknod). Empty: rwm.
	Permissions string
}

// GrantedMount is a file or folder of the node. Both paths are absolute.
type GrantedMount struct {
	HostPath, ContainerPath string
	ReadOnly                bool
}

// check reports what cannot be passed to a runtime.
func (g Grant) check() error {
	var problems []error
	paths := func(what, host, container string) {
		if !filepath.IsAbs(host) || !filepath.IsAbs(container) {
			problems = append(problems, fmt.Errorf("%s %q at %q: both paths must be absolute", what, host, container))
		}
	}
	for _, d := range g.Devices {
		paths("device", d.HostPath, d.ContainerPath)
	}
	for _, m := range g.Mounts {
		paths("mount", m.HostPath, m.ContainerPath)
	}
	for _, e := range g.Env {
		if e.Name == "" || e.ValueFrom != nil {
			problems = append(problems, fmt.Errorf("variable %q must have a name and a plain value", e.Name))
		}
	}
	for _, name := range g.CDI {
		if name == "" {
			problems = append(problems, errors.New("the name of a CDI device is empty"))
		}
	}
	return errors.Join(problems...)
}

// mounts are the grant's mounts as the runtime takes them.
func (g Grant) mounts() []*runtimeapi.Mount {
	var out []*runtimeapi.Mount
	for _, m := range g.Mounts {
		out = append(out, &runtimeapi.Mount{ContainerPath: m.ContainerPath, HostPath: m.HostPath, Readonly: m.ReadOnly})
	}
	return out
}

// addTo completes a container's configuration, whose mounts are there already.
func (g Grant) addTo(config *runtimeapi.ContainerConfig) {
	for _, d := range g.Devices {
		permissions := d.Permissions
		if permissions == "" {
			permissions = "rwm"
		}
		config.Devices = append(config.Devices, &runtimeapi.Device{HostPath: d.HostPath, ContainerPath: d.ContainerPath, Permissions: permissions})
	}
	for _, name := range g.CDI {
		config.CDIDevices = append(config.CDIDevices, &runtimeapi.CDIDevice{Name: name})
	}
	known := map[string]bool{}
	for _, e := range config.Envs {
		known[e.GetKey()] = true
	}
	for _, e := range g.Env {
		if !known[e.Name] {
			config.Envs = append(config.Envs, &runtimeapi.KeyValue{Key: e.Name, Value: []byte(e.Value)})
		}
	}
	for key, value := range g.Annotations {
		if _, own := config.Annotations[key]; !own {
			config.Annotations[key] = value
		}
	}
	g.bind(config.Linux.Resources)
}

// bind binds a container to its CPUs and memory nodes, without a CPU quota if no other container uses the
// CPUs (spec/runtime.md 13).
func (g Grant) bind(resources *runtimeapi.LinuxContainerResources) {
	resources.CpusetCpus, resources.CpusetMems = g.CPUs, g.MemoryNodes
	if g.lifts() {
		resources.CpuQuota = -1
	}
}

// lifts reports whether the grant lifts the CPU quotas of the container and of its pod.
func (g Grant) lifts() bool { return g.CPUs != "" && g.ExclusiveCPUs }

// liftPodQuota lifts the CPU quota of the pod's cgroup, which would hold a container with CPUs of its own back as its own quota
// does (spec/runtime.md 26.1).
func (m *Manager) liftPodQuota(pod *v1.Pod) error {
	if m.options.Cgroups == nil || !m.node.CPUQuota {
		return nil
	}
	err := m.options.Cgroups.SetResources(podCgroup(pod), CgroupResources{CPUQuota: -1, CPUPeriod: m.node.CPUPeriod})
	if err != nil {
		return fmt.Errorf("lift the CPU quota of the pod: %w", err)
	}
	return nil
}

// grant asks for what the container gets, and lifts the pod's quota if that is CPUs of its own: each sandbox that is made sets
// it (13.4).
func (st *starting) grant(ctx context.Context) (Grant, error) {
	g, err := st.m.granted(ctx, st.pod, st.spec)
	if err != nil {
		return Grant{}, st.m.waits(err)
	}
	if g.lifts() {
		st.lifted = true
		err = st.m.liftPodQuota(st.pod)
	}
	return g, err
}

// hasExclusiveCPUs reports whether a running container of the pod has CPUs of its own. It asks about no other: a grant comes
// with a start.
func (m *Manager) hasExclusiveCPUs(ctx context.Context, pod *v1.Pod, status *runtime.PodStatus) (bool, error) {
	if m.options.Grants == nil {
		return false, nil
	}
	for _, c := range containersOf(pod) {
		if record := status.Container(c.spec.Name); record == nil || record.State != runtime.Running {
			continue
		}
		g, err := m.granted(ctx, pod, c.spec)
		if err != nil {
			return false, fmt.Errorf("container %s: %w", c.spec.Name, err)
		}
		if g.lifts() {
			return true, nil
		}
	}
	return false, nil
}

// granted asks for what a container gets, or has.
func (m *Manager) granted(ctx context.Context, pod *v1.Pod, container *v1.Container) (Grant, error) {
	if m.options.Grants == nil {
		return Grant{}, nil
	}
	g, err := m.options.Grants.Grant(ctx, pod, container)
	if err == nil {
		err = g.check()
	}
	if err != nil {
		return Grant{}, fmt.Errorf("resources of the node: %w", err)
	}
	return g, nil
}

// releaseGrants takes back what the pod's containers had.
func (m *Manager) releaseGrants(ctx context.Context, uid types.UID) error {
	if m.options.Grants == nil {
		return nil
	}
	if err := m.options.Grants.Release(ctx, uid); err != nil {
		return fmt.Errorf("release what containers were granted: %w", err)
	}
	return nil
}
