package stats

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	stats "k8s.io/kubelet/pkg/apis/stats/v1alpha1"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/podwright/podwright/runtime/pods"
)

// images say where they are.
type images struct{}

func (images) ImageFsInfo(context.Context) (*runtimeapi.ImageFsInfoResponse, error) {
	return &runtimeapi.ImageFsInfoResponse{ImageFilesystems: []*runtimeapi.FilesystemUsage{{
		FsId: &runtimeapi.FilesystemIdentifier{Mountpoint: "/"}, UsedBytes: &runtimeapi.UInt64Value{Value: 123},
	}}}, nil
}

// ask asks the page of summaries.
func ask(t *testing.T, s *Source, query string) stats.Summary {
	t.Helper()
	w := httptest.NewRecorder()
	s.ServeSummary(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/stats/summary"+query, nil))
	var out stats.Summary
	if err := json.Unmarshal(w.Body.Bytes(), &out); err != nil || w.Code != http.StatusOK {
		t.Fatalf("%d %s: %v", w.Code, w.Body, err)
	}
	return out
}

// TestSummary (KV1): the node, its pods and their containers, by what the runtime says and by cgroups.
func TestSummary(t *testing.T) {
	dir := t.TempDir()
	for _, unified := range []bool{false, true} {
		m := newMachine(t, unified)
		pod := m.pod("web")
		pod.Spec.Containers = []v1.Container{{Name: "app", Resources: v1.ResourceRequirements{Limits: v1.ResourceList{v1.ResourceMemory: resource.MustParse("10000")}}}}
		pod.Spec.Volumes = []v1.Volume{
			{Name: "work", VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}},
			{Name: "settings", VolumeSource: v1.VolumeSource{ConfigMap: &v1.ConfigMapVolumeSource{}}},
			{Name: "share", VolumeSource: v1.VolumeSource{HostPath: &v1.HostPathVolumeSource{Path: dir}}},
		}
		for _, name := range []string{"work", "settings", "logs/app", "logs/ended", "messages"} {
			m.write(filepath.Join(dir, name, "file"), strings.Repeat("x", 5000))
		}
		m.write(filepath.Join(dir, "hosts"), "127.0.0.1")
		m.engine.storage = map[types.UID]pods.LocalStorage{"uid-web": {
			EmptyDirs: map[string]string{"work": filepath.Join(dir, "work")}, HostsFile: filepath.Join(dir, "hosts"),
			Logs:     map[string]string{"app": filepath.Join(dir, "logs/app"), "ended": filepath.Join(dir, "logs/ended")},
			Messages: map[string]string{"app": filepath.Join(dir, "messages")},
		}}
		m.engine.mounted = map[string]pods.MountedVolume{"settings": {HostPath: filepath.Join(dir, "settings")}, "share": {HostPath: dir}}
		m.run("web", "app", "c1", 0, 1500*time.Millisecond, 4096)
		m.cgroup("kubepods/poduid-web/c1", 2*time.Second, 10000, 52)
		m.cgroup("kubepods/poduid-web", 2*time.Second, 10000, 52)
		clock := clocktesting.NewFakeClock(time.Unix(5001, 0))
		s := m.source(func(o *Options) { o.Clock, o.RootDir, o.Images = clock, dir, images{} })
		got := ask(t, s, "")

		n := got.Node
		if n.NodeName != "edge-1" || n.StartTime.Unix() != 900 || *n.CPU.UsageCoreNanoSeconds != 163e7 || n.CPU.PSI.Some.Total != 12000 || n.CPU.PSI.Some.Avg10 != 1.5 ||
			*n.Memory.WorkingSetBytes != 600<<10 || *n.Memory.AvailableBytes != 400<<10 || *n.Memory.UsageBytes != 700<<10 || *n.Memory.RSSBytes != 200<<10 || *n.Memory.PageFaults != 77 || *n.Memory.MajorPageFaults != 7 ||
			*n.Swap.SwapUsageBytes != 10<<10 || n.Network.Name != "enp1s0" || *n.Network.RxBytes != 1000 || *n.Network.TxErrors != 3 || *n.Rlimit.NumOfRunningProcesses != 345 || *n.Rlimit.MaxPID != 3000000 ||
			*n.Fs.CapacityBytes == 0 || *n.Runtime.ImageFs.UsedBytes != 123 || n.SystemContainers[0].Name != "kubelet" || *n.SystemContainers[0].CPU.UsageCoreNanoSeconds == 0 {
			t.Errorf("node: %+v", n)
		}
		if len(got.Pods) != 1 || len(got.Pods[0].Containers) != 1 {
			t.Fatalf("%+v", got.Pods)
		}
		p, c := got.Pods[0], got.Pods[0].Containers[0]
		if p.PodRef != (stats.PodReference{Name: "web", Namespace: "default", UID: "uid-web"}) || p.StartTime.Unix() != 1000 ||
			*p.CPU.UsageCoreNanoSeconds != 2e9 || *p.Memory.WorkingSetBytes != 9000 || *p.Memory.AvailableBytes != 1000 ||
			p.Network.Name != "eth0" || *p.Network.TxBytes != 1000 || *p.ProcessStats.ProcessCount != 3 {
			t.Errorf("pod: %+v", p)
		}
		if c.Name != "app" || c.StartTime.Unix() != 2000 || *c.CPU.UsageCoreNanoSeconds != 15e8 || *c.Memory.AvailableBytes != 10000-4096 || *c.Rootfs.UsedBytes != 4096 || *c.Logs.UsedBytes == 0 {
			t.Errorf("container: %+v", c)
		}
		work := p.VolumeStats[1]
		if len(p.VolumeStats) != 2 || p.VolumeStats[0].Name != "settings" || work.Name != "work" || *work.UsedBytes < 5000 || *work.InodesUsed != 2 || *work.CapacityBytes == 0 {
			t.Errorf("volumes: %+v", p.VolumeStats)
		}
		// The layer, two folders of logs, one of messages, the volume, the hosts file.
		if want := 4096 + 4**work.UsedBytes + 9; *p.EphemeralStorage.UsedBytes != want || *p.EphemeralStorage.InodesUsed != 2+4*2+1 {
			t.Errorf("ephemeral storage: %d bytes, %d files, want %d", *p.EphemeralStorage.UsedBytes, *p.EphemeralStorage.InodesUsed, want)
		}

		// Sizes are kept for a minute.
		m.write(filepath.Join(dir, "work", "more"), strings.Repeat("x", 50000))
		clock.Step(59 * time.Second)
		if again := ask(t, s, ""); *again.Pods[0].VolumeStats[1].UsedBytes != *work.UsedBytes {
			t.Errorf("it was measured again: %+v", again.Pods[0].VolumeStats)
		}
		clock.Step(time.Second)
		if again := ask(t, s, ""); *again.Pods[0].VolumeStats[1].UsedBytes < *work.UsedBytes+50000 {
			t.Errorf("it was not measured again: %+v", again.Pods[0].VolumeStats)
		}
		if err := os.Remove(filepath.Join(dir, "work", "more")); err != nil {
			t.Fatal(err)
		}

		only := ask(t, s, "?only_cpu_and_memory=true")
		if p := only.Pods[0]; p.Network != nil || p.VolumeStats != nil || p.EphemeralStorage != nil || p.ProcessStats != nil || p.Containers[0].Rootfs != nil || only.Node.Fs != nil || only.Node.Runtime != nil {
			t.Errorf("more than CPU and memory: %+v", only)
		} else if p.CPU == nil || p.Memory == nil || p.Containers[0].CPU == nil || p.Containers[0].Memory == nil {
			t.Errorf("less than CPU and memory: %+v", p)
		}
	}
	if code, _ := get(t, newMachine(t, true).source().ServeSummary, "?only_cpu_and_memory=maybe"); code != http.StatusBadRequest {
		t.Errorf("a query that cannot be read: %d", code)
	}
}

// TestWalksThatTakeTooLong (KV1): what a walk does not reach in time has its older size, or none, and the
// rest of the pod is there.
func TestWalksThatTakeTooLong(t *testing.T) {
	dir := t.TempDir()
	m := newMachine(t, true)
	m.pod("web")
	m.write(filepath.Join(dir, "app", "0.log"), "text")
	d := newDisk(Options{DiskAge: time.Minute, Clock: clock.RealClock{}})
	engine := &engine{storage: map[types.UID]pods.LocalStorage{"uid-web": {Logs: map[string]string{"app": filepath.Join(dir, "app")}}}}
	over, end := context.WithCancel(t.Context())
	end()
	logs := func(ctx context.Context, now time.Time) *stats.FsStats {
		d.begin()
		defer d.end()
		p := pod{containers: []container{{stats: stats.ContainerStats{Name: "app"}}}}
		d.add(ctx, &p, &m.engine.pods[0], engine, &found{}, now)
		return p.containers[0].stats.Logs
	}
	at := time.Unix(5000, 0)
	if got := logs(over, at); got != nil {
		t.Errorf("without a walk: %+v", got)
	}
	first := logs(t.Context(), at)
	if first == nil || *first.UsedBytes == 0 || *first.InodesUsed != 2 {
		t.Fatalf("%+v", first)
	}
	if got := logs(over, at.Add(time.Hour)); got == nil || *got.UsedBytes != *first.UsedBytes || !got.Time.Equal(&first.Time) {
		t.Errorf("without a second walk: %+v, want %+v", got, first)
	}
	m.engine.pods = nil
	d.begin()
	d.end()
	if len(d.sizes) != 0 {
		t.Errorf("sizes of those gone: %v", d.sizes)
	}
}

// TestStrangersAreNotShown: containers of other programs, of pods that the engine does not have, of sandboxes
// before the newest and of runs before the newest are not.
func TestStrangersAreNotShown(t *testing.T) {
	m := newMachine(t, true)
	m.pod("web")
	m.containers.sandboxes = append(m.containers.sandboxes, &runtimeapi.PodSandbox{
		Id: "sandbox-new", CreatedAt: time.Unix(1001, 0).UnixNano(), Metadata: &runtimeapi.PodSandboxMetadata{Name: "web", Uid: "uid-web", Attempt: 1},
	}, &runtimeapi.PodSandbox{Id: "sandbox-stranger", Metadata: &runtimeapi.PodSandboxMetadata{Name: "stranger", Uid: "uid-stranger"}})
	m.run("web", "old", "c0", 0, time.Second, 1)
	m.run("new", "app", "c1", 1, time.Second, 1)
	m.run("new", "app", "c2", 2, 2*time.Second, 1)
	m.run("stranger", "app", "c3", 2, 2*time.Second, 1)
	for _, c := range m.containers.list[1:3] {
		c.Labels["io.kubernetes.pod.uid"] = "uid-web"
	}
	m.containers.list = append(m.containers.list, &runtimeapi.Container{Id: "other", Metadata: &runtimeapi.ContainerMetadata{Name: "other"}})
	got := ask(t, m.source(), "")
	if len(got.Pods) != 1 || len(got.Pods[0].Containers) != 1 || *got.Pods[0].Containers[0].CPU.UsageCoreNanoSeconds != 2e9 || got.Pods[0].StartTime.Unix() != 1001 {
		t.Errorf("%+v", got.Pods)
	}
}
