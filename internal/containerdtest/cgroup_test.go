package containerdtest

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// cgroupTree is a /proc and a /sys/fs/cgroup with the process 7 in a container of pod u.
func cgroupTree(t *testing.T, table string, files map[string]string) (proc, root string) {
	t.Helper()
	proc, root = t.TempDir(), t.TempDir()
	files[filepath.Join(proc, "7", "cgroup")] = table
	for name, text := range files {
		if !filepath.IsAbs(name) {
			name = filepath.Join(root, name)
		}
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return proc, root
}

// TestCgroupIsFoundOnBothVersions: RT10: whatever a runtime calls the cgroup of a container.
func TestCgroupIsFoundOnBothVersions(t *testing.T) {
	const pod, container = "parent/podu", "parent/podu/crio-x"
	for name, tc := range map[string]struct {
		table  string
		files  map[string]string
		memory string
	}{
		"version 1": {
			"4:memory:/parent/podu/crio-x\n2:cpu:/parent/podu/crio-x\n1:name=systemd:/\n0::/\n",
			map[string]string{
				"cpu/" + container + "/cpu.shares": "102\n", "cpu/" + container + "/cpu.cfs_quota_us": "50000\n",
				"memory/" + container + "/memory.limit_in_bytes": "67108864\n", "memory/" + pod + "/memory.limit_in_bytes": "100\n",
			},
			"memory/" + pod + "/memory.limit_in_bytes",
		},
		"version 2": {
			"0::/parent/podu/crio-x\n",
			map[string]string{
				"cgroup.controllers": "cpu memory\n", container + "/cpu.weight": "4\n", container + "/cpu.max": "50000 100000\n",
				container + "/memory.max": "67108864\n", pod + "/memory.max": "100\n",
			},
			pod + "/memory.max",
		},
		"version 2, the other weight": {
			"0::/parent/podu/crio-x\n",
			map[string]string{
				"cgroup.controllers": "cpu memory\n", container + "/cpu.weight": "17\n", container + "/cpu.max": "50000 100000\n",
				container + "/memory.max": "67108864\n", pod + "/memory.max": "100\n",
			},
			pod + "/memory.max",
		},
	} {
		t.Run(name, func(t *testing.T) {
			proc, root := cgroupTree(t, tc.table, tc.files)
			c, err := cgroupOf(proc, root, 7)
			if err != nil {
				t.Fatal(err)
			}
			if err := c.Differences(Settings{CPUShares: 102, CPUQuota: 50000, Memory: 64 << 20}); err != nil {
				t.Error(err)
			}
			for want, part := range map[Settings]string{
				{CPUShares: 256}: "cpu.", {CPUQuota: 70000}: "cpu.", {CPUQuota: -1}: "cpu.", {Memory: 1}: "memory.", {Memory: -1}: "memory.",
			} {
				if err := c.Differences(want); err == nil || !strings.Contains(err.Error(), part) {
					t.Errorf("%+v: %v", want, err)
				}
			}
			above, err := c.Above("podu")
			if err != nil {
				t.Fatal(err)
			}
			if err := above.SetMemory(4096); err != nil {
				t.Fatal(err)
			}
			if text, err := os.ReadFile(filepath.Join(root, tc.memory)); err != nil || string(text) != "4096" {
				t.Errorf("the pod's limit is %s, %v", text, err)
			}
			if err := above.Differences(Settings{Memory: 4096}); err != nil {
				t.Error(err)
			}
			if _, err := c.Above("podv"); err == nil {
				t.Error("it is below another pod")
			}
			named, err := cgroupNamed(root, "parent")
			if err != nil {
				t.Fatal(err)
			}
			if pods, err := named.Children("pod"); err != nil || !slices.Equal(pods, []string{"podu"}) {
				t.Errorf("pods %q, %v", pods, err)
			}
			if _, err := cgroupNamed(root, "other"); err == nil {
				t.Error("there is no such cgroup")
			}
		})
	}
}

func TestOwnCgroupIsFound(t *testing.T) {
	c, err := CgroupOf(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	for _, folder := range c.folders {
		if info, err := os.Stat(folder); err == nil && info.IsDir() {
			return
		}
	}
	t.Errorf("none of %v is a folder", c.folders)
}

// TestMemoryOfAnUnfinishedCgroup: of a cgroup that is just being made, some controllers lack it for a moment; its
// limit is not written elsewhere.
func TestMemoryOfAnUnfinishedCgroup(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := (Cgroup{folders: map[string]string{"pids": t.TempDir()}}).SetMemory(4096); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("error %v, want one that it does not exist", err)
	}
	if left, err := os.ReadDir("."); err != nil || len(left) > 0 {
		t.Errorf("left %v, %v", left, err)
	}
}
