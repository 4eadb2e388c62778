package cleanup

import (
	"context"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/runtime"
)

// WorkerState is the kind of work a pod needs next.
type WorkerState uint8

// States.
const (
	// WorkerSync: the pod should run.
	WorkerSync WorkerState = iota
	// WorkerTerminating: its containers are being stopped.
	WorkerTerminating
	// WorkerTerminated: its containers have stopped; everything else is being released, or has
	// been.
	WorkerTerminated
)

// String returns the state in lower case.
func (s WorkerState) String() string {
	switch s {
	case WorkerSync:
		return "sync"
	case WorkerTerminating:
		return "terminating"
	case WorkerTerminated:
		return "terminated"
	default:
		return "unknown"
	}
}

// Worker is what the workers know of one pod after SyncKnownPods
// (spec/podworkers.md S8).
type Worker struct {
	State WorkerState
	// Orphan: not desired. HasConfig: the full pod is known, not only a runtime pod. Static: the
	// pod does not come from the API.
	Orphan, HasConfig, Static bool
	// Restart: the pod is desired, its life is over, and it should get a new life.
	Restart bool
}

// Pods are the desired pods. Calls do not block.
type Pods interface {
	// Pods returns all desired pods, Mirrors all mirror pods.
	Pods() []*v1.Pod
	Mirrors() []*v1.Pod
	// Get returns the desired pod with this UID, mirror pods excluded.
	Get(uid types.UID) (*v1.Pod, bool)
}

// Workers are the pods' workers. Calls do not block; all but Known, Knows and
// ContentShouldBeRemoved are made inside the fence.
type Workers interface {
	// SyncKnownPods forgets finished pods and starts terminating orphans (spec/podworkers.md 10).
	// The map belongs to the caller.
	SyncKnownPods(desired []*v1.Pod) map[types.UID]Worker
	// Known returns what the workers know and changes nothing, for a dry run. The map belongs to
	// the caller.
	Known() map[types.UID]Worker
	// Knows reports whether there is a record of the pod.
	Knows(uid types.UID) bool
	// ContentShouldBeRemoved is the predicate of spec/podworkers.md 11.
	ContentShouldBeRemoved(uid types.UID) bool
	// Restart starts a desired pod that the workers do not know, or whose life is over; that life
	// is forgotten in the same step.
	Restart(pod *v1.Pod)
	// Kill terminates a desired pod.
	Kill(pod *v1.Pod)
	// KillRuntimePod terminates a pod that is known only from the runtime.
	KillRuntimePod(pod *runtime.Pod)
}

// RunningLister lists what is running.
type RunningLister interface {
	// ListRunning returns the pods that have a running container or a ready sandbox and belong to
	// this engine. The runtime is read after the call begins (step 5).
	ListRunning(ctx context.Context) ([]*runtime.Pod, error)
}

// Statuses are the locally known pod statuses. Calls do not block.
type Statuses interface {
	// Phase returns the phase last set for the pod.
	Phase(uid types.UID) (v1.PodPhase, bool)
	// RemoveOrphanedStatuses drops the status of every pod not in known.
	RemoveOrphanedStatuses(known map[types.UID]struct{})
}

// Content is what pods leave behind in the runtime and on disk. Removing something that is already
// gone is success (ID1).
type Content interface {
	// RemovePod removes all containers, sandboxes and logs of a pod that has ended; it fails while
	// any of it is running.
	RemovePod(ctx context.Context, uid types.UID) error
	// LogDirs and PodDirs list the pods that have a folder.
	LogDirs() ([]types.UID, error)
	PodDirs() ([]types.UID, error)
	// RemoveLogs removes a pod's log folder.
	RemoveLogs(ctx context.Context, uid types.UID) error
	// RemovePodDir removes a pod's folder, under the rules of section 4.
	RemovePodDir(ctx context.Context, uid types.UID) error
}

// Collector removes dead containers and sandboxes according to policy (sections 6, 7). contentGoes
// reports the pods whose content is no longer needed; it may be called at any time during a call
// and does not block.
type Collector interface {
	// Plan says what a run would remove, and why the rest stays. It changes nothing.
	Plan(ctx context.Context, contentGoes func(uid types.UID) bool) ([]Action, error)
	// Collect makes one run over the whole runtime. It calls permits right before each removal, and
	// done with the result.
	Collect(ctx context.Context, contentGoes func(uid types.UID) bool, permits func(a Action) bool, done func(a Action, err error)) error
}

// Dated is an optional ability of [Content] that tells how old things are. It waits for nothing but
// the file system.
type Dated interface {
	// Changed returns when the folder that the step removes last changed; zero if that is not
	// known.
	Changed(step Step, uid types.UID) time.Time
}
