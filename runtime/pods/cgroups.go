package pods

import (
	"context"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Cgroups keeps one cgroup per pod, so that the pod as a whole is limited and not
// only its containers (spec/runtime.md 3.3, 13.4). Package
// runtime/pods/cgroups has one for Linux.
//
// The methods are called from many goroutines, but never concurrently for one pod,
// and must wait only for the file system. A UID comes from a manifest: an
// implementation must not let it name anything outside its hierarchy.
type Cgroups interface {
	// Parent is the cgroup parent written into the sandbox's configuration.
	Parent(pod PodCgroup) (string, error)
	// Exists reports whether the pod has a cgroup that containers can be in. It need not
	// have its settings yet.
	Exists(pod PodCgroup) (bool, error)
	// Create makes the pod's cgroup, or completes it, with these resources; what is zero
	// in r stays as it is. It is called before each sandbox that is made while nothing
	// of the pod runs, whether the cgroup exists or not.
	Create(pod PodCgroup, r CgroupResources) error
	// Resources reads what the pod's cgroup is set to.
	Resources(pod PodCgroup) (CgroupResources, error)
	// SetResources changes the pod's cgroup; what is zero in r stays as it is.
	SetResources(pod PodCgroup, r CgroupResources) error
	// MemoryUsage returns the bytes charged to the pod.
	MemoryUsage(pod PodCgroup) (int64, error)
	// Destroy kills what is left in the pod's cgroup and removes it, whatever its
	// class. It succeeds if there is no such cgroup.
	Destroy(ctx context.Context, uid types.UID) error
}

// PodCgroup names the cgroup of a pod.
type PodCgroup struct {
	UID types.UID
	// Class decides the cgroup's level: Guaranteed pods are right below the root of
	// all pods, the others below a level of their own.
	Class v1.PodQOSClass
}

// CgroupResources are the settings of a pod's cgroup in the units of cgroup v1.
type CgroupResources struct {
	// CPUShares are the weight, 2 to 262144. 0: not set.
	CPUShares int64
	// CPUQuota and CPUPeriod are microseconds; a quota of -1 is no limit. 0: not
	// set.
	CPUQuota, CPUPeriod int64
	// MemoryLimit is in bytes; -1 is no limit. 0: not set.
	MemoryLimit int64
	// HugePages are bytes by page size as the kernel writes it, such as 2MB. They are ignored
	// where the kernel does not limit huge pages of cgroups.
	HugePages map[string]int64
	// Unified are further settings of cgroup v2, by file name; v1 ignores them.
	Unified map[string]string
}
