package criconfig

// Node is what configurations take from the node.
type Node struct {
	// Owner is written as a label if not empty.
	Owner string
	// RootDir is written as an annotation of sandboxes if not empty.
	RootDir string
	// ClusterDomain ends the domain of pods with a subdomain.
	ClusterDomain string
	// Sysctls are the node's defaults for pods.
	Sysctls map[string]string

	// PodCgroups gives every pod a control group below CgroupRoot, named as
	// systemd does or as the cgroup file system does.
	PodCgroups     bool
	SystemdCgroups bool
	CgroupRoot     string
	// CgroupV2 adds the settings only cgroup v2 has.
	CgroupV2 bool

	// MemoryCapacity in bytes, for OOM scores and swap shares; MemoryAllocatable is
	// what a container without limit may get, for throttling.
	MemoryCapacity, MemoryAllocatable int64
	// CPUQuota turns CPU limits into quotas, for periods of CPUPeriod microseconds.
	CPUQuota  bool
	CPUPeriod int64
	// HugePageSizes of the machine in bytes, ascending.
	HugePageSizes []int64
	// NoHugetlb is true if the kernel's control groups do not limit huge pages.
	NoHugetlb bool
	// SwapController is true if swap can be limited; LimitedSwap gives Burstable
	// containers a part of SwapCapacity bytes.
	SwapController bool
	LimitedSwap    bool
	SwapCapacity   int64
	// MemoryFactor throttles memory, unless it is 0; TieredReservation protects
	// requests as well. PageSize in bytes is what memory.high is rounded to.
	MemoryFactor      float64
	TieredReservation bool
	PageSize          int64

	// SeccompDefault makes RuntimeDefault the profile of containers without one.
	SeccompDefault bool
	// SeccompDir holds the profiles of type Localhost.
	SeccompDir string
	// ThermalPaths are this machine's thermal_throttle files, masked in containers.
	ThermalPaths []string
}
