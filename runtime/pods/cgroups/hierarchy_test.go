package cgroups_test

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/runtime/pods"
	"github.com/podwright/podwright/runtime/pods/cgroups"
)

// tree is a folder that stands in for a mounted hierarchy.
func tree(t *testing.T, version int) string {
	t.Helper()
	root := t.TempDir()
	if version == 2 {
		write(t, filepath.Join(root, "cgroup.controllers"), "cpuset cpu io memory pids rdma\n")
		return root
	}
	for _, c := range []string{"blkio", "cpu,cpuacct", "devices", "memory", "pids", "systemd"} {
		if err := os.Mkdir(filepath.Join(root, c), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("cpu,cpuacct", filepath.Join(root, "cpu")); err != nil {
		t.Fatal(err)
	}
	return root
}

func hierarchy(t *testing.T, o cgroups.Options) *cgroups.Hierarchy {
	t.Helper()
	h, err := cgroups.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// files returns every file below root with its content, but the one that tells the
// version.
func files(t *testing.T, root string) map[string]string {
	t.Helper()
	out := map[string]string{}
	must(t, filepath.WalkDir(root, func(p string, d os.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() || d.Name() == "cgroup.controllers" {
			return err
		}
		text, err := os.ReadFile(p)
		name, _ := filepath.Rel(root, p)
		out[name] = string(text)
		return err
	}))
	return out
}

// spec/runtime.md 3.3: the names of both drivers.
func TestNamesOfBothDrivers(t *testing.T) {
	root := tree(t, 2)
	const uid = "12ab-34cd"
	for _, row := range []struct {
		name  string
		o     cgroups.Options
		class v1.PodQOSClass
		want  string
	}{
		{"cgroupfs Guaranteed", cgroups.Options{}, v1.PodQOSGuaranteed, "/kubepods/pod12ab-34cd"},
		{"cgroupfs Burstable", cgroups.Options{}, v1.PodQOSBurstable, "/kubepods/burstable/pod12ab-34cd"},
		{"cgroupfs BestEffort", cgroups.Options{}, v1.PodQOSBestEffort, "/kubepods/besteffort/pod12ab-34cd"},
		{"cgroupfs with another root", cgroups.Options{Parent: "a/b-c"}, v1.PodQOSBurstable, "/a/b-c/burstable/pod12ab-34cd"},
		{"systemd Guaranteed", cgroups.Options{Systemd: true}, v1.PodQOSGuaranteed, "/kubepods.slice/kubepods-pod12ab_34cd.slice"},
		{"systemd Burstable", cgroups.Options{Systemd: true}, v1.PodQOSBurstable, "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod12ab_34cd.slice"},
		{"systemd with another root", cgroups.Options{Systemd: true, Parent: "a/b-c"}, v1.PodQOSBestEffort, "/a.slice/a-b_c.slice/a-b_c-besteffort.slice/a-b_c-besteffort-pod12ab_34cd.slice"},
	} {
		t.Run("3.3 "+row.name, func(t *testing.T) {
			row.o.Root = root
			h := hierarchy(t, row.o)
			pod := pods.PodCgroup{UID: uid, Class: row.class}
			got, err := h.Parent(pod)
			if err != nil || got != row.want {
				t.Errorf("%q, %v; want %q", got, err, row.want)
			}
			must(t, h.Create(pod, pods.CgroupResources{}))
			if list, err := h.List(); err != nil || !slices.Equal(list, []types.UID{uid}) {
				t.Errorf("List %q, %v", list, err)
			}
			if info, err := os.Stat(filepath.Join(root, row.want)); err != nil || !info.IsDir() {
				t.Errorf("the folder is not where the name says: %v", err)
			}
		})
	}
}

// spec/runtime.md 13.4: slices that systemd would reset are refused, where it manages the tree.
func TestSlicesOfSystemdAreRefused(t *testing.T) {
	const root = "/sys/fs/cgroup"
	here, missing := t.TempDir(), filepath.Join(t.TempDir(), "missing")
	for _, row := range []struct {
		name    string
		o       cgroups.Options
		systemd string
		refused bool
	}{
		{"systemd runs", cgroups.Options{Systemd: true, Root: root}, here, true},
		{"by another name", cgroups.Options{Systemd: true, Root: root + "/./"}, here, true},
		{"another driver", cgroups.Options{Root: root}, here, false},
		{"no systemd", cgroups.Options{Systemd: true, Root: root}, missing, false},
		{"another tree", cgroups.Options{Systemd: true, Root: tree(t, 2)}, here, false},
	} {
		if err := cgroups.CheckDriver(row.o, row.systemd); (err != nil) != row.refused {
			t.Errorf("%s: %v", row.name, err)
		}
	}
	if _, err := os.Stat("/run/systemd/system"); err != nil {
		t.Skip("systemd does not run this machine")
	}
	if _, err := cgroups.New(cgroups.Options{Systemd: true}); err == nil || !strings.Contains(err.Error(), "use the runtime's cgroupfs driver") {
		t.Errorf("New: %v", err)
	}
}

// A UID comes from a manifest: none leads out of the hierarchy, whatever is asked.
func TestUIDStaysInside(t *testing.T) {
	for _, version := range []int{1, 2} {
		root := tree(t, version)
		before := files(t, filepath.Dir(root))
		for _, systemd := range []bool{false, true} {
			h := hierarchy(t, cgroups.Options{Root: root, Systemd: systemd})
			uids := []types.UID{"", ".", "..", "../x", "a/b", "/etc", "x/../../../y", "a\x00b", "a\nb", types.UID(strings.Repeat("u", 254))}
			if systemd {
				uids = append(uids, "a_b")
			}
			for _, uid := range uids {
				pod := pods.PodCgroup{UID: uid, Class: v1.PodQOSBurstable}
				_, parentErr := h.Parent(pod)
				_, existsErr := h.Exists(pod)
				_, readErr := h.Resources(pod)
				_, usageErr := h.MemoryUsage(pod)
				for what, err := range map[string]error{
					"Parent": parentErr, "Exists": existsErr, "Resources": readErr, "MemoryUsage": usageErr,
					"Create": h.Create(pod, pods.CgroupResources{}), "SetResources": h.SetResources(pod, pods.CgroupResources{CPUShares: 2}),
					"ReduceCPU": h.ReduceCPU(uid), "Destroy": h.Destroy(t.Context(), uid),
				} {
					if err == nil {
						t.Errorf("cgroup v%d: %s took UID %.20q", version, what, uid)
					}
				}
			}
			if _, err := h.Parent(pods.PodCgroup{UID: "a", Class: "Better"}); err == nil {
				t.Error("an unknown class has a cgroup")
			}
		}
		if after := files(t, filepath.Dir(root)); !maps.Equal(before, after) {
			t.Errorf("cgroup v%d: files were made: %v", version, after)
		}
	}
	// A link inside the tree that leads out of it is not followed.
	root := tree(t, 2)
	outside := t.TempDir()
	must(t, os.Symlink(outside, filepath.Join(root, "kubepods")))
	h := hierarchy(t, cgroups.Options{Root: root})
	if err := h.Create(pods.PodCgroup{UID: "a", Class: v1.PodQOSGuaranteed}, pods.CgroupResources{CPUShares: 2}); err == nil {
		t.Error("a cgroup was made through a link out of the tree")
	}
	if left := files(t, outside); len(left) > 0 {
		t.Errorf("outside: %v", left)
	}
}

// spec/runtime.md 13.4: the values reach the files, and come back.
func TestResourcesReachTheFilesAndComeBack(t *testing.T) {
	pod := pods.PodCgroup{UID: "u", Class: v1.PodQOSBurstable}
	set := pods.CgroupResources{
		CPUShares: 512, CPUQuota: 50000, CPUPeriod: 100000, MemoryLimit: 64 << 20,
		Unified: map[string]string{"memory.low": "1024"},
	}
	for _, row := range []struct {
		version int
		want    map[string]string
		shares  int64 // as read back
	}{
		{1, map[string]string{
			"cpu,cpuacct/kubepods/burstable/podu/cpu.shares":        "512",
			"cpu,cpuacct/kubepods/burstable/podu/cpu.cfs_period_us": "100000",
			"cpu,cpuacct/kubepods/burstable/podu/cpu.cfs_quota_us":  "50000",
			"memory/kubepods/burstable/podu/memory.limit_in_bytes":  "67108864",
		}, 512},
		{2, map[string]string{
			"cgroup.subtree_control":                         "+cpuset +cpu +io +memory +pids",
			"kubepods/cgroup.subtree_control":                "+cpuset +cpu +io +memory +pids",
			"kubepods/burstable/cgroup.subtree_control":      "+cpuset +cpu +io +memory +pids",
			"kubepods/burstable/podu/cgroup.subtree_control": "+cpuset +cpu +io +memory +pids",
			"kubepods/burstable/podu/cpu.weight":             "20",
			"kubepods/burstable/podu/cpu.max":                "50000 100000",
			"kubepods/burstable/podu/memory.max":             "67108864",
			"kubepods/burstable/podu/memory.low":             "1024",
		}, 501},
	} {
		root := tree(t, row.version)
		h := hierarchy(t, cgroups.Options{Root: root})
		if ok, err := h.Exists(pod); ok || err != nil {
			t.Errorf("cgroup v%d: Exists %v, %v before Create", row.version, ok, err)
		}
		must(t, h.Create(pod, set))
		if ok, err := h.Exists(pod); !ok || err != nil {
			t.Errorf("cgroup v%d: Exists %v, %v after Create", row.version, ok, err)
		}
		if got := files(t, root); !maps.Equal(got, row.want) {
			t.Errorf("cgroup v%d: %v, want %v", row.version, got, row.want)
		}
		want := set
		want.CPUShares, want.Unified = row.shares, nil
		if got, err := h.Resources(pod); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("cgroup v%d: read %+v, %v; want %+v", row.version, got, err, want)
		}
		must(t, h.SetResources(pod, pods.CgroupResources{CPUQuota: -1, CPUPeriod: 100000, MemoryLimit: -1}))
		want.CPUQuota, want.MemoryLimit = -1, -1
		if got, err := h.Resources(pod); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("cgroup v%d: without limits %+v, %v; want %+v", row.version, got, err, want)
		}
		must(t, h.ReduceCPU(pod.UID))
		want.CPUShares = 2
		if got, err := h.Resources(pod); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("cgroup v%d: reduced %+v, %v; want %+v", row.version, got, err, want)
		}
	}
}

// The levels are made at the start: 3.3, and the smallest weight for the lowest.
func TestSetupMakesTheLevels(t *testing.T) {
	for version, want := range map[int]map[string]string{
		1: {
			"cpu,cpuacct/kubepods/besteffort/cpu.shares": "2",
			"cpu,cpuacct/kubepods/burstable/cpu.shares":  "3072",
		},
		2: {"kubepods/besteffort/cpu.weight": "1", "kubepods/burstable/cpu.weight": "118"},
	} {
		root := tree(t, version)
		h := hierarchy(t, cgroups.Options{Root: root})
		must(t, h.Setup())
		must(t, h.Setup())
		must(t, h.SetBurstableShares(3072))
		got := files(t, root)
		maps.DeleteFunc(got, func(name, _ string) bool { return filepath.Base(name) == "cgroup.subtree_control" })
		if !maps.Equal(got, want) {
			t.Errorf("cgroup v%d: %v, want %v", version, got, want)
		}
		if list, err := h.List(); err != nil || len(list) > 0 {
			t.Errorf("cgroup v%d: List %q, %v without pods", version, list, err)
		}
	}
}

// 13.6: what pods may keep of their memory is set for the levels above them too, of which the kernel gives them a share.
// Version 1 has no such files.
func TestReservationsOfTheLevels(t *testing.T) {
	for version, want := range map[int]map[string]string{
		1: {},
		2: {"kubepods/memory.min": "120", "kubepods/memory.low": "30", "kubepods/burstable/memory.low": "30"},
	} {
		root := tree(t, version)
		h := hierarchy(t, cgroups.Options{Root: root})
		must(t, h.Setup())
		must(t, h.SetReservations(7, 7))
		must(t, h.SetReservations(120, 30))
		got := files(t, root)
		maps.DeleteFunc(got, func(name, _ string) bool { return !strings.HasPrefix(filepath.Base(name), "memory.") })
		if !maps.Equal(got, want) {
			t.Errorf("cgroup v%d: %v, want %v", version, got, want)
		}
		must(t, os.RemoveAll(filepath.Join(root, "kubepods")))
		must(t, h.SetReservations(0, 0))
		if err := h.SetReservations(0, 1); (err == nil) != (version == 1) {
			t.Errorf("cgroup v%d without levels: %v", version, err)
		}
	}
}

// Destroy removes a pod's folders from every tree, including those that the runtime made;
// it succeeds for an unknown pod. What cannot be removed is an error, and List shows it.
func TestDestroyRemovesEveryFolderOfThePod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		root := tree(t, 1)
		h := hierarchy(t, cgroups.Options{Root: root})
		must(t, h.Destroy(t.Context(), "u"))
		pod := pods.PodCgroup{UID: "u", Class: v1.PodQOSBestEffort}
		must(t, h.Create(pod, pods.CgroupResources{}))
		must(t, os.MkdirAll(filepath.Join(root, "blkio/kubepods/besteffort/podu/c1"), 0o755))
		must(t, h.Destroy(t.Context(), "u"))
		for _, c := range []string{"blkio", "cpu,cpuacct", "memory", "pids"} {
			if left, err := filepath.Glob(filepath.Join(root, c, "kubepods/besteffort/*")); err != nil || len(left) > 0 {
				t.Errorf("left: %v, %v", left, err)
			}
		}

		must(t, h.Create(pod, pods.CgroupResources{}))
		stuck := filepath.Join(root, "pids/kubepods/besteffort/podu/a file")
		write(t, stuck, "")
		if err := h.Destroy(t.Context(), "u"); err == nil {
			t.Error("a cgroup that cannot be removed is gone")
		}
		if list, err := h.List(); err != nil || !slices.Equal(list, []types.UID{"u"}) {
			t.Errorf("List %q, %v: what is left must be found again", list, err)
		}
		must(t, os.Remove(stuck))
		// The agent itself and init are never killed.
		procs := filepath.Join(root, "memory/kubepods/besteffort/podu/cgroup.procs")
		write(t, procs, "1\n")
		if err := h.Destroy(t.Context(), "u"); err == nil || !strings.Contains(err.Error(), "not killed") {
			t.Errorf("init in a pod's cgroup: %v", err)
		}
		must(t, os.Remove(procs))
		must(t, h.Destroy(t.Context(), "u"))
	})
}

func TestNewRefusesBadOptions(t *testing.T) {
	empty := t.TempDir()
	if _, err := cgroups.New(cgroups.Options{Root: empty}); !errors.Is(err, cgroups.ErrNoController) {
		t.Errorf("no controller at all: %v", err)
	}
	for _, o := range []cgroups.Options{{Root: "relative"}, {Root: filepath.Join(empty, "missing")}, {Root: tree(t, 2), Parent: "../up"}, {Root: tree(t, 2), Parent: "/abs"}} {
		if _, err := cgroups.New(o); err == nil {
			t.Errorf("%+v was taken", o)
		}
	}
}

// TestHugePagesAreLimitedWhereTheKernelCan: spec/runtime.md 13.4. Where the kernel also counts
// what is reserved, that is limited too. Without the controller the rest is set all the same.
func TestHugePagesAreLimitedWhereTheKernelCan(t *testing.T) {
	const cgroup = "kubepods/podu1"
	set := pods.CgroupResources{CPUShares: 1024, HugePages: map[string]int64{"2MB": 4 << 20, "1GB": 0}}
	for _, row := range []struct {
		name    string
		version int
		hugetlb bool
		// reserved are files that the kernel shows in the cgroup.
		reserved []string
		want     map[string]string
	}{
		{name: "version 2", version: 2, hugetlb: true, want: map[string]string{
			cgroup + "/hugetlb.2MB.max": "4194304",
			cgroup + "/hugetlb.1GB.max": "0",
		}},
		{name: "version 2 with reservations", version: 2, hugetlb: true, reserved: []string{cgroup + "/hugetlb.2MB.rsvd.max"}, want: map[string]string{
			cgroup + "/hugetlb.2MB.max":      "4194304",
			cgroup + "/hugetlb.2MB.rsvd.max": "4194304",
			cgroup + "/hugetlb.1GB.max":      "0",
		}},
		{name: "version 2 without the controller", version: 2, want: map[string]string{}},
		{name: "version 1", version: 1, hugetlb: true, want: map[string]string{
			"hugetlb/" + cgroup + "/hugetlb.2MB.limit_in_bytes": "4194304",
			"hugetlb/" + cgroup + "/hugetlb.1GB.limit_in_bytes": "0",
		}},
		{name: "version 1 with reservations", version: 1, hugetlb: true, reserved: []string{"hugetlb/" + cgroup + "/hugetlb.1GB.rsvd.limit_in_bytes"}, want: map[string]string{
			"hugetlb/" + cgroup + "/hugetlb.2MB.limit_in_bytes":      "4194304",
			"hugetlb/" + cgroup + "/hugetlb.1GB.limit_in_bytes":      "0",
			"hugetlb/" + cgroup + "/hugetlb.1GB.rsvd.limit_in_bytes": "0",
		}},
		{name: "version 1 without the controller", version: 1, want: map[string]string{}},
	} {
		t.Run(row.name, func(t *testing.T) {
			root := tree(t, row.version)
			switch {
			case row.hugetlb && row.version == 2:
				write(t, filepath.Join(root, "cgroup.controllers"), "cpu memory hugetlb pids\n")
			case row.hugetlb:
				must(t, os.Mkdir(filepath.Join(root, "hugetlb"), 0o755))
			}
			for _, name := range row.reserved {
				must(t, os.MkdirAll(filepath.Join(root, filepath.Dir(name)), 0o755))
				write(t, filepath.Join(root, name), "max\n")
			}
			h := hierarchy(t, cgroups.Options{Root: root})
			must(t, h.Setup())
			must(t, h.Create(pods.PodCgroup{UID: "u1", Class: v1.PodQOSGuaranteed}, set))
			got := files(t, root)
			maps.DeleteFunc(got, func(name, _ string) bool { return !strings.Contains(name, "/hugetlb.") })
			if !maps.Equal(got, row.want) {
				t.Errorf("%v, want %v", got, row.want)
			}
		})
	}
}

// TestPodsWithoutHugetlbFolderKeepTheirCgroup: pods that were started before the controller was
// managed, or by a runtime that leaves it alone, are not made again for it (spec/runtime.md 7.2).
func TestPodsWithoutHugetlbFolderKeepTheirCgroup(t *testing.T) {
	root := tree(t, 1)
	pod := pods.PodCgroup{UID: "u1", Class: v1.PodQOSGuaranteed}
	must(t, hierarchy(t, cgroups.Options{Root: root}).Create(pod, pods.CgroupResources{}))
	must(t, os.Mkdir(filepath.Join(root, "hugetlb"), 0o755))
	if ok, err := hierarchy(t, cgroups.Options{Root: root}).Exists(pod); !ok || err != nil {
		t.Errorf("Exists %v, %v", ok, err)
	}
}
