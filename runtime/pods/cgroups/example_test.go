package cgroups_test

import (
	"fmt"
	"os"
	"path/filepath"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/runtime/pods"
	"github.com/podwright/podwright/runtime/pods/cgroups"
)

// A folder stands in for /sys/fs/cgroup with cgroup version 2.
func Example() {
	root, err := os.MkdirTemp("", "cgroups")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(root)
	if err := os.WriteFile(filepath.Join(root, "cgroup.controllers"), []byte("cpu memory"), 0o600); err != nil {
		fmt.Println(err)
		return
	}
	h, err := cgroups.New(cgroups.Options{Root: root})
	if err != nil {
		fmt.Println(err)
		return
	}
	pod := pods.PodCgroup{UID: "12ab", Class: v1.PodQOSBurstable}
	if err := h.Create(pod, pods.CgroupResources{CPUShares: 512, MemoryLimit: 64 << 20}); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(h.Parent(pod))
	fmt.Println(h.List())
	limit, err := os.ReadFile(filepath.Join(root, "kubepods/burstable/pod12ab/memory.max"))
	fmt.Println(string(limit), err)
	// Output:
	// /kubepods/burstable/pod12ab <nil>
	// [12ab] <nil>
	// 67108864 <nil>
}
