package podwright

import (
	"errors"
	"fmt"
	"sync/atomic"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/cleanup"
	"github.com/podwright/podwright/internal/dirlock"
	"github.com/podwright/podwright/internal/foreign"
	"github.com/podwright/podwright/internal/latency"
	"github.com/podwright/podwright/internal/node"
	"github.com/podwright/podwright/internal/oomkills"
	"github.com/podwright/podwright/internal/recovery"
	"github.com/podwright/podwright/internal/tracing"
	"github.com/podwright/podwright/pleg"
	"github.com/podwright/podwright/podworkers"
	"github.com/podwright/podwright/podworkers/podsync"
	"github.com/podwright/podwright/probe"
	"github.com/podwright/podwright/runtime"
	"github.com/podwright/podwright/runtime/pods"
	"github.com/podwright/podwright/status"
	"github.com/podwright/podwright/syncloop"
	"github.com/podwright/podwright/syncloop/admission"
	"github.com/podwright/podwright/syncloop/mirror"
)

// Errors a caller can act on.
var (
	// ErrRunning: Run was called a second time. An engine runs once; make a new one to run again.
	ErrRunning = errors.New("the engine runs, or has run, already")
	// ErrNotRunning: Drain, Shutdown, EvictPod and RestartPod need an engine whose Run was called and has not returned.
	ErrNotRunning = errors.New("the engine is not running")
	// ErrInUse, wrapped in the error of Run: another engine runs on the same RootDir.
	ErrInUse = dirlock.ErrInUse
	// ErrSameOwner, wrapped in the error of Run: another engine, on another RootDir,
	// runs pods under the same Node.OwnerID at the same runtime.
	ErrSameOwner = dirlock.ErrSameOwner
	// ErrOtherOwner, wrapped in the error of Run: the RootDir holds pods of another Node.OwnerID.
	ErrOtherOwner = dirlock.ErrOtherOwner
)

// Engine keeps the pods its sources desire running at one container runtime.
// Make one with [New]. All methods are safe for concurrent use.
type Engine struct{ *parts }

// parts are what an engine is composed of. build makes them, and they know each other
// only through the small interfaces that each declares.
type parts struct {
	config Config

	pleg        *pleg.Generator
	changes     *pleg.Subscription
	sequence    *runtime.Sequence
	calls       *podsync.Calls
	pods        *pods.Manager
	rotator     *pods.LogRotator
	reaper      *pods.Reaper
	status      *status.Manager
	syncer      *podsync.Syncer
	workers     *podworkers.Workers
	loop        *syncloop.Loop
	dispatch    func(syncloop.Work)
	housekeeper *cleanup.Housekeeper
	probes      *probe.Manager
	probeMemory *recovery.ProbeMemory
	foreign     *foreign.Calls
	problems    *node.Problems
	objects     *node.Objects
	events      *node.Events
	health      *node.Health
	state       node.State
	hooks       *node.Hooks
	exits       *latency.Exits
	traces      *tracing.Traces
	kills       *oomkills.Kills
	journal     *recovery.Journal
	recovery    *recovery.Recovery
	shutdown    *node.Shutdown
	residents   *node.Residents
	shown       *node.Shown
	logs        *node.Logs
	wakes       *node.Wakes
	occupants   *node.Occupants
	self        *node.Self
	// allocations are the resources that pods were granted.
	allocations *pods.Allocations
	resizer     *node.Resizer
	dead        *node.DeadContainers
	images      *node.Images
	evictions   *node.Evictions
	gate        *admission.Gate
	review      func(known, pod *v1.Pod) error
	policies    *admission.SourcePolicies
	uids        *recovery.OwnUIDs
	preemption  *node.Preemption
	returns     *node.Returns
	mirrors     *mirror.Reconciler
	mirrored    *node.Mirrored
	onePod      *node.OnePod
	restarts    *node.Restarts
	probed      *node.Probed
	streams     *node.Streams

	ready  chan struct{}
	drains chan *drain

	// adding is full while a source is added, so that no source gets the policy of another.
	adding chan struct{}

	started atomic.Bool   // Run was called
	stopped chan struct{} // closed when Run returns
}

// New checks the configuration and builds an engine. It creates the configured folders, makes no runtime call
// and starts nothing. The error joins every problem of the configuration.
func New(config Config) (*Engine, error) {
	problems := config.complete()
	p := &parts{
		config: config, ready: make(chan struct{}), drains: make(chan *drain), stopped: make(chan struct{}), adding: make(chan struct{}, 1),
	}
	if config.buildable() {
		problems = errors.Join(problems, p.build())
	}
	if problems != nil {
		return nil, fmt.Errorf("podwright: invalid configuration:\n%w", problems)
	}
	return &Engine{p}, nil
}
