package pods

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/complaint"
	"github.com/podwright/podwright/internal/podinfo"
	"github.com/podwright/podwright/runtime/pods/internal/criconfig"
	"github.com/podwright/podwright/runtime/pods/internal/objects"
	"github.com/podwright/podwright/runtime/pods/internal/payload"
	"github.com/podwright/podwright/runtime/pods/internal/poddir"
)

// ownVolumes makes the volumes of the types that the engine knows.
type ownVolumes struct{ m *Manager }

var _ VolumeManager = ownVolumes{}

func (o ownVolumes) Handles(_ *v1.Pod, v *v1.Volume) bool {
	return v.EmptyDir != nil || v.HostPath != nil || v.Image != nil || payload.Handles(v)
}

func (o ownVolumes) SetUp(ctx context.Context, pod *v1.Pod, v *v1.Volume) (MountedVolume, error) {
	switch {
	case v.EmptyDir != nil:
		return o.emptyDir(pod, v)
	case v.HostPath != nil:
		return o.hostPath(ctx, pod, v)
	case v.Image != nil:
		return MountedVolume{Image: v.Image.Reference, ReadOnly: true}, nil
	}
	return o.files(ctx, pod, v)
}

func (o ownVolumes) TearDown(ctx context.Context, uid types.UID) error {
	// Only the mounts of sub-paths are of file systems that are not the engine's.
	if err := o.m.releaseSubPaths(ctx, uid, ""); err != nil {
		return err
	}
	return o.m.dirs.TearDown(ctx, uid)
}

// Mounted is never called: removal reads the mount table.
func (o ownVolumes) Mounted(_ context.Context, uid types.UID) ([]string, error) {
	return o.m.dirs.Mounted(uid)
}

// hostPath looks whether a path of the node is what the volume says.
func (o ownVolumes) hostPath(ctx context.Context, pod *v1.Pod, v *v1.Volume) (MountedVolume, error) {
	call := nodeCall(pod, v.Name, fmt.Sprintf("the look at hostPath %q", v.HostPath.Path))
	path, err := askNode(ctx, &o.m.files, call, nodeFileLimit,
		func(context.Context) (string, error) { return poddir.HostPath(v.HostPath) })
	return MountedVolume{HostPath: path}, err
}

// emptyDir makes an emptyDir volume (spec/cleanup.md 5). It and what is created in it
// belong to fsGroup.
func (o ownVolumes) emptyDir(pod *v1.Pod, v *v1.Volume) (MountedVolume, error) {
	var limit int64
	if v.EmptyDir.SizeLimit != nil {
		limit = v.EmptyDir.SizeLimit.Value()
	}
	if limit < 0 {
		return MountedVolume{}, fmt.Errorf("emptyDir: sizeLimit %d is negative", limit)
	}
	mode, err := emptyDirMode(v.EmptyDir.Mode)
	if err != nil {
		return MountedVolume{}, err
	}
	dir := poddir.VolumeDir{Plugin: poddir.EmptyDir, Name: v.Name, Mode: mode, Group: fsGroup(pod)}
	switch v.EmptyDir.Medium {
	case v1.StorageMediumDefault:
	case v1.StorageMediumMemory:
		allocatable := o.m.allocatable()[v1.ResourceMemory]
		limit = memorySize(pod, limit, allocatable.Value())
		dir.Memory, dir.Size, dir.Swappable = true, limit, o.m.noteSwappable
	default:
		return MountedVolume{}, fmt.Errorf("emptyDir: medium %q is not supported", v.EmptyDir.Medium)
	}
	path, err := o.m.dirs.MakeVolume(pod.UID, dir)
	if errors.Is(err, poddir.ErrNoMounts) {
		err = fmt.Errorf("emptyDir with medium Memory: %w", err)
	}
	return MountedVolume{HostPath: path, SELinuxRelabel: true, SizeLimit: limit}, err
}

// noteSwappable logs once that what is in memory volumes, such as secrets, may get to the node's swap space.
func (m *Manager) noteSwappable() {
	if m.options.Machine.SwapCapacity > 0 && m.swappable.CompareAndSwap(false, true) {
		m.options.Logger.Info("Secrets and other volumes in memory may be written to the node's swap space: only Linux 6.4 and later can prevent it")
	}
}

// emptyDirMode is the mode of the volume's folder.
func emptyDirMode(mode *int32) (fs.FileMode, error) {
	switch {
	case mode == nil:
		return 0o777, nil
	case *mode < 0 || *mode > 0o1777:
		return 0, fmt.Errorf("emptyDir: mode %#o is not between 0 and 01777", *mode)
	case *mode&0o1000 != 0:
		return fs.FileMode(*mode&0o777) | fs.ModeSticky, nil
	}
	return fs.FileMode(*mode), nil
}

// memorySize bounds a memory volume: by its own limit, by the pod's limit, since
// its content is charged to the pod, and by the node's memory.
func memorySize(pod *v1.Pod, limit, allocatable int64) int64 {
	size := allocatable
	whole := podinfo.LimitWithoutOverhead(pod, v1.ResourceMemory)
	for _, bound := range []int64{limit, whole.Value()} {
		if bound > 0 && (size <= 0 || bound < size) {
			size = bound
		}
	}
	return max(size, 0)
}

func fsGroup(pod *v1.Pod) *int64 {
	if pod.Spec.SecurityContext == nil {
		return nil
	}
	return pod.Spec.SecurityContext.FSGroup
}

// files makes a volume of config maps, secrets and fields of the pod, or brings it
// up to date. If that fails, the old content stays for containers that start again.
func (o ownVolumes) files(ctx context.Context, pod *v1.Pod, v *v1.Volume) (MountedVolume, error) {
	in := payload.Input{
		Pod: pod, Objects: objects.NewReader(o.m.options.Objects, pod.Namespace),
		Down:        criconfig.Downward{Allocatable: o.m.allocatable()},
		Projections: podProjections{o.m.options.Projections, pod},
	}
	files, err := payload.Files(ctx, in, v)
	// What a grant mounts is not in the definition.
	inside := func(name string) bool {
		return mountedInside(pod, v.Name, name) || o.m.options.Grants != nil && !isSubPath(pod, v.Name, name)
	}
	known, published := o.m.publishedVolume(pod, v)
	if err != nil && published {
		// A crash or a full disk may have come between the content and the links to it.
		if err := poddir.Relink(ctx, known.HostPath, inside); err != nil {
			return MountedVolume{}, err
		}
		verbosity := 1
		if ctx.Err() == nil && o.m.noteStale(pod.UID, v.Name, complaint.Kind(err)) { // who ends the call has learnt nothing
			verbosity = 0
		}
		o.m.options.Logger.V(verbosity).Info("A volume keeps its old content", "podUID", pod.UID, "volume", v.Name, "error", err.Error())
		return known, nil
	}
	if err != nil {
		return MountedVolume{}, err
	}
	o.m.noteStale(pod.UID, v.Name, "")
	dir := poddir.VolumeDir{Plugin: filesPlugin(v), Name: v.Name, Mode: 0o755, Group: fsGroup(pod)}
	dir.Memory, dir.Swappable = payload.HoldsSecrets(v), o.m.noteSwappable
	path, err := o.m.dirs.MakeVolume(pod.UID, dir)
	if errors.Is(err, poddir.ErrNoMounts) {
		// Without the right to mount, secrets are on disk, in a folder that only
		// the agent's user can enter.
		dir.Memory = false
		path, err = o.m.dirs.MakeVolume(pod.UID, dir)
	}
	if err != nil {
		return MountedVolume{}, err
	}
	fresh := ".." + o.m.options.Clock.Now().UTC().Format("2006_01_02_15_04_05.") + o.m.randomName()
	if _, err := poddir.Publish(ctx, path, fresh, files, fsGroup(pod), inside); err != nil {
		return MountedVolume{}, err
	}
	return filesAt(path), nil
}

// noteStale remembers why a volume keeps its old content, "" if it does not, and reports whether that is news.
func (m *Manager) noteStale(uid types.UID, volume, why string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	was := m.stale[uid][volume]
	switch {
	case why == was:
	case why != "" && m.stale[uid] == nil:
		m.stale[uid] = map[string]string{volume: why}
	case why != "":
		m.stale[uid][volume] = why
	default:
		delete(m.stale[uid], volume)
	}
	return why != was
}

// filesAt describes a volume of files: only its maker writes to it.
func filesAt(path string) MountedVolume {
	return MountedVolume{HostPath: path, ReadOnly: true, SELinuxRelabel: true}
}

func filesPlugin(v *v1.Volume) string {
	switch {
	case v.ConfigMap != nil:
		return poddir.ConfigMap
	case v.Secret != nil:
		return poddir.Secret
	case v.DownwardAPI != nil:
		return poddir.DownwardAPI
	}
	return poddir.Projected
}

// publishedVolume returns a volume of files that has content already.
func (m *Manager) publishedVolume(pod *v1.Pod, v *v1.Volume) (MountedVolume, bool) {
	path := m.dirs.VolumePath(pod.UID, filesPlugin(v), v.Name)
	return filesAt(path), path != "" && poddir.Published(path)
}

// volumeType names a volume's kind as its manifest does.
func volumeType(v *v1.Volume) string {
	text, err := json.Marshal(v.VolumeSource)
	if err != nil {
		return "unknown"
	}
	var fields map[string]json.RawMessage
	if json.Unmarshal(text, &fields) != nil || len(fields) == 0 {
		return "no type"
	}
	return slices.Sorted(maps.Keys(fields))[0]
}
