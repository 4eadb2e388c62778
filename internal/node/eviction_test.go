package node

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/go-logr/logr/funcr"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/cleanup/eviction"
	"github.com/podwright/podwright/cleanup/imagegc"
	"github.com/podwright/podwright/podworkers"
	"github.com/podwright/podwright/runtime"
	"github.com/podwright/podwright/runtime/pods"
	"github.com/podwright/podwright/syncloop/admission"
)

// evictionNode is what evictions need of a node.
type evictionNode struct {
	killed   *v1.Pod
	kill     podworkers.KillOptions
	usage    map[string]*runtimeapi.ContainerStats
	imageErr error
	// logs and messages are folders of a container, hosts is the pod's hosts file.
	logs, messages, hosts string
}

func (n *evictionNode) KillPod(_ context.Context, pod *v1.Pod, kill podworkers.KillOptions) error {
	n.killed, n.kill = pod, kill
	return nil
}
func (n *evictionNode) PodFolders(*v1.Pod) []string { return nil }
func (n *evictionNode) MountedVolumes(types.UID) map[string]pods.MountedVolume {
	return map[string]pods.MountedVolume{
		"limited": {HostPath: "/limited", SizeLimit: 100}, "memory": {HostPath: "/memory", SizeLimit: 100}, "free": {HostPath: "/free"},
	}
}

func (n *evictionNode) LocalStorage(*v1.Pod) pods.LocalStorage {
	return pods.LocalStorage{
		EmptyDirs: map[string]string{"limited": "/elsewhere", "earlier": "/earlier", "free": "/free"}, Logs: map[string]string{"main": n.logs}, HostsFile: n.hosts,
		Messages: map[string]string{"main": n.messages},
	}
}

func (n *evictionNode) ListImages(context.Context, *runtimeapi.ImageFilter) ([]*runtimeapi.Image, error) {
	return nil, n.imageErr
}

func (n *evictionNode) RemoveImage(context.Context, *runtimeapi.ImageSpec) error { return n.imageErr }

func (n *evictionNode) ListContainers(context.Context, *runtimeapi.ContainerFilter) ([]*runtimeapi.Container, error) {
	return nil, nil
}

func (n *evictionNode) Status(context.Context, bool) (*runtimeapi.StatusResponse, error) {
	return &runtimeapi.StatusResponse{}, nil
}

func (n *evictionNode) ContainerStats(_ context.Context, id string) (*runtimeapi.ContainerStats, error) {
	if s := n.usage[id]; s != nil {
		return s, nil
	}
	switch id {
	case "gone":
		return nil, runtime.ErrNotFound
	case "unmeasured":
		return nil, runtime.ErrUnimplemented
	}
	return nil, errors.New("broken")
}

// TestEvictionTakesTheDesiredPod, without the status the engine made, and stops it for
// good.
func TestEvictionTakesTheDesiredPod(t *testing.T) {
	desired := newPod("a")
	r, l := residents(desired)
	n := &evictionNode{}
	e := &Evictions{Residents: r, Killer: n}
	grace := int64(1)
	if err := e.Kill(t.Context(), r.Evictable()[0], &grace, func(s *v1.PodStatus) { s.Reason = "Evicted" }); err != nil {
		t.Fatal(err)
	}
	if n.killed != desired || !n.kill.Evict || n.kill.GracePeriodSeconds != &grace || n.kill.StatusFunc == nil {
		t.Errorf("killed %v with %+v", n.killed, n.kill)
	}
	if e.Finished("a") {
		t.Error("finished at once")
	}
	l.finished["a"] = true
	if !e.Finished("a") || !e.Finished("unknown") {
		t.Error("never finished")
	}
}

// TestLimitedVolumes: emptyDirs on the disk that have a limit, as they are mounted, or where an
// earlier process made them.
func TestLimitedVolumes(t *testing.T) {
	limit := resource.MustParse("100")
	volume := func(name string, dir *v1.EmptyDirVolumeSource) v1.Volume {
		return v1.Volume{Name: name, VolumeSource: v1.VolumeSource{EmptyDir: dir}}
	}
	pod := newPod("a")
	pod.Spec.Volumes = []v1.Volume{
		volume("limited", &v1.EmptyDirVolumeSource{SizeLimit: &limit}), volume("free", &v1.EmptyDirVolumeSource{}), volume("other", nil),
		volume("memory", &v1.EmptyDirVolumeSource{SizeLimit: &limit, Medium: v1.StorageMediumMemory}), volume("earlier", &v1.EmptyDirVolumeSource{SizeLimit: &limit}),
	}
	got := (&Evictions{Disk: &evictionNode{}}).limitedVolumes(pod)
	want := []eviction.Volume{{Name: "limited", Path: "/limited", Limit: 100}, {Name: "earlier", Path: "/earlier", Limit: 100}}
	if !slices.Equal(got, want) {
		t.Errorf("volumes %+v, want %+v", got, want)
	}
}

// TestPodStorage: FD2. Layers of what runs, logs, termination messages and the hosts file count by container, emptyDirs
// on the disk as folders; what cannot be read is an error beside the rest.
func TestPodStorage(t *testing.T) {
	logs, messages := t.TempDir(), t.TempDir()
	hosts := filepath.Join(t.TempDir(), "etc-hosts")
	for path, n := range map[string]int{filepath.Join(logs, "0.log"): 8192, filepath.Join(messages, "01234567"): 1 << 21, hosts: 100} {
		if err := os.WriteFile(path, make([]byte, n), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	layer := &runtimeapi.ContainerStats{WritableLayer: &runtimeapi.FilesystemUsage{UsedBytes: &runtimeapi.UInt64Value{Value: 1 << 20}}}
	n := &evictionNode{logs: logs, messages: messages, hosts: hosts, usage: map[string]*runtimeapi.ContainerStats{"main": layer, "ended": layer}}
	container := func(id string, state runtime.State) *runtime.ContainerStatus {
		return &runtime.ContainerStatus{ID: runtime.ContainerID{ID: id}, Name: id, State: state}
	}
	m := &machine{views: map[types.UID]*runtime.PodStatus{"a": {Containers: []*runtime.ContainerStatus{
		container("main", runtime.Running), container("ended", runtime.Exited), container("gone", runtime.Running),
	}}}}
	e := &Evictions{Disk: n, Usage: n, Views: m}
	used, err := e.storage(t.Context(), newPod("a"))
	slices.Sort(used.Folders)
	if err != nil || used.Containers["main"] < 3<<20+8192 || used.Containers["main"] > 3<<20+32768 || used.Containers[""] != 100 || used.Containers["ended"] != 0 ||
		!slices.Equal(used.Folders, []string{"/earlier", "/elsewhere", "/free"}) {
		t.Errorf("%+v, err %v", used, err)
	}
	n.usage = nil
	if used, err := e.storage(t.Context(), newPod("a")); err == nil || used.Containers["main"] < 8192 {
		t.Errorf("stats fail: %+v, err %v", used, err)
	}
}

// TestContainerUsage adds up what runs; what the runtime does not measure, or has not any
// more, counts nothing.
func TestContainerUsage(t *testing.T) {
	stats := func(n uint64) *runtimeapi.ContainerStats {
		return &runtimeapi.ContainerStats{
			Memory:        &runtimeapi.MemoryUsage{WorkingSetBytes: &runtimeapi.UInt64Value{Value: n}},
			WritableLayer: &runtimeapi.FilesystemUsage{UsedBytes: &runtimeapi.UInt64Value{Value: 10 * n}, InodesUsed: &runtimeapi.UInt64Value{Value: 100 * n}},
		}
	}
	container := func(id string, state runtime.State) *runtime.ContainerStatus {
		return &runtime.ContainerStatus{ID: runtime.ContainerID{ID: id}, Name: id, State: state}
	}
	m := &machine{views: map[types.UID]*runtime.PodStatus{"a": {Containers: []*runtime.ContainerStatus{
		container("one", runtime.Running), container("two", runtime.Running), container("dead", runtime.Exited),
		container("gone", runtime.Running), container("unmeasured", runtime.Running),
	}}}}
	n := &evictionNode{usage: map[string]*runtimeapi.ContainerStats{"one": stats(1), "two": stats(2), "dead": stats(4)}}
	e := &Evictions{Views: m, Usage: n}
	got, err := e.containerUsage(t.Context(), newPod("a"))
	if want := (eviction.Usage{Memory: 3, Disk: 30, Inodes: 300}); got != want || err != nil {
		t.Errorf("%+v (%v), want %+v", got, err, want)
	}
	m.views["a"].Containers[0].ID.ID = "broken"
	if got, err := e.containerUsage(t.Context(), newPod("a")); err == nil || got.Memory != 2 {
		t.Errorf("a container that cannot be measured: %+v, %v", got, err)
	}
	if _, err := e.containerUsage(t.Context(), newPod("unread")); err == nil {
		t.Error("a pod that was not read is no error")
	}
	e.Usage = nil
	if got, err := e.containerUsage(t.Context(), newPod("a")); got != (eviction.Usage{}) || err != nil {
		t.Errorf("a runtime that measures nothing: %+v, %v", got, err)
	}
}

// TestReclaimFreesContainersAndImages; trouble with one does not spare the other.
func TestReclaimFreesContainersAndImages(t *testing.T) {
	m := &machine{err: errors.New("runtime is down")}
	n := &evictionNode{imageErr: errors.New("disk is broken")}
	e := &Evictions{Dead: deadContainers(m, &lives{}, desire()), Images: &Images{Runtime: n, Path: t.TempDir(), Pods: func() []*v1.Pod { return nil }}}
	if err := e.reclaim(t.Context()); err == nil || err.Error() != "dead containers: runtime is down" {
		t.Errorf("without a collection of images: %v", err)
	}
	if err := e.Images.Collect(imagegc.Options{Store: n, Containers: n}); err != nil {
		t.Fatal(err)
	}
	err := e.reclaim(t.Context())
	if err == nil || !strings.Contains(err.Error(), "dead containers: runtime is down") || !strings.Contains(err.Error(), "images: ") || !strings.Contains(err.Error(), "disk is broken") {
		t.Errorf("error %v", err)
	}
	m.err, n.imageErr = nil, nil
	if err := e.reclaim(t.Context()); err != nil || !m.policy.Pressure {
		t.Error(err)
	}
}

// lowMemory is a node without memory, whose pods cannot be measured.
type lowMemory struct{}

func (lowMemory) Node(context.Context) (map[eviction.Signal]eviction.Observation, error) {
	return map[eviction.Signal]eviction.Observation{eviction.MemoryAvailable: {Available: 1, Capacity: 1 << 30}}, nil
}

func (lowMemory) Pod(context.Context, *v1.Pod, eviction.Signal) (eviction.Usage, error) {
	return eviction.Usage{}, errors.New("not measured")
}

// TestNodeIsWatchedOnlyAfterWatch: before that it takes every pod and has no conditions.
func TestNodeIsWatchedOnlyAfterWatch(t *testing.T) {
	r, _ := residents()
	e := &Evictions{Residents: r, Killer: &evictionNode{}, Disk: &evictionNode{}}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	over, end := context.WithCancel(t.Context())
	end()
	if err := e.Run(over); err != nil || e.Conditions() != nil || !e.Admit(admission.Request{Pod: newPod("a")}).Admitted() {
		t.Errorf("without Watch: %v, %v", err, e.Conditions())
	}
	if err := e.Watch(eviction.Options{Changed: cancel}, lowMemory{}, eviction.LinuxStatsOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := e.Run(ctx); err != nil || len(e.Conditions()) != 3 {
		t.Errorf("with Watch: %v, %+v", err, e.Conditions())
	}
	if v := e.Admit(admission.Request{Pod: newPod("a")}); v.Reason != eviction.Reason {
		t.Errorf("under pressure: %+v", v)
	}
}

// TestThisMachineIsReadIfNothingElseIs, and a bad policy is an error.
func TestThisMachineIsReadIfNothingElseIs(t *testing.T) {
	r, _ := residents()
	e := &Evictions{Residents: r, Killer: &evictionNode{}, Disk: &evictionNode{}}
	if err := e.Watch(eviction.Options{}, nil, eviction.LinuxStatsOptions{NodeFs: t.TempDir()}); err != nil {
		t.Error(err)
	}
	err := e.Watch(eviction.Options{Policy: eviction.Policy{MaxPodGrace: -1}}, nil, eviction.LinuxStatsOptions{})
	if err == nil || !strings.HasPrefix(err.Error(), "eviction: ") {
		t.Errorf("a bad policy: %v", err)
	}
}

// TestImagesWithoutAFileSystemAreNotWatched (section 16): a runtime that names none is no failure, and is reported
// once; one that does not answer is one.
func TestImagesWithoutAFileSystemAreNotWatched(t *testing.T) {
	var lines []string
	answer := errors.New("no answer")
	dir := named(func(context.Context) (string, error) { return "", answer }, funcr.New(func(_, args string) { lines = append(lines, args) }, funcr.Options{}))
	if _, err := dir(t.Context()); err == nil {
		t.Error("a runtime without an answer is no failure")
	}
	answer = fmt.Errorf("%w; set ImageGC.Dir", imagegc.ErrNoImageFs)
	for range 2 {
		if path, err := dir(t.Context()); path != "" || err != nil {
			t.Errorf("%q, %v", path, err)
		}
	}
	if len(lines) != 1 || !strings.Contains(lines[0], "set ImageGC.Dir") {
		t.Errorf("log %q", lines)
	}
}
