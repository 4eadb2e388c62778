package pods

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/podinfo"
	"github.com/podwright/podwright/runtime/pods/internal/payload"
	"github.com/podwright/podwright/runtime/pods/internal/poddir"
)

// errNoVolumeMaker is about a volume of a type that neither the engine nor a manager
// makes.
var errNoVolumeMaker = errors.New("the engine does not make volumes of this type, and no volume manager that does is configured")

// volumeState is what a sync knows about the pod's volumes.
type volumeState struct {
	ready  map[string]MountedVolume
	failed map[string]error
}

// get returns a volume that was made.
func (v volumeState) get(pod *v1.Pod, name string) (MountedVolume, error) {
	if err, ok := v.failed[name]; ok {
		return MountedVolume{}, err
	}
	if ready, ok := v.ready[name]; ok {
		return ready, nil
	}
	return MountedVolume{}, errors.New("the pod has no volume of this name")
}

// groups are the groups that users of the volumes need (spec/runtime.md 14.8).
func (v volumeState) groups() []int64 {
	var out []int64
	for _, name := range slices.Sorted(maps.Keys(v.ready)) {
		for _, g := range v.ready[name].Groups {
			if !slices.Contains(out, g) {
				out = append(out, g)
			}
		}
	}
	return out
}

// withVolumeGroups puts the volumes' groups after fsGroup (spec/runtime.md 3.5).
func withVolumeGroups(pod *v1.Pod, groups, ofVolumes []int64) []int64 {
	if len(ofVolumes) == 0 {
		return groups
	}
	at := 0
	if fsGroup(pod) != nil {
		at = 1
	}
	return slices.Insert(slices.Clone(groups), at, ofVolumes...)
}

// setUpVolumes makes every volume that a container of the pod uses. A volume that
// cannot be made holds back only the containers that use it.
func (s *podSync) setUpVolumes(ctx context.Context) {
	s.volumes = volumeState{ready: map[string]MountedVolume{}, failed: map[string]error{}}
	used := usedVolumes(s.pod)
	for i := range s.pod.Spec.Volumes {
		v := &s.pod.Spec.Volumes[i]
		if !used[v.Name] || ctx.Err() != nil {
			continue
		}
		ready, err := s.setUpVolume(ctx, v)
		if _, twice := s.volumes.ready[v.Name]; err == nil && twice {
			err = errors.New("another volume has the same name")
		}
		if err == nil {
			s.volumes.ready[v.Name] = ready
			continue
		}
		err = fmt.Errorf("type %s: %w", volumeType(v), err)
		s.volumes.failed[v.Name] = err
		if ctx.Err() == nil {
			s.m.podEvent(s.pod, v1.EventTypeWarning, "FailedMount", "MountVolume.SetUp failed for volume %q of %v", v.Name, err)
		}
	}
	s.m.noteVolumes(s.pod.UID, s.volumes.ready)
}

// usedVolumes names the volumes that containers use.
func usedVolumes(pod *v1.Pod) map[string]bool {
	used := map[string]bool{}
	for _, c := range containersOf(pod) {
		for name := range volumesOf(c.spec) {
			used[name] = true
		}
	}
	return used
}

// volumesOf names the volumes that a container mounts, uses as devices or takes variables from.
func volumesOf(c *v1.Container) iter.Seq[string] {
	return func(yield func(string) bool) {
		for _, m := range c.VolumeMounts {
			if !yield(m.Name) {
				return
			}
		}
		for _, d := range c.VolumeDevices {
			if !yield(d.Name) {
				return
			}
		}
		for _, e := range c.Env {
			if e.ValueFrom != nil && e.ValueFrom.FileKeyRef != nil && !yield(e.ValueFrom.FileKeyRef.VolumeName) {
				return
			}
		}
	}
}

// volumeMaker returns the maker of a volume: the caller's manager, or the engine.
func (m *Manager) volumeMaker(pod *v1.Pod, v *v1.Volume) VolumeManager {
	own := ownVolumes{m}
	switch {
	case m.options.Volumes != nil && m.options.Volumes.Handles(pod, v):
		return m.options.Volumes
	case own.Handles(pod, v):
		return own
	}
	return nil
}

// setUpVolume makes one volume ready.
func (s *podSync) setUpVolume(ctx context.Context, v *v1.Volume) (MountedVolume, error) {
	m, pod := s.m, s.pod
	if err := podinfo.CheckName("volume name", v.Name); err != nil {
		return MountedVolume{}, err
	}
	maker := m.volumeMaker(pod, v)
	if maker == nil {
		return MountedVolume{}, errNoVolumeMaker
	}
	if _, own := maker.(ownVolumes); !own {
		defer s.keepFresh(ctx)()
	}
	ready, err := maker.SetUp(ctx, pod, v)
	if err != nil {
		return MountedVolume{}, m.waits(err)
	}
	for _, path := range []string{ready.HostPath, ready.DevicePath} {
		if path != "" && !filepath.IsAbs(path) {
			return MountedVolume{}, fmt.Errorf("its manager gives the path %q, which is not absolute", path)
		}
	}
	if ready.HostPath == "" && ready.DevicePath == "" && ready.Image == "" {
		return MountedVolume{}, errors.New("its manager gives no path")
	}
	return ready, m.giveToGroup(ctx, pod, v, ready)
}

// giveToGroup applies fsGroup to a volume whose maker does not, once in the life of
// this process.
func (m *Manager) giveToGroup(ctx context.Context, pod *v1.Pod, v *v1.Volume, ready MountedVolume) error {
	group := fsGroup(pod)
	if !ready.FSGroup || ready.HostPath == "" || group == nil {
		return nil
	}
	if _, done := m.MountedVolumes(pod.UID)[v.Name]; done {
		return nil
	}
	policy := pod.Spec.SecurityContext.FSGroupChangePolicy
	onMismatch := policy != nil && *policy == v1.FSGroupChangeOnRootMismatch
	call := nodeCall(pod, v.Name, fmt.Sprintf("giving volume %q to group %d", v.Name, *group))
	_, err := askNode(ctx, &m.files, call, 0, func(ctx context.Context) (struct{}, error) {
		return struct{}{}, poddir.GiveToGroup(ctx, ready.HostPath, *group, ready.ReadOnly, onMismatch)
	})
	return err
}

// MountedVolumes returns the volumes that this process has made ready for a pod, by
// name, with their limits. A new process knows them once the pod starts a container.
// The map is the caller's.
func (m *Manager) MountedVolumes(uid types.UID) map[string]MountedVolume {
	m.mu.Lock()
	defer m.mu.Unlock()
	return maps.Clone(m.mounted[uid])
}

// noteVolumes adds volumes to those of the pod. The ones noted before stay, because a sync that
// fails or ends early undoes none.
func (m *Manager) noteVolumes(uid types.UID, ready map[string]MountedVolume) {
	if len(ready) == 0 {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.mounted[uid] == nil {
		m.mounted[uid] = map[string]MountedVolume{}
	}
	maps.Copy(m.mounted[uid], ready)
}

func (m *Manager) forgetVolumes(uid types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.mounted, uid)
	delete(m.stale, uid)
}

// RefreshVolumes brings volumes of config maps, secrets, tokens and the pod's fields up to
// date, as far as containers may have them mounted. What cannot be read keeps its old
// content. [Manager.SyncPod] does it too; call this when a pod is not synced. It must not run
// concurrently with SyncPod for the same pod.
func (m *Manager) RefreshVolumes(ctx context.Context, pod *v1.Pod) {
	m.refresh(ctx, pod, m.ownFiles(pod))
}

// ownFiles returns the pod's volumes of config maps, secrets, tokens and the pod's fields that the engine makes.
func (m *Manager) ownFiles(pod *v1.Pod) []*v1.Volume {
	var out []*v1.Volume
	for i := range pod.Spec.Volumes {
		v := &pod.Spec.Volumes[i]
		if payload.Handles(v) && (m.options.Volumes == nil || !m.options.Volumes.Handles(pod, v)) {
			out = append(out, v)
		}
	}
	return out
}

// refresh brings those of the volumes up to date that have content.
func (m *Manager) refresh(ctx context.Context, pod *v1.Pod, volumes []*v1.Volume) {
	own := ownVolumes{m}
	for _, v := range volumes {
		if _, published := m.publishedVolume(pod, v); !published || ctx.Err() != nil {
			continue
		}
		if _, err := own.SetUp(ctx, pod, v); err != nil {
			m.options.Logger.Error(err, "A volume could not be brought up to date", "podUID", pod.UID, "volume", v.Name)
		}
	}
}

// TearDownVolumes undoes what was made for a pod's volumes: mounts, memory, and
// the content of emptyDir, configMap, secret, downwardAPI and projected volumes.
// Then it releases what [Grants] gave. Call it once the pod's containers have stopped for good, any number of times. It
// fails while something is still mounted; try again then. hostPath volumes stay.
func (m *Manager) TearDownVolumes(ctx context.Context, uid types.UID) error {
	// The engine holds sub-paths of all volumes, including those of managers: they go first.
	err := ownVolumes{m}.TearDown(ctx, uid)
	m.noteInterrupted(err)
	problems := []error{err}
	switch cut := ctx.Err(); {
	case m.options.Volumes == nil:
	case cut != nil:
		problems = append(problems, cut)
	default:
		problems = append(problems, maybeMounted(m.options.Volumes.TearDown(ctx, uid)))
	}
	if err := errors.Join(problems...); err != nil {
		return fmt.Errorf("tear down volumes: %w", err)
	}
	if err := m.releaseGrants(ctx, uid); err != nil {
		return err
	}
	m.forgetVolumes(uid)
	return nil
}

// RemovePodDir removes a pod's directory: it tears down the volumes, then removes hosts file,
// termination files and everything else. It never follows a link, never enters another file
// system or mount point, never removes content of volumes that are not the engine's, and fails if
// any is there (spec/cleanup.md 4). It does nothing while the pod runs ([ErrPodRunning]), and
// only tears down the volumes while the runtime has containers of it ([ErrContainersLeft]). It
// succeeds if there is no directory.
func (m *Manager) RemovePodDir(ctx context.Context, uid types.UID) error {
	pod, err := m.leftOf(ctx, uid)
	switch {
	case err != nil:
		return fmt.Errorf("remove pod directory: %w", err)
	case pod != nil && pod.Running():
		return fmt.Errorf("remove pod directory: %w", ErrPodRunning)
	}
	if err := m.TearDownVolumes(ctx, uid); err != nil {
		return err
	}
	if m.options.Volumes != nil {
		// Unknown counts as mounted (spec/cleanup.md OD2).
		names, err := m.options.Volumes.Mounted(ctx, uid)
		if err != nil {
			return fmt.Errorf("remove pod directory: mounted volumes: %w", maybeMounted(err))
		}
		if len(names) > 0 {
			return maybeMounted(fmt.Errorf("remove pod directory: volumes %s are still mounted", strings.Join(names, ", ")))
		}
	}
	if pod != nil && len(pod.Containers) > 0 { // their last words stay until they are stored (IN16)
		return fmt.Errorf("remove pod directory: %w", ErrContainersLeft)
	}
	err = m.dirs.Remove(ctx, uid)
	m.noteInterrupted(err)
	if err != nil {
		return err
	}
	m.freeUsers(uid)
	return nil
}
