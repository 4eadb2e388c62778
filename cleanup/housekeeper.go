package cleanup

import (
	"context"

	"github.com/go-logr/logr"
	"go.opentelemetry.io/otel/metric"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/podwright/podwright/runtime"
)

// WorkerState is the kind of work a pod needs next.
type WorkerState uint8

// States.
const (
	WorkerSync WorkerState = iota
	WorkerTerminating
	WorkerTerminated
)

// Worker is what the workers know of one pod after SyncKnownPods
// (spec/podworkers.md S8).
type Worker struct {
	State WorkerState
	// Orphan: not desired. HasConfig: a full pod is known, not only a runtime
	// pod. Static: the pod does not come from the API.
	Orphan, HasConfig, Static bool
}

// Pods are the desired pods. Calls do not block.
type Pods interface {
	// Pods returns all desired pods, Mirrors all mirror pods.
	Pods() []*v1.Pod
	Mirrors() []*v1.Pod
	// Get returns the desired pod with this UID, mirror pods excluded.
	Get(uid types.UID) (*v1.Pod, bool)
}

// Workers are the pods' workers. Calls do not block; all but Knows and
// ContentShouldBeRemoved are made inside the fence.
type Workers interface {
	// SyncKnownPods forgets finished pods and starts the termination of
	// orphans (spec/podworkers.md 10).
	SyncKnownPods(desired []*v1.Pod) map[types.UID]Worker
	// Knows reports whether there is a record of the pod.
	Knows(uid types.UID) bool
	// ContentShouldBeRemoved is the predicate of spec/podworkers.md 11.
	ContentShouldBeRemoved(uid types.UID) bool
	// Restart starts a desired pod that the workers do not know.
	Restart(pod *v1.Pod)
	// Kill terminates a desired pod.
	Kill(pod *v1.Pod)
	// KillRuntimePod terminates a pod that is known from the runtime only.
	KillRuntimePod(pod *runtime.Pod)
}

// RunningLister reads what runs.
type RunningLister interface {
	// ListRunning returns the pods that have a running container or a ready
	// sandbox and belong to this engine, read after the call began (step 5).
	ListRunning(ctx context.Context) ([]*runtime.Pod, error)
}

// Statuses are the locally known pod statuses. Calls do not block.
type Statuses interface {
	// Phase returns the phase last set for the pod.
	Phase(uid types.UID) (v1.PodPhase, bool)
	// RemoveOrphanedStatuses drops the status of every pod not in known.
	RemoveOrphanedStatuses(known map[types.UID]struct{})
}

// Content is what pods leave behind in the runtime and on disk. Removing what is
// gone is success (ID1).
type Content interface {
	// RemovePod removes all containers, sandboxes and logs of a pod that has
	// ended; it fails while anything of it runs.
	RemovePod(ctx context.Context, uid types.UID) error
	// LogDirs and PodDirs list the pods that have a folder.
	LogDirs() ([]types.UID, error)
	PodDirs() ([]types.UID, error)
	// RemoveLogs removes a pod's log folder.
	RemoveLogs(uid types.UID) error
	// RemovePodDir removes a pod's folder, under the rules of section 4.
	RemovePodDir(uid types.UID) error
}

// Collector removes dead containers and sandboxes by policy (sections 6, 7).
type Collector interface {
	// Collect makes one run over the whole runtime. contentGoes says of which
	// pods nothing is needed any more; it may be called at any time during the
	// call and does not block.
	Collect(ctx context.Context, contentGoes func(uid types.UID) bool) error
}

// Options configures a [Housekeeper]. The zero value forgets, restarts and
// finishes pods and kills orphans, but removes nothing.
type Options struct {
	// SourcesReady is the guard of SG1, asked before every action. Nil means
	// always ready.
	SourcesReady func() bool
	// Gate returns why no pod should be set up now. Nil means always open.
	Gate func() error
	// Statuses, Content and Collector are optional; nil leaves out the steps
	// that need them.
	Statuses  Statuses
	Content   Content
	Collector Collector

	// Clock is the housekeeper's time. Nil means the real clock.
	Clock clock.PassiveClock
	// Logger is silent by default.
	Logger logr.Logger
	// Meter receives the metrics of sections 3 and 9. Nil drops them.
	Meter metric.Meter
}

// Housekeeper makes housekeeping passes. Make one with [New].
type Housekeeper struct{}

// New returns a housekeeper.
func New(pods Pods, workers Workers, running RunningLister, options Options) *Housekeeper {
	return &Housekeeper{}
}

// Housekeep makes one pass. fence runs its argument while no desired pod and no
// worker changes because of a source; nil calls it directly. Passes do not
// overlap: a second call waits for the first (HK2). The error joins what went
// wrong; whatever did not depend on it was done (HK1, HI12).
func (h *Housekeeper) Housekeep(ctx context.Context, fence func(critical func())) error { return nil }

// DryRun returns what a pass would do now, touching nothing. Pods that a pass
// would forget are judged as known (DR1).
func (h *Housekeeper) DryRun(ctx context.Context) (Plan, error) { return Plan{}, nil }

// Finished notes that a pod has ended, so that the next pass looks for content
// it left. It is a hint: a lost one costs up to a minute. It never blocks.
func (h *Housekeeper) Finished(uid types.UID) {}
