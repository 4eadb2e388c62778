package eviction

import (
	"context"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	v1 "k8s.io/api/core/v1"
)

// files makes a tree.
func files(t *testing.T, content map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, text := range content {
		name = filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

// proc is a machine with 1000 KiB and 100 process IDs.
func proc(t *testing.T) string {
	return files(t, map[string]string{
		"meminfo":                "MemTotal:     1000 kB\nMemFree:   200 kB\nInactive(file):  100 kB\nHugePages_Total:       0\n",
		"sys/kernel/pid_max":     "4194304\n",
		"sys/kernel/threads-max": "100\n",
		"loadavg":                "0.1 0.2 0.3 2/40 12345\n",
	})
}

func machine(t *testing.T, o LinuxStatsOptions) *LinuxStats {
	t.Helper()
	m, err := NewLinuxStats(o)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// TestMachine reads trees of either version of cgroups.
func TestMachine(t *testing.T) {
	v1Tree := map[string]string{
		"memory/kubepods/memory.limit_in_bytes": "512000\n", "memory/kubepods/memory.usage_in_bytes": "500000\n",
		"memory/kubepods/memory.stat": "inactive_file 1\ntotal_inactive_file 90000\n",
		"pids/kubepods/pids.max":      "50\n", "pids/kubepods/pids.current": "45\n",
		"memory/kubepods/poda/memory.usage_in_bytes": "300000\n", "memory/kubepods/poda/memory.stat": "total_inactive_file 100000\n",
		"pids/kubepods/poda/pids.current": "7\n",
	}
	v2Tree := map[string]string{
		"cgroup.controllers":  "memory pids\n",
		"kubepods/memory.max": "512000\n", "kubepods/memory.current": "500000\n", "kubepods/memory.stat": "anon 1\ninactive_file 90000\n",
		"kubepods/pids.max": "50\n", "kubepods/pids.current": "45\n",
		"kubepods/poda/memory.current": "300000\n", "kubepods/poda/memory.stat": "inactive_file 100000\n", "kubepods/poda/pids.current": "7\n",
	}
	unlimited := maps.Clone(v2Tree)
	unlimited["kubepods/memory.max"], unlimited["kubepods/pids.max"] = "max\n", "max\n"
	tests := []struct {
		name         string
		tree         map[string]string
		cgroup       string
		memory, pids Observation
	}{
		{"the machine", v1Tree, "", Observation{Available: 300 << 10, Capacity: 1000 << 10}, Observation{Available: 60, Capacity: 100}},
		{"version 1", v1Tree, "/kubepods", Observation{Available: 102000, Capacity: 512000}, Observation{Available: 5, Capacity: 50}},
		{"version 2", v2Tree, "kubepods", Observation{Available: 102000, Capacity: 512000}, Observation{Available: 5, Capacity: 50}},
		{"without a limit", unlimited, "kubepods", Observation{Available: 300 << 10, Capacity: 1000 << 10}, Observation{Available: 60, Capacity: 100}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			m := machine(t, LinuxStatsOptions{
				Proc: proc(t), Cgroups: files(t, test.tree), Cgroup: test.cgroup,
				PodCgroup: func(p *v1.Pod) (string, error) { return "/kubepods/pod" + p.Name, nil },
			})
			got, err := m.Node(t.Context())
			if err != nil || len(got) != 2 || got[MemoryAvailable] != test.memory || got[PIDAvailable] != test.pids {
				t.Errorf("read %+v, %v; want %+v and %+v", got, err, test.memory, test.pids)
			}
			for signal, want := range map[Signal]Usage{MemoryAvailable: {Memory: 200000}, PIDAvailable: {PIDs: 7}} {
				if used, err := m.Pod(t.Context(), pod("a"), signal); err != nil || used != want {
					t.Errorf("pod: %+v, %v; want %+v", used, err, want)
				}
			}
			if used, err := m.Pod(t.Context(), pod("gone"), MemoryAvailable); err != nil || used != (Usage{}) {
				t.Errorf("a pod without cgroup: %+v, %v", used, err)
			}
			if _, err := m.Pod(t.Context(), pod("a/../../../../../../etc"), MemoryAvailable); err == nil {
				t.Error("a name led out of the tree")
			}
		})
	}
}

// TestMachineUnreadable: what cannot be read is missing and named; the rest is there.
func TestMachineUnreadable(t *testing.T) {
	root := proc(t)
	if err := os.WriteFile(filepath.Join(root, "meminfo"), []byte("MemTotal: many kB\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := machine(t, LinuxStatsOptions{Proc: root, NodeFs: "/no/such/folder", ImageFs: func(context.Context) (string, error) { return root, nil }}).Node(t.Context())
	if err == nil || !strings.Contains(err.Error(), "memory.available: meminfo has no MemTotal") || !strings.Contains(err.Error(), "nodefs.available: statfs") {
		t.Errorf("error %v", err)
	}
	if _, ok := got[MemoryAvailable]; ok {
		t.Error("memory was read")
	}
	if o := got[ImageFsAvailable]; o.Capacity == 0 || o.Available > o.Capacity {
		t.Errorf("image file system: %+v", o)
	}
	for _, o := range []LinuxStatsOptions{{Proc: "proc"}, {NodeFs: "x"}, {Cgroup: "../x"}} {
		if _, err := NewLinuxStats(o); err == nil {
			t.Errorf("%+v was accepted", o)
		}
	}
}

// TestThisMachine reads the real thing.
func TestThisMachine(t *testing.T) {
	got, err := machine(t, LinuxStatsOptions{NodeFs: t.TempDir()}).Node(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, signal := range []Signal{MemoryAvailable, PIDAvailable, NodeFsAvailable} {
		if o := got[signal]; o.Available == 0 || o.Available > o.Capacity {
			t.Errorf("%s: %+v", signal, o)
		}
	}
}

// TestPodDisk: what pods have in their folders counts once, and nothing outside.
func TestPodDisk(t *testing.T) {
	outside := files(t, map[string]string{"secret": strings.Repeat("x", 1<<20)})
	dir := files(t, map[string]string{"a": strings.Repeat("x", 8192), "sub/b": "x"})
	for _, err := range []error{os.Symlink(outside, filepath.Join(dir, "link")), os.Link(filepath.Join(dir, "a"), filepath.Join(dir, "again"))} {
		if err != nil {
			t.Fatal(err)
		}
	}
	m := machine(t, LinuxStatsOptions{
		PodDirs: func(*v1.Pod) []string { return []string{dir, filepath.Join(dir, "none")} },
		PodLayers: func(context.Context, *v1.Pod) (Usage, error) {
			return Usage{Disk: 1 << 30, Inodes: 1000}, nil
		},
	})
	used, err := m.Pod(t.Context(), pod("a"), NodeFsAvailable)
	// ., a, sub, sub/b and the link itself.
	if err != nil || used.Inodes != 1005 || used.Disk < 1<<30+8192 || used.Disk >= 1<<30+1<<20 {
		t.Errorf("used %+v, %v", used, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := m.Pod(ctx, pod("a"), NodeFsAvailable); err == nil {
		t.Error("the walk went on after its context had ended")
	}
}

// TestMissingCgroupLeavesTheMachine: a cgroup that does not exist hides nothing of the machine, and is named.
func TestMissingCgroupLeavesTheMachine(t *testing.T) {
	partial := map[string]string{
		"cgroup.controllers": "memory pids\n", "half/memory.max": "512000\n", "half/pids.max": "50\n", // usage is missing
	}
	for _, cgroup := range []string{"missing", "half"} {
		got, err := machine(t, LinuxStatsOptions{Proc: proc(t), Cgroups: files(t, partial), Cgroup: cgroup}).Node(t.Context())
		memory, pids := Observation{Available: 300 << 10, Capacity: 1000 << 10}, Observation{Available: 60, Capacity: 100}
		if err == nil || !strings.Contains(err.Error(), "memory.available: ") || got[MemoryAvailable] != memory || got[PIDAvailable] != pids {
			t.Errorf("%s: read %+v, %v", cgroup, got, err)
		}
	}
}

// TestDiskOfImages: on a node with one disk, layers and folders count for either signal. If images have a disk of
// their own, layers count for it and folders for the other one, as for the kubelet.
func TestDiskOfImages(t *testing.T) {
	dir := files(t, map[string]string{"a": strings.Repeat("x", 8192)})
	other, err := os.MkdirTemp("/dev/shm", "images")
	if err != nil {
		t.Skip(err)
	}
	defer os.RemoveAll(other)
	var a, b syscall.Stat_t
	if syscall.Stat(dir, &a) != nil || syscall.Stat(other, &b) != nil || a.Dev == b.Dev {
		t.Skip("there is only one file system")
	}
	const folders, layers = 2, 1000 // inodes
	for _, test := range []struct {
		name, imageFs string
		err           error
		node, image   uint64
	}{
		{"one disk", dir, nil, folders + layers, folders + layers},
		{"two disks", other, nil, folders, layers},
		{"not known", "", os.ErrDeadlineExceeded, folders + layers, folders + layers},
		{"none", "", nil, folders + layers, folders + layers},
	} {
		for _, read := range []bool{false, true} { // whether the node is read first
			m := machine(t, LinuxStatsOptions{
				NodeFs: dir, ImageFs: func(context.Context) (string, error) { return test.imageFs, test.err },
				PodDirs:   func(*v1.Pod) []string { return []string{dir} },
				PodLayers: func(context.Context, *v1.Pod) (Usage, error) { return Usage{Disk: 1 << 30, Inodes: layers}, nil },
			})
			if read {
				got, err := m.Node(t.Context())
				if _, watched := got[ImageFsAvailable]; watched != (test.imageFs != "") || (err == nil) != (test.err == nil) {
					t.Errorf("%s: read %v, %v", test.name, got, err)
				}
			}
			for signal, want := range map[Signal]uint64{NodeFsAvailable: test.node, NodeFsInodesFree: test.node, ImageFsAvailable: test.image, ImageFsInodesFree: test.image} {
				if used, err := m.Pod(t.Context(), pod("a"), signal); err != nil || used.Inodes != want {
					t.Errorf("%s: %s: %+v, %v, want %d", test.name, signal, used, err, want)
				}
			}
		}
	}
}

// TestRuntimeIsNotAskedForWhatCgroupsTell: memory and process IDs of a pod come from its cgroup; the runtime is asked
// only where there is none.
func TestRuntimeIsNotAskedForWhatCgroupsTell(t *testing.T) {
	tree := files(t, map[string]string{"cgroup.controllers": "", "poda/memory.current": "5\n", "poda/memory.stat": "", "poda/pids.current": "7\n"})
	asked := 0
	m := machine(t, LinuxStatsOptions{
		Cgroups: tree, PodCgroup: func(p *v1.Pod) (string, error) { return "pod" + p.Name, nil },
		PodLayers: func(context.Context, *v1.Pod) (Usage, error) { asked++; return Usage{Memory: 99}, nil },
	})
	for signal, want := range map[Signal]Usage{MemoryAvailable: {Memory: 5}, PIDAvailable: {PIDs: 7}} {
		if used, err := m.Pod(t.Context(), pod("a"), signal); used != want || err != nil || asked > 0 {
			t.Errorf("%s: %+v, %v, asked %d times", signal, used, err, asked)
		}
	}
	if used, err := m.Pod(t.Context(), pod("b"), MemoryAvailable); used.Memory != 99 || err != nil || asked != 1 {
		t.Errorf("a pod without cgroup: %+v, %v, asked %d times", used, err, asked)
	}
}

// TestErrorsNameTheirSignals: section 16: what is wrong with one disk is about its space and its inodes, and about nothing else.
func TestErrorsNameTheirSignals(t *testing.T) {
	m := machine(t, LinuxStatsOptions{
		Cgroup: "none", NodeFs: filepath.Join(t.TempDir(), "none"), ImageFs: func(context.Context) (string, error) { return "", syscall.EIO },
	})
	readings, err := m.Node(t.Context())
	named := signalErrors(err)
	if _, read := readings[MemoryAvailable]; !read || named[MemoryAvailable] == nil {
		t.Errorf("readings %v, error %v", readings, err)
	}
	for _, s := range []Signal{NodeFsAvailable, NodeFsInodesFree, ImageFsAvailable, ImageFsInodesFree} {
		if named[s] == nil {
			t.Errorf("nothing about %s: %v", s, err)
		}
	}
	if named[PIDAvailable] != nil {
		t.Errorf("error %v", named[PIDAvailable])
	}
}
