//go:build containerd

package cgroups_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/runtime/pods"
	"github.com/podwright/podwright/runtime/pods/cgroups"
)

// TestContainerdKernel: the same on the kernel's own hierarchy (3.3, 13.4): values
// are read back, processes are charged and killed, nothing is left.
func TestContainerdKernel(t *testing.T) {
	parent := fmt.Sprintf("podwright-test-%d", os.Getpid())
	h := hierarchy(t, cgroups.Options{Parent: parent})
	must(t, h.Setup())
	pod := pods.PodCgroup{UID: "u", Class: v1.PodQOSBurstable}
	t.Cleanup(func() {
		must(t, h.Destroy(t.Context(), pod.UID))
		for _, pattern := range []string{parent + "/*", "*/" + parent + "/*", parent, "*/" + parent} {
			found, _ := filepath.Glob("/sys/fs/cgroup/" + pattern)
			for _, dir := range found {
				if info, err := os.Stat(dir); err == nil && info.IsDir() {
					must(t, os.Remove(dir))
				}
			}
		}
	})
	want := pods.CgroupResources{CPUShares: 512, CPUQuota: 50000, CPUPeriod: 100000, MemoryLimit: 64 << 20}
	must(t, h.Create(pod, want))
	got, err := h.Resources(pod)
	must(t, err)
	if got.CPUQuota != want.CPUQuota || got.CPUPeriod != want.CPUPeriod || got.MemoryLimit != want.MemoryLimit || got.CPUShares < 500 || got.CPUShares > 512 {
		t.Errorf("%+v, want %+v", got, want)
	}

	sleep := exec.Command("sleep", "1000")
	must(t, sleep.Start())
	name, err := h.Parent(pod)
	must(t, err)
	pid := []byte(strconv.Itoa(sleep.Process.Pid))
	for _, tree := range []string{"", "memory", "pids"} {
		pod := filepath.Join("/sys/fs/cgroup", tree, name)
		if _, err := os.Stat(filepath.Join(pod, "cgroup.procs")); err != nil {
			continue
		}
		for range 100 { // as a pod may do in its own
			must(t, os.MkdirAll(filepath.Join(pod, "beside"), 0o755))
			pod = filepath.Join(pod, "in")
			must(t, os.Mkdir(pod, 0o755))
		}
		must(t, os.WriteFile(filepath.Join(pod, "cgroup.procs"), pid, 0o600))
	}
	if _, err := h.MemoryUsage(pod); err != nil {
		t.Error(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = sleep.Wait() // it is killed
	}()
	must(t, h.Destroy(t.Context(), pod.UID))
	<-ended
	if ok, err := h.Exists(pod); ok || err != nil {
		t.Errorf("Exists %v, %v after Destroy", ok, err)
	}
	if list, err := h.List(); err != nil || slices.Contains(list, types.UID("u")) {
		t.Errorf("List %q, %v", list, err)
	}
}
