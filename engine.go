package podwright

import (
	"errors"
	"fmt"
	"sync"

	"go.opentelemetry.io/otel/metric"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/cleanup"
	"github.com/podwright/podwright/cleanup/eviction"
	"github.com/podwright/podwright/cleanup/imagegc"
	"github.com/podwright/podwright/internal/dirlock"
	"github.com/podwright/podwright/internal/latency"
	"github.com/podwright/podwright/internal/node"
	"github.com/podwright/podwright/internal/recovery"
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
	// ErrRunning: Run was called a second time. An engine runs once; make a
	// new one to run again.
	ErrRunning = errors.New("the engine runs, or has run, already")
	// ErrNotRunning: Drain needs a running engine.
	ErrNotRunning = errors.New("the engine is not running")
	// ErrInUse, wrapped in the error of Run: another engine runs on the same
	// RootDir.
	ErrInUse = dirlock.ErrInUse
)

// Engine keeps the pods its sources desire running at one container runtime.
// Make one with [New]. All methods are safe for concurrent use.
type Engine struct {
	config Config

	pleg        *pleg.Generator
	changes     *pleg.Subscription
	pods        *pods.Manager
	rotator     *pods.LogRotator
	reaper      *pods.Reaper
	status      *status.Manager
	syncer      *podsync.Syncer
	workers     *podworkers.Workers
	loop        *syncloop.Loop
	housekeeper *cleanup.Housekeeper
	probes      *probe.Manager
	probeMemory *recovery.ProbeMemory
	health      *node.Health
	state       node.State
	hooks       *node.Hooks
	exits       *latency.Exits
	journal     *recovery.Journal
	recovery    *recovery.Recovery
	resizer     *resizer
	// records are of pulls; images is nil if images are not collected.
	records       *imageRecords
	images        *imagegc.Collector
	cgroupRemover *cgroupRemover
	evictor       *eviction.Manager // nil without Config.Eviction
	gate          *admission.Gate
	preempting    *preempting
	mirrors       *mirror.Reconciler

	ready  chan struct{}
	drains chan *drain

	mu      sync.Mutex
	started bool
	down    bool          // the node shuts down
	stopped chan struct{} // closed when Run returns; nil before Run
}

// New checks the configuration and builds an engine. It creates the folders of
// the configuration, makes no runtime call and starts nothing. The error joins
// every problem of the configuration.
func New(config Config) (*Engine, error) {
	if err := config.complete(); err != nil {
		return nil, fmt.Errorf("podwright: invalid configuration:\n%w", err)
	}
	e := &Engine{
		config: config, ready: make(chan struct{}), drains: make(chan *drain), stopped: make(chan struct{}),
	}
	if err := e.build(); err != nil {
		return nil, fmt.Errorf("podwright: invalid configuration:\n%w", err)
	}
	return e, nil
}

// build makes the parts and ties them together. Parts know each other only
// through the small interfaces each declares; adapters.go has the joints.
func (e *Engine) build() error {
	c := e.config
	sequence := &runtime.Sequence{}
	view := runtime.NewView(c.Runtime, runtime.ViewOptions{OwnerID: c.Node.OwnerID, Sequence: sequence, Clock: c.Clock})
	meter := func(room string) metric.Meter {
		return c.Observe.MeterProvider.Meter("github.com/podwright/podwright/" + room)
	}

	var err error
	plegOptions := c.PLEG
	plegOptions.View, plegOptions.Sequence, plegOptions.Clock = view, sequence, c.Clock
	plegOptions.Logger, plegOptions.Meter, plegOptions.Recorder = c.Observe.Logger.WithName("pleg"), meter("pleg"), c.Observe.Events
	plegOptions.Streamer, _ = c.Runtime.(runtime.EventStreamer)
	if e.pleg, err = pleg.New(c.Runtime, plegOptions); err != nil {
		return err
	}
	e.changes = e.pleg.Subscribe()
	if e.exits, err = latency.New(c.Observe.MeterProvider.Meter("github.com/podwright/podwright"), c.Clock, e.pleg.Get); err != nil {
		return fmt.Errorf("metrics: %w", err)
	}

	if err := e.buildResizer(); err != nil {
		return err
	}
	e.buildJournal(meter("status/checkpoint"))
	calls := podsync.NewCalls(e.exits.Runtime(c.Runtime), podsync.CallOptions{
		Report: e.pleg.Report, BeforeStart: e.journal.Starting, Clock: c.Clock,
	})
	e.pods, err = pods.New(calls, c.Images, e.podOptions(sequence, meter("runtime/pods")))
	if err != nil {
		return err
	}
	if err := e.buildTidiers(meter("cleanup/imagegc")); err != nil {
		return err
	}
	e.buildStatus(meter("status"))
	e.buildNode()
	if err := e.buildProbes(meter("probe")); err != nil {
		return err
	}
	e.buildRecovery()
	if err := e.buildSetupGates(meter); err != nil {
		return err
	}
	e.buildSyncer(calls)
	workers := c.Workers
	workers.Views, workers.SourcesReady, workers.Journal = views{e.pleg}, func() bool { return e.loop.Ready() }, e.journal
	workers.Clock, workers.Logger, workers.Events, workers.Meter = c.Clock, c.Observe.Logger.WithName("workers"), c.Observe.Events, meter("podworkers")
	e.workers = podworkers.New(e.syncer, workers)
	return e.buildLoop(meter)
}

// podOptions completes the options of the part that turns pods into containers.
func (e *Engine) podOptions(sequence *runtime.Sequence, meter metric.Meter) pods.Options {
	c, o := e.config, e.config.Pods
	o.RootDir, o.LogDir, o.LinkDir = c.RootDir, c.Storage.LogDir, c.Storage.LogLinkDir
	o.OwnerID, o.NodeName, o.HostIPs = c.Node.OwnerID, c.Node.Name, func() []string { return c.Node.IPs }
	o.ClusterDNS, o.ClusterDomain = c.Node.ClusterDNS, c.Node.ClusterDomain
	o.Allocations, o.Allocatable = e.resizer.allocations, e.resizer.allocatable
	o.Reader, o.Sequence = freshReader{e.pleg}, sequence
	o.BeforeRemove, o.Probes = e.journal.BeforeRemove, probeSource{e}
	o.Clock, o.Logger, o.Events, o.Meter = c.Clock, c.Observe.Logger.WithName("pods"), c.Observe.Events, meter
	return o
}

// buildSyncer makes what carries out the steps of pods.
func (e *Engine) buildSyncer(calls *podsync.Calls) {
	c := e.config
	e.syncer = podsync.New(e.pods, e.pleg, e.status, podsync.Options{
		Calls: calls, Content: e.pods, Probes: e.probes, Mirrors: wantedMirrors{e},
		Records:      recovery.Records{Journal: e.journal, ProbeMemory: e.probeMemory},
		Allocations:  grants{e.resizer.allocations, e.resizer.kick},
		Admission:    podsync.Admission{Handlers: c.Admission.Soft, Others: e.others, Refused: e.gate.RefuseLate},
		Network:      e.health.Network,
		Removable:    func(uid types.UID) bool { return e.loop.Ready() && e.workers.ShouldPodContentBeRemoved(uid) },
		AwaitRemoval: e.cgroupRemover.settle,
		Wake:         e.wake,
		NodeIPs:      c.Node.IPs, Clock: c.Clock, Events: c.Observe.Events,
		Hooks: podsync.Hooks{
			Syncing: e.exits.Entered,
			Changed: func(types.UID) { e.resizer.acted() },
			// A pass now marks a pod that no source wants as deleted while its containers
			// still stop, so that its remains can go right after.
			Terminating: func(uid types.UID) { e.exits.Dropped(uid); e.tidy() },
			Released:    e.ended,
		},
	})
}

// buildNode makes what knows how the node is, and tells others.
func (e *Engine) buildNode() {
	c := e.config
	e.health = node.NewHealth(node.HealthOptions{Runtime: c.Runtime, Clock: c.Clock, Changed: e.healthChanged, Logger: c.Observe.Logger})
	e.state = node.State{Health: e.health, ShuttingDown: e.shuttingDown, Pressure: e.pressure, Clock: c.Clock}
	e.hooks = node.NewHooks(node.HookOptions{
		Hooks: c.NodeHooks, RuntimeWell: e.health.WellOnce(), State: e.state, Clock: c.Clock, Logger: c.Observe.Logger,
	})
}

// pressure returns the conditions of what the node may run out of.
func (e *Engine) pressure() []v1.NodeCondition {
	if e.evictor == nil {
		return nil
	}
	return e.evictor.Conditions()
}

// buildStatus makes the status manager.
func (e *Engine) buildStatus(meter metric.Meter) {
	c, o := e.config, e.config.Status
	o.Sinks, o.Clock, o.Logger, o.Meter = c.Observe.Sinks, c.Clock, c.Observe.Logger.WithName("status"), meter
	o.Journal, o.CouldHaveRunningContainers, o.Mirrors = e.journal, e.couldRun, mirrored{e}
	e.status = status.NewManager(o)
}

// buildLoop makes the loop and the housekeeper, which need each other.
func (e *Engine) buildLoop(meter func(string) metric.Meter) error {
	c := e.config
	if err := e.buildEviction(meter("cleanup/eviction")); err != nil {
		return fmt.Errorf("Eviction: %w", err)
	}
	var err error
	o := c.Loop
	o.Sources, o.Events, o.Housekeeper = e.sources(), changes{e.changes, e.exits, e.noticed, e.died}, housekeeping{e}
	o.Gate, o.Admission, o.Observed, o.Evicted = e.open, e.preempting, e.observed, e.evicted
	o.Recorder, o.Clock, o.Logger, o.Meter = c.Observe.Events, c.Clock, c.Observe.Logger.WithName("loop"), meter("syncloop")
	if e.loop, err = syncloop.New(dispatcher{e.workers, e.recovery.Complete}, o); err != nil {
		return err
	}
	inventory := newInventory(knownPods{e.workers, c.Clock, e.recovery.Complete, e.recovery.KillOrphan}, e.pleg, c.Clock, func() cleanup.Plan { return e.housekeeper.LastPlan() })
	h := c.Cleanup
	h.SourcesReady, h.Undecided, h.Gate, h.Withheld, h.Again = e.loop.Ready, e.loop.Undecided, e.usable, e.withheld, e.tidy
	h.Statuses, h.Probes, h.Content = statuses{e.status, e.pruner()}, e.probes, contents{e.pods}
	h.Collector = collector{e.pods, e.loop.Ready, e.workers, c.Storage.DeadContainers, e.pleg, e.records}
	h.Cgroups, h.UserRanges, h.BackOffs, h.Mirrors, h.Rule = e.cgroupsLeft(), e.pods, e.pods, orphanedMirrors{e}, pods.RemovalRule
	h.Clock, h.Logger, h.Meter = c.Clock, c.Observe.Logger.WithName("cleanup"), meter("cleanup")
	e.housekeeper, err = cleanup.New(e.loop.Store(), inventory, inventory, h)
	return err
}

// Ready is closed once the runtime has been read completely and every source has
// been heard: from then on Pods shows everything there is.
func (e *Engine) Ready() <-chan struct{} { return e.ready }

// Healthy returns nil if the engine can do its work, else every reason why not,
// joined: the runtime does not answer or is not ready, the loop is stuck, a source
// cannot be read, a sink does not take statuses, a checkpoint cannot be written or
// read.
func (e *Engine) Healthy() error {
	problems := []error{e.health.Runtime(), e.loop.Healthy(), e.status.Healthy(), e.journal.Healthy()}
	if problems[0] == nil {
		problems = append(problems, e.pleg.Healthy())
	}
	for _, s := range e.loop.Sources() {
		if err := errors.Join(s.RunError, s.Health.LastError); err != nil {
			problems = append(problems, fmt.Errorf("source %s: %w", s.Name, err))
		}
	}
	return errors.Join(problems...)
}

// usable returns why no pod should be set up now. Before the first complete
// reading nobody knows what runs already, such as another UID of a pod's name
// (spec/podworkers.md N6).
func (e *Engine) usable() error {
	if err := e.health.Runtime(); err != nil {
		return err
	}
	return e.recovery.Gate()
}

// healthChanged reacts to a runtime that came back or went away.
func (e *Engine) healthChanged() {
	e.hooks.Changed()
	e.loop.GateChanged()
	if e.health.Runtime() == nil {
		e.tidy()
	}
}

// ended makes the next housekeeping pass, soon, look for what a pod left.
func (e *Engine) ended(uid types.UID) {
	e.resizer.kick()
	e.housekeeper.Finished(uid)
	if pod, desired := e.loop.Store().Get(uid); desired && syncloop.IsEvicted(&pod.Status) {
		e.evicted(pod)
	}
	e.tidy()
}

// noticed tells housekeeping of a pod that nobody knows and of which nothing runs,
// such as a sandbox whose making was cut off. Without that its remains would wait
// for the next run of garbage collection; what runs is found by each pass.
func (e *Engine) noticed(uid types.UID) {
	if _, desired := e.loop.Store().Get(uid); desired {
		return
	}
	if _, known := e.workers.Explain(uid); known {
		return
	}
	if view, err := e.pleg.Get(uid); err == nil && len(view.Sandboxes)+len(view.Containers) > 0 && !view.Running() {
		e.housekeeper.Found(uid)
		e.tidy()
	}
}

// tidy asks for a housekeeping pass soon.
func (e *Engine) tidy() { e.loop.TriggerHousekeeping() }
