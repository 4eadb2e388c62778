package pods

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/podwright/podwright/internal/cgrouptree"
	"github.com/podwright/podwright/internal/memory"
)

// Machine is what configurations need to know about the machine.
type Machine struct {
	// MemoryCapacity and SwapCapacity in bytes; 0: unknown or none.
	MemoryCapacity, SwapCapacity int64
	// PageSize of memory in bytes. 0 means 4096.
	PageSize int64
	// CgroupV2 is true if containers live in the unified hierarchy.
	CgroupV2 bool
	// SwapController is true if the kernel can limit swap.
	SwapController bool
	// SELinux is true if the kernel labels files.
	SELinux bool
	// HugePageSizes lists the sizes of huge pages in bytes, ascending.
	HugePageSizes []int64
	// NoHugetlb is true if control groups do not limit huge pages: the controller hugetlb is
	// missing or, on version 1, not mounted.
	NoHugetlb bool
	// HugePages is how many bytes the machine keeps as huge pages, by size in bytes. Pods
	// may request that much together.
	HugePages map[int64]int64
	// AppArmor is true if the kernel enforces AppArmor profiles.
	AppArmor bool
	// SubUIDs and SubGIDs are the texts of /etc/subuid and /etc/subgid: which user may give
	// which IDs to user namespaces.
	SubUIDs, SubGIDs string
	// MaskedPaths are files of this machine's hardware that containers must not see,
	// besides those that are the same everywhere.
	MaskedPaths []string
}

// ExamineMachine describes the machine it runs on. Facts that cannot be read stay
// zero.
func ExamineMachine() Machine {
	amounts, _ := memory.Table("/proc")
	m := Machine{
		MemoryCapacity: int64(amounts["MemTotal"]), SwapCapacity: int64(amounts["SwapTotal"]), PageSize: int64(os.Getpagesize()),
		HugePages: memory.HugePages("/sys"),
	}
	m.HugePageSizes = slices.Sorted(maps.Keys(m.HugePages))
	m.NoHugetlb = !hasHugetlb("/sys/fs/cgroup")
	m.SELinux = exists("/sys/fs/selinux/enforce")
	enabled, _ := os.ReadFile("/sys/module/apparmor/parameters/enabled")
	m.AppArmor = strings.HasPrefix(string(enabled), "Y")
	subUIDs, _ := os.ReadFile("/etc/subuid")
	subGIDs, _ := os.ReadFile("/etc/subgid")
	m.SubUIDs, m.SubGIDs = string(subUIDs), string(subGIDs)
	m.CgroupV2 = cgrouptree.Unified("/sys/fs/cgroup")
	// The root group of version 2 has no such file; the slices below it have one.
	swapFiles := []string{"/sys/fs/cgroup/memory/memory.memsw.limit_in_bytes"}
	if m.CgroupV2 {
		swapFiles, _ = filepath.Glob("/sys/fs/cgroup/*/memory.swap.max")
	}
	m.SwapController = slices.ContainsFunc(swapFiles, exists)
	m.MaskedPaths, _ = filepath.Glob("/sys/devices/system/cpu/cpu[0-9]*/thermal_throttle")
	slices.Sort(m.MaskedPaths)
	return m
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// hasHugetlb reports whether the control groups mounted below a folder limit huge pages.
func hasHugetlb(folder string) bool {
	if text, err := os.ReadFile(filepath.Join(folder, "cgroup.controllers")); err == nil {
		return slices.Contains(strings.Fields(string(text)), "hugetlb")
	}
	entries, _ := os.ReadDir(folder)
	return slices.ContainsFunc(entries, func(e os.DirEntry) bool {
		return slices.Contains(strings.Split(e.Name(), ","), "hugetlb")
	})
}
