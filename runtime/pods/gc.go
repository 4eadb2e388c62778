package pods

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// GCPolicy says which dead containers and sandboxes may go. Negative limits mean
// no limit (spec/cleanup.md CG1).
type GCPolicy struct {
	// MinAge keeps containers that died (or, if never started, were created)
	// less than this long ago.
	MinAge time.Duration
	// MaxPerContainer is how many dead containers are kept per pod and
	// container name. Zero takes the default of 1; for none use KeepNone.
	MaxPerContainer int
	// KeepNone makes MaxPerContainer 0.
	KeepNone bool
	// MaxContainers bounds all dead containers. Zero means no limit.
	MaxContainers int

	// SourcesReady is the guard: while false no pod is taken for removed
	// (spec/cleanup.md SG2).
	SourcesReady bool
	// Pressure also removes what RuntimeShouldBeRemoved allows.
	Pressure bool
	// ContentShouldBeRemoved reports whether nothing of the pod is needed any
	// more. Nil: never.
	ContentShouldBeRemoved func(uid types.UID) bool
	// RuntimeShouldBeRemoved reports whether the pod has ended, though it may
	// still be desired. Nil: never.
	RuntimeShouldBeRemoved func(uid types.UID) bool
}

// GCReport is what one collection did.
type GCReport struct {
	// Containers and Sandboxes removed, by runtime ID.
	Containers []string
	Sandboxes  []string
}

// GarbageCollect reads the runtime and removes dead containers and sandboxes by
// policy, containers first (spec/cleanup.md 6, 7). It never touches a running
// container or a ready sandbox, nor objects of another owner. One failing
// removal does not stop the others; all errors are joined.
func (m *Manager) GarbageCollect(ctx context.Context, policy GCPolicy) (GCReport, error) {
	return GCReport{}, nil
}

// RemovePod removes every container (with its logs), every sandbox and the log
// directory of a pod that has ended, for pods that are gone from the desired
// state. It fails, removing nothing, while anything of the pod runs. The pod's
// directory is left to [Manager.RemovePodDir].
func (m *Manager) RemovePod(ctx context.Context, uid types.UID) error { return nil }

// PodDirs lists the UIDs that have a directory below RootDir/pods.
func (m *Manager) PodDirs() ([]types.UID, error) { return nil, nil }

// RemovePodDir removes a pod's directory: emptyDir content, hosts file,
// termination files. It never follows a link, never enters another file system
// or mount point, and fails if one is there (spec/cleanup.md 4). A missing
// directory is success.
func (m *Manager) RemovePodDir(uid types.UID) error { return nil }

// LogDirs lists the UIDs that have a log directory.
func (m *Manager) LogDirs() ([]types.UID, error) { return nil, nil }

// RemoveLogs removes a pod's log directory (spec/cleanup.md LG1). A missing
// directory is success.
func (m *Manager) RemoveLogs(uid types.UID) error { return nil }
