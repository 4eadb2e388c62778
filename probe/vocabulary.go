package probe

import (
	"context"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/proberesult"
	"github.com/podwright/podwright/probe/internal/decide"
	"github.com/podwright/podwright/runtime"
)

// Kind is a kind of probe.
type Kind = decide.Kind

// Kinds of probes.
const (
	Startup   = decide.Startup
	Liveness  = decide.Liveness
	Readiness = decide.Readiness
)

// Result is what probing knows of a container. The zero value means that there is no clear answer
// yet.
type Result = proberesult.Result

// Results. None says that the container has no probe of that kind.
const (
	Unknown = proberesult.Unknown
	Success = proberesult.Success
	Failure = proberesult.Failure
	None    = proberesult.None
)

// Fact is what was recorded about one kind of probe of a container. Its fields:
//
//	Stored Result    // the result that counts
//	Last   Result    // the last executed one
//	Run    int32     // how often Last has come in a row; 0: nothing is known of it
//	At     time.Time // when Last came
type Fact = decide.Fact

// Record is what is kept of a container across restarts of the engine
// (spec/probe.md 8.3). Its fields:
//
//	Started, Ready bool        // the flags of the container's status; Ready counts only with Status
//	Facts          [...]Fact   // by [Kind]
//	Status         bool        // it comes from a status that an API keeps, which knows the two flags only
type Record = decide.Record

// View is what is known of a pod now. What it points to is shared and read-only.
type View struct {
	// Pod is the pod as desired now. Required.
	Pod *v1.Pod
	// Status is the pod's last status, with the engine's own started flags. For a pod on the host
	// network, its PodIP is an address that the node has now. Required.
	Status *v1.PodStatus
	// Runtime, if known, has the exact start times of containers: those in a status are cut to
	// whole seconds.
	Runtime *runtime.PodStatus
	// Leaving: the pod is being stopped, with or without a deletionTimestamp.
	Leaving bool
}

// Pods shows pods as they are now. Calls come from several goroutines and must not
// block.
type Pods interface {
	// View returns the pod, and false if there is no status of it.
	View(uid types.UID) (View, bool)
}

// Memory keeps what must survive a restart of the engine (spec/probe.md 8). Calls come from several
// goroutines and must not block: Remember may write later. It is called before its fact becomes
// visible in any other way, with a lock held: it must not call the manager.
type Memory interface {
	// Recall returns what an earlier run kept of a container, or nil.
	Recall(uid types.UID, container string, id runtime.ContainerID) *Record
	// Remember takes the newest facts about one kind of a container. changed means that the stored
	// result differs from the one before, and will be announced.
	Remember(uid types.UID, container string, id runtime.ContainerID, kind Kind, fact Fact, changed bool)
}

// Executor runs commands in containers; every cri.RuntimeService is one.
type Executor interface {
	// ExecSync is the method of cri.ContainerManager.
	ExecSync(ctx context.Context, containerID string, cmd []string, timeout time.Duration) (stdout, stderr []byte, err error)
}

// Announcement says that a container has a new result (6.2). The pod may be gone by the time the
// announcement is read.
type Announcement struct {
	UID    types.UID
	ID     runtime.ContainerID
	Kind   Kind
	Result Result
}

// Timing says when and for how long a probe runs.
type Timing struct {
	// InitialDelay is counted from the start of the container.
	InitialDelay time.Duration
	// Period is the time between two runs, Timeout the limit of one.
	Period, Timeout time.Duration
}
