package node

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/podwright/podwright/cleanup/eviction"
)

// amounts are those of a text such as "cpu=2,memory=1Gi".
func amounts(text string) v1.ResourceList {
	list := v1.ResourceList{}
	for pair := range strings.SplitSeq(text, ",") {
		if name, value, ok := strings.Cut(pair, "="); ok {
			list[v1.ResourceName(name)] = resource.MustParse(value)
		}
	}
	return list
}

// KN13: pods may have what the capacity is less what is reserved and less the hard limits of eviction.
func TestAllocatable(t *testing.T) {
	const capacity = "cpu=4,memory=8Gi,ephemeral-storage=100Gi,pods=110"
	for _, c := range []struct {
		name, capacity, reserved, hard, soft, want string
	}{
		{name: "nothing kept back", capacity: capacity, want: capacity},
		{name: "reserved", capacity: capacity, reserved: "cpu=500m,memory=1Gi,ephemeral-storage=10Gi", want: "cpu=3500m,memory=7Gi,ephemeral-storage=90Gi,pods=110"},
		{name: "hard limits", capacity: capacity, hard: "memory.available<1Gi,nodefs.available<10%", want: "cpu=4,memory=7Gi,ephemeral-storage=90Gi,pods=110"},
		{name: "limits of other things", capacity: capacity, hard: "imagefs.available<15%,nodefs.inodesFree<5%,pid.available<1000", want: capacity},
		{name: "soft limits", capacity: capacity, soft: "memory.available<1Gi", want: capacity},
		{name: "both", capacity: capacity, reserved: "memory=1Gi", hard: "memory.available<25%", want: "cpu=4,memory=5Gi,ephemeral-storage=100Gi,pods=110"},
		{name: "huge pages", capacity: capacity + ",hugepages-2Mi=1Gi,hugepages-1Gi=2Gi", want: "cpu=4,memory=5Gi,ephemeral-storage=100Gi,pods=110,hugepages-2Mi=1Gi,hugepages-1Gi=2Gi"},
		{name: "more than there is", capacity: "memory=50Mi", hard: "memory.available<100Mi", want: "memory=0"},
		{name: "reserved without capacity", capacity: "cpu=4", reserved: "ephemeral-storage=1Gi", want: "cpu=4"},
	} {
		limits := eviction.Text{Hard: c.hard, Soft: c.soft}
		if c.soft != "" {
			limits.SoftGrace = "memory.available=1m"
		}
		thresholds, err := limits.Parse()
		if err != nil {
			t.Fatal(err)
		}
		has := amounts(c.capacity)
		got := allocatable(has, amounts(c.reserved), thresholds)
		if diff := cmp.Diff(amounts(c.want), got); diff != "" {
			t.Errorf("%s: %s", c.name, diff)
		}
		if diff := cmp.Diff(amounts(c.capacity), has); diff != "" {
			t.Errorf("%s: the capacity was changed: %s", c.name, diff)
		}
	}
}

// KN13: a reservation that the machine cannot give is refused when the agent starts.
func TestReservedMoreThanTheCapacity(t *testing.T) {
	for reserved, want := range map[string]string{
		"memory=900Pi":     "the memory in Reserved, 900Pi, is more than the capacity",
		"cpu=-1":           "the cpu in Reserved, -1, is negative",
		"cpu=1m,memory=1k": "",
	} {
		_, err := New(Options{Name: "edge-1", Client: fake.NewClientset(), RootDir: t.TempDir(), Reserved: amounts(reserved)})
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", reserved, err)
		}
	}
}

// KN3: the node shows the huge pages of each size that its kernel has, also if it keeps none.
func TestCapacityHasHugePages(t *testing.T) {
	root := t.TempDir()
	for folder, pages := range map[string]string{"hugepages-2048kB": "8\n", "hugepages-1048576kB": "0\n", "hugepages-64kB": "many\n", "other": "3\n"} {
		dir := filepath.Join(root, "sys/kernel/mm/hugepages", folder)
		if err := errors.Join(os.MkdirAll(dir, 0o755), os.WriteFile(filepath.Join(dir, "nr_hugepages"), []byte(pages), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	got := hugePages(root)
	if diff := cmp.Diff(amounts("hugepages-2Mi=16Mi,hugepages-1Gi=0"), got); diff != "" {
		t.Error(diff)
	}
	if none := hugePages(t.TempDir()); len(none) != 0 {
		t.Errorf("a kernel without huge pages: %v", none)
	}
	if sizes := hugePages("/"); len(sizes) > 0 {
		for name := range sizes {
			if _, ok := machineCapacity("")[name]; !ok {
				t.Errorf("%s is not in the capacity", name)
			}
		}
	}
}
