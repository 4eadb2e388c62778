package syncloop

import (
	"context"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// WorkKind says why a worker should sync a pod. The values are those of
// spec/podworkers.md 2.1.
type WorkKind uint8

// Kinds of work.
const (
	// WorkSync: something about the pod may have changed, but not its spec.
	WorkSync WorkKind = iota
	// WorkUpdate: the desired pod changed, or should be deleted gracefully.
	WorkUpdate
	// WorkCreate: the pod is new to this process.
	WorkCreate
	// WorkKill: no source wants the pod.
	WorkKill
)

// String returns the kind in lower case.
func (k WorkKind) String() string {
	switch k {
	case WorkSync:
		return "sync"
	case WorkUpdate:
		return "update"
	case WorkCreate:
		return "create"
	case WorkKill:
		return "kill"
	default:
		return "unknown"
	}
}

// Work is one request to a pod's worker.
type Work struct {
	Kind WorkKind
	// Pod is the pod to sync, never nil and never a mirror pod. Read-only.
	Pod *v1.Pod
	// MirrorPod is the pod's mirror in the API, nil if there is none. Read-only.
	MirrorPod *v1.Pod
	// StartTime is when the loop learned about the reason, for latency metrics.
	StartTime time.Time
}

// Changes is a coalescing set of pods whose runtime state changed in a way that
// requires a sync. One loop reads it.
type Changes interface {
	// Ready is readable while the set may be non-empty. It is the same channel
	// on every call and is never closed.
	Ready() <-chan struct{}
	// Take returns and empties the set, first-changed first. It does not block.
	Take() []types.UID
}

// Housekeeper cleans up what no source desires.
type Housekeeper interface {
	// Housekeep makes one pass. The loop calls it from a separate goroutine,
	// never twice at once (HK2), and only while all sources are ready (SG1).
	//
	// It may take long: only what it runs through fence delays the loop. fence runs
	// critical while no operation or event is being handled, so that critical sees
	// the desired pods and the workers at one moment (B5). critical must be short
	// and must not call fence again.
	//
	// rest is how long the loop may leave out further passes while nothing happens, which is
	// longer than [Options.HousekeepingPeriod] only if the pass found nothing that a later pass
	// could do (B12). 0: the next pass comes after the period.
	Housekeep(ctx context.Context, fence func(critical func())) (rest time.Duration, err error)
}
