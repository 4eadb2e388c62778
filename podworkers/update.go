package podworkers

import (
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/podworkers/internal/machine"
	"github.com/podwright/podwright/runtime"
)

// UpdateOptions is one update of a pod. The workers keep the pods they are
// given and treat them as read-only; the caller must not modify them afterwards.
type UpdateOptions struct {
	// Type is the reason; the zero value is Sync.
	Type UpdateType
	// Pod is the full pod with a UID. Required unless RunningPod is given.
	Pod *v1.Pod
	// MirrorPod stands for a static pod in the API, or is nil. The last non-nil one
	// is remembered.
	MirrorPod *v1.Pod
	// RunningPod is a pod known only from the runtime; Type must be Kill. Together with
	// Pod it means that the runtime has the pod, so that its end is carried out in full
	// although it was never set up (U1).
	RunningPod *runtime.Pod
	// StartTime is when the update was made, for the latency metric. Zero:
	// not measured.
	StartTime time.Time
	// Kill says how to terminate. It only counts for a pod whose termination is
	// requested, by this update or earlier. It may be nil for every type.
	Kill *KillOptions
}

// KillOptions says how to terminate a pod.
type KillOptions struct {
	// Evict marks the pod as evicted: its content may be removed at once (E1).
	Evict bool
	// StatusFunc edits the status published while terminating. Every attempt
	// uses the latest one.
	StatusFunc PodStatusFunc
	// GracePeriodSeconds counts instead of the spec's period, even if it is longer, as in the
	// kubelet; a grace that an earlier kill or the deletion has set can only become shorter.
	// Values below 1 count as 1. Nil: no opinion.
	GracePeriodSeconds *int64
	// Completed, if not nil, is closed exactly once: when no container of the pod
	// runs and none will, or when that will never be known because the workers
	// stopped first. Only the workers close it. Passing the same channel again is
	// harmless.
	Completed chan<- struct{}

	// outcome, if not nil, is filled in before Completed is closed.
	outcome *machine.KillOutcome
}
