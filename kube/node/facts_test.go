package node

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	goruntime "runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// TestLargestImages (KN3): as many as the kubelet shows, the largest first, in an order
// that does not change.
func TestLargestImages(t *testing.T) {
	var images []*runtimeapi.Image
	for i := range 60 {
		images = append(images, &runtimeapi.Image{Id: fmt.Sprint(i), Size: uint64(i % 30), RepoTags: []string{
			fmt.Sprintf("b:%d", i), "a", "f", "e", "d", "c",
		}, RepoDigests: []string{"x@sha256:1"}})
	}
	shown := largest(images)
	if len(shown) != maxImages || shown[0].SizeBytes != 29 || shown[maxImages-1].SizeBytes != 5 {
		t.Errorf("%d images, %v", len(shown), shown)
	}
	if names := shown[0].Names; len(names) != maxNamesPerImage || names[0] != "x@sha256:1" || names[1] != "a" {
		t.Errorf("names %v", names)
	}
	if images[0].GetId() != "0" || images[0].GetRepoTags()[0] != "b:0" {
		t.Error("the runtime's own list was changed")
	}
}

// TestMachine reads the files of a machine, and of one that has none.
func TestMachine(t *testing.T) {
	root := t.TempDir()
	for name, content := range map[string]string{
		"etc/machine-id":                 "m1\n",
		"sys/class/dmi/id/product_uuid":  "u1\n",
		"proc/sys/kernel/random/boot_id": "b1\n",
		"proc/sys/kernel/osrelease":      "6.1.0\n",
		"usr/lib/os-release":             "NAME=x\nPRETTY_NAME=\"Debian 12\"\n",
		"proc/meminfo":                   "MemTotal:        2048 kB\nMemFree: 1 kB\n",
	} {
		file := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	got := completeInfo(v1.NodeSystemInfo{OSImage: "mine"}, examineMachine(root))
	want := v1.NodeSystemInfo{
		MachineID: "m1", SystemUUID: "u1", BootID: "b1", KernelVersion: "6.1.0", OSImage: "mine",
		KubeletVersion: version, OperatingSystem: got.OperatingSystem, Architecture: got.Architecture,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if memory := memoryBytes(root); memory != 2<<20 {
		t.Errorf("memory %d", memory)
	}
	if none := examineMachine(t.TempDir()); none.MachineID != "" || memoryBytes(t.TempDir()) != 0 {
		t.Errorf("a machine without files: %+v", none)
	}
}

// TestVersionIsThatOfTheAPI: what the node calls itself follows the module's dependencies.
func TestVersionIsThatOfTheAPI(t *testing.T) {
	mod, err := os.ReadFile("../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`k8s.io/api v0\.(\S+)`).FindSubmatch(mod)
	if found == nil || !strings.HasPrefix(version, "v1."+string(found[1])+"+") {
		t.Errorf("version %s, k8s.io/api %s", version, found)
	}
}

// KN3: without a capacity of ephemeral storage the scheduler gives the node no pod that requests some.
func TestCapacityHasDisk(t *testing.T) {
	if disk := machineCapacity(t.TempDir())[v1.ResourceEphemeralStorage]; disk.Value() < 1<<20 {
		t.Errorf("a disk of %s", disk.String())
	}
	for _, dir := range []string{"", t.TempDir() + "/none"} {
		if disk, ok := machineCapacity(dir)[v1.ResourceEphemeralStorage]; ok {
			t.Errorf("%q: a disk of %s", dir, disk.String())
		}
	}
}

// KN3: the node says that it takes as many pods as it lets in.
func TestCapacityHasMaxPods(t *testing.T) {
	for limit, want := range map[int]int64{0: 110, 30: 30} {
		r := &Registrar{options: Options{Name: "edge-1", MaxPods: limit}}
		if f := r.facts(); f.Capacity.Pods().Value() != want || f.Allocatable.Pods().Value() != want {
			t.Errorf("limit %d: %v", limit, f.Capacity)
		}
	}
}

// KN3: an agent that is started again, and publishes before the runtime has answered, leaves what the Node shows of the
// runtime.
func TestUnansweredRuntimeKeepsItsVersion(t *testing.T) {
	s := v1.NodeStatus{NodeInfo: v1.NodeSystemInfo{ContainerRuntimeVersion: "containerd://2.1.4", OSImage: "old"}}
	unanswered := facts{Info: v1.NodeSystemInfo{OSImage: "new"}}
	unanswered.apply(&s)
	if s.NodeInfo.ContainerRuntimeVersion != "containerd://2.1.4" || s.NodeInfo.OSImage != "new" {
		t.Errorf("%+v", s.NodeInfo)
	}
	answered := facts{Info: v1.NodeSystemInfo{ContainerRuntimeVersion: "containerd://2.2.0"}}
	answered.apply(&s)
	if s.NodeInfo.ContainerRuntimeVersion != "containerd://2.2.0" {
		t.Errorf("%+v", s.NodeInfo)
	}
}

// KN11: while no address is known, as when a name cannot be looked up, the Node keeps those that it shows.
func TestUnknownAddressesStay(t *testing.T) {
	shown := []v1.NodeAddress{{Type: v1.NodeInternalIP, Address: "10.0.0.1"}}
	host := []v1.NodeAddress{{Type: v1.NodeHostName, Address: "edge-1"}}
	unknown := func() []v1.NodeAddress { return nil }
	for name, c := range map[string]struct {
		addresses   func() []v1.NodeAddress
		shown, want []v1.NodeAddress
	}{
		"not known":                {unknown, shown, shown},
		"not known, new Node":      {unknown, nil, host},
		"without a function":       {nil, shown, host},
		"others, as of a new link": {func() []v1.NodeAddress { return host }, shown, host},
	} {
		r := &Registrar{options: Options{Name: "edge-1", Addresses: c.addresses}}
		s := v1.NodeStatus{Addresses: c.shown}
		now := r.facts()
		now.apply(&s)
		if diff := cmp.Diff(c.want, s.Addresses); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

// KN11: what another machine showed under this name is not kept, however little is known of this one.
func TestFactsOfAnotherMachineAreNotKept(t *testing.T) {
	theirs := v1.NodeStatus{
		NodeInfo:         v1.NodeSystemInfo{MachineID: "a", ContainerRuntimeVersion: "containerd://2.1.4"},
		Addresses:        []v1.NodeAddress{{Type: v1.NodeInternalIP, Address: "10.0.0.1"}},
		DeclaredFeatures: []string{hostNetworkUsers},
		Images:           []v1.ContainerImage{{Names: []string{"theirs"}}},
		RuntimeHandlers:  []v1.NodeRuntimeHandler{{Name: "kata"}},
		Features:         &v1.NodeFeatures{},
	}
	host := []v1.NodeAddress{{Type: v1.NodeHostName, Address: "edge-1"}}
	for id, kept := range map[string]bool{"a": true, "": true, "b": false} {
		s := *theirs.DeepCopy()
		now := facts{Info: v1.NodeSystemInfo{MachineID: id}, Addresses: host, Unaddressed: true}
		now.apply(&s)
		want := v1.NodeStatus{NodeInfo: v1.NodeSystemInfo{MachineID: id}, Addresses: host, DeclaredFeatures: declared(false)}
		if kept {
			want = *theirs.DeepCopy()
			want.NodeInfo.MachineID, want.DeclaredFeatures = id, declared(true)
		}
		if diff := cmp.Diff(want, s); diff != "" {
			t.Errorf("machine %q: %s", id, diff)
		}
	}
}

// KN3: the node declares what the engine can do, and what the runtime can do as far as it has answered.
func TestDeclaredFeatures(t *testing.T) {
	const engine = "InPlacePodLevelResourcesVerticalScaling InPlacePodVerticalScalingInitContainers RestartAllContainersOnContainerExits"
	able, unable := runtimeFacts{Known: true, HostNetworkUsers: true}, runtimeFacts{Known: true}
	for name, c := range map[string]struct {
		runtime     runtimeFacts
		shown, want string
	}{
		"no answer yet":                 {runtimeFacts{}, "", engine},
		"no answer yet, after a start":  {runtimeFacts{}, engine + " " + hostNetworkUsers, engine + " " + hostNetworkUsers},
		"a Node of another agent":       {unable, "ExtendWebSocketsToKubelet", engine},
		"a runtime with the feature":    {able, engine, engine + " " + hostNetworkUsers},
		"a runtime without the feature": {unable, engine + " " + hostNetworkUsers, engine},
	} {
		s := v1.NodeStatus{DeclaredFeatures: strings.Fields(c.shown)}
		now := facts{Runtime: c.runtime}
		now.apply(&s)
		if got := strings.Join(s.DeclaredFeatures, " "); got != c.want {
			t.Errorf("%s: %s", name, got)
		}
	}
	r := &Registrar{options: Options{Runtime: &cri{}}}
	if read := r.readRuntime(t.Context(), able); read.HostNetworkUsers {
		t.Error("a runtime that no longer has the feature keeps it")
	}
}

// KN3: the capacity has the CPUs of the machine that are online, also for an agent that may use only some of them.
func TestOnlineCPUs(t *testing.T) {
	own := goruntime.NumCPU()
	for text, want := range map[string]int{
		"0-63\n": 64, "0\n": 1, "0-3,6,8-9\n": 7, "": own, "\n": own, "many\n": own, "3-1\n": own, "0-\n": own, "0-99999999\n": own,
	} {
		root := t.TempDir()
		dir := filepath.Join(root, "sys/devices/system/cpu")
		if err := errors.Join(os.MkdirAll(dir, 0o755), os.WriteFile(filepath.Join(dir, "online"), []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
		if got := cpus(root); got != want {
			t.Errorf("%q: %d, want %d", text, got, want)
		}
	}
	if got := cpus(t.TempDir()); got != own {
		t.Errorf("without a file: %d, want %d", got, own)
	}
	if shown := machineCapacity("")[v1.ResourceCPU]; shown.Value() != int64(cpus("/")) {
		t.Errorf("the capacity has %s", shown.String())
	}
}
