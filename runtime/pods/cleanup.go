package pods

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/podinfo"
	"github.com/podwright/podwright/internal/rule"
	"github.com/podwright/podwright/runtime/pods/internal/poddir"
)

// LoadUserRanges reads again which pods have a range of user IDs. Call it before anything else if another agent may have
// used RootDir since [New], once that has ended: otherwise two pods could get the same IDs (spec/runtime.md 3.7).
func (m *Manager) LoadUserRanges() error { return m.users.Load() }

// UserRanges returns the pods that have a range of user IDs, sorted. It reads no
// disk.
func (m *Manager) UserRanges() []types.UID { return m.users.Holders() }

// ReleaseUserRange frees a pod's range of user IDs for others (spec/cleanup.md
// 3.8). Nothing of the pod may run any more. It succeeds if the pod has none.
func (m *Manager) ReleaseUserRange(uid types.UID) error { return m.users.Release(uid) }

// PruneBackOffs drops back-offs of containers and images that no longer delay
// anything (spec/cleanup.md 3.17). It does not block.
func (m *Manager) PruneBackOffs() {
	now := m.options.Clock.Now()
	m.mu.Lock()
	m.crashes.Prune(now)
	m.mu.Unlock()
	m.puller.Prune(now)
}

// HasVolumes reports whether volumes of the pod are still there: made by this
// process, or mounted (spec/cleanup.md 3.16). Treat an error as yes.
func (m *Manager) HasVolumes(ctx context.Context, uid types.UID) (bool, error) {
	if len(m.MountedVolumes(uid)) > 0 {
		return true, nil
	}
	if m.options.Volumes != nil {
		names, err := m.options.Volumes.Mounted(ctx, uid)
		if err != nil {
			return true, fmt.Errorf("mounted volumes: %w", err)
		}
		if len(names) > 0 {
			return true, nil
		}
	}
	mounts, err := m.dirs.Mounted(uid)
	if err != nil {
		return true, fmt.Errorf("mounted volumes: %w", err)
	}
	return len(mounts) > 0, nil
}

// maybeMountedError means that a volume is or may be mounted: its manager says so, or
// cannot say.
type maybeMountedError struct{ error }

func (e maybeMountedError) Unwrap() error { return e.error }

func maybeMounted(err error) error {
	if err == nil {
		return nil
	}
	return maybeMountedError{err}
}

// RemovalRule returns the name of the rule of spec/cleanup.md behind an error of
// [Manager.RemovePod], [Manager.RemovePodDir] or [Manager.RemoveLogs], empty if there is none:
// OD2 for what is or may be mounted, OD9 for left-over data of a volume, ND2 for what the runtime
// still has of the pod.
func RemovalRule(err error) rule.Rule {
	var maybe maybeMountedError
	switch {
	case errors.Is(err, poddir.ErrMounted), errors.As(err, &maybe):
		return rule.MaybeMounted
	case errors.Is(err, poddir.ErrLeftover):
		return rule.VolumeData
	case errors.Is(err, ErrPodRunning), errors.Is(err, ErrContainersLeft):
		return rule.InUse
	}
	return ""
}

// PodDirChanged returns when the pod's directory last changed, zero if there is none
// or the time is not known.
func (m *Manager) PodDirChanged(uid types.UID) time.Time {
	if podinfo.CheckName("pod UID", string(uid)) != nil {
		return time.Time{}
	}
	return changed(filepath.Join(m.dirs.Path, string(uid)))
}

// LogDirChanged is like PodDirChanged for the pod's log directory.
func (m *Manager) LogDirChanged(uid types.UID) time.Time {
	entries, err := os.ReadDir(m.options.LogDir)
	if err != nil {
		return time.Time{}
	}
	for _, e := range entries {
		if found, ok := uidOfLogDir(e); ok && found == uid {
			return changed(filepath.Join(m.options.LogDir, e.Name()))
		}
	}
	return time.Time{}
}

func changed(path string) time.Time {
	info, err := os.Lstat(path)
	if err != nil {
		return time.Time{}
	}
	return info.ModTime()
}
