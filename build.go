package podwright

import (
	"context"
	"fmt"
	"slices"

	"go.opentelemetry.io/otel/metric"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/cleanup"
	"github.com/podwright/podwright/internal/inventory"
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

// build makes the parts and ties them together. Parts know each other only
// through the small interfaces each declares; adapters.go has the joints.
func (e *parts) build() error {
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

	e.residents = &node.Residents{}
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
	if err := e.buildRemovers(meter("cleanup/imagegc")); err != nil {
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
	e.shutdown.Stopper, e.dead.Removals = e.workers, e.workers
	if err := e.buildLoop(meter); err != nil {
		return err
	}
	*e.residents = node.Residents{
		Desired: e.loop.Store(), Statuses: e.status, Lives: e.workers, Stopping: e.syncer.Stopping, Heard: e.loop.Ready,
	}
	e.occupants.Terminated, e.occupants.Withheld, e.occupants.Held = e.workers.IsPodKnownTerminated, e.loop.Withheld, e.loop.Holds
	e.dead.Desired, e.dead.Heard, e.dead.Undecided = e.loop.Store(), e.loop.Ready, e.loop.Undecided
	return nil
}

// podOptions completes the options of the part that turns pods into containers.
func (e *parts) podOptions(sequence *runtime.Sequence, meter metric.Meter) pods.Options {
	c, o := e.config, e.config.Pods
	o.RootDir, o.LogDir, o.LinkDir = c.RootDir, c.Storage.LogDir, c.Storage.LogLinkDir
	o.OwnerID, o.NodeName, o.HostIPs = c.Node.OwnerID, c.Node.Name, func() []string { return c.Node.IPs }
	o.ClusterDNS, o.ClusterDomain = c.Node.ClusterDNS, c.Node.ClusterDomain
	o.Allocations, o.Allocatable = e.allocations, e.allocatable
	o.Reader, o.Sequence = freshReader{e.pleg}, sequence
	o.BeforeRemove, o.Probes = e.journal.BeforeRemove, probeSource{e}
	o.Clock, o.Logger, o.Events, o.Meter = c.Clock, c.Observe.Logger.WithName("pods"), c.Observe.Events, meter
	return o
}

// buildSyncer makes what carries out the steps of pods.
func (e *parts) buildSyncer(calls *podsync.Calls) {
	c := e.config
	e.syncer = podsync.New(e.pods, e.pleg, e.status, podsync.Options{
		Calls: calls, Content: e.pods, Probes: e.probes, Mirrors: wantedMirrors{e},
		Records:      recovery.Records{Journal: e.journal, ProbeMemory: e.probeMemory},
		Allocations:  node.Grants{Allocations: e.allocations, Resizer: e.resizer},
		Admission:    podsync.Admission{Handlers: c.Admission.Soft, Others: e.occupants.Others, Refused: e.gate.RefuseLate},
		Network:      e.health.Network,
		Removable:    func(uid types.UID) bool { return e.loop.Ready() && e.workers.ShouldPodContentBeRemoved(uid) },
		AwaitRemoval: e.cgroupRemover.Await,
		Wake:         e.wake,
		NodeIPs:      c.Node.IPs, Clock: c.Clock, Events: c.Observe.Events,
		Hooks: podsync.Hooks{
			Syncing: e.exits.Entered,
			Changed: func(types.UID) { e.resizer.PodChanged() },
			// A pass now marks a pod that no source wants as deleted while its containers
			// still stop, so that its remains can go right after.
			Terminating: func(uid types.UID) { e.exits.Dropped(uid); e.tidy() },
			Released:    e.ended,
		},
	})
}

// buildStatus makes the status manager.
func (e *parts) buildStatus(meter metric.Meter) {
	c, o := e.config, e.config.Status
	o.Sinks, o.Clock, o.Logger, o.Meter = c.Observe.Sinks, c.Clock, c.Observe.Logger.WithName("status"), meter
	o.Journal, o.Mirrors = e.journal, mirrored{e}
	o.CouldHaveRunningContainers = func(uid types.UID) bool {
		return e.ends().CouldRun(uid, e.workers.CouldHaveRunningContainers, e.journal)
	}
	e.status = status.NewManager(o)
}

// buildLoop makes the loop and the housekeeper, which need each other.
func (e *parts) buildLoop(meter func(string) metric.Meter) error {
	c := e.config
	if err := e.buildEviction(meter("cleanup/eviction")); err != nil {
		return err
	}
	var err error
	o := c.Loop
	o.Sources, o.Changes, o.Housekeeper = e.sources(), changes{e.changes, e.exits, e.noticed, e.dead.Died}, housekeeping{e}
	o.Gate, o.Admission, o.Observed, o.Evicted = e.open, e.preemption, e.observed, e.dead.Evicted
	o.Recorder, o.Clock, o.Logger, o.Meter = c.Observe.Events, c.Clock, c.Observe.Logger.WithName("loop"), meter("syncloop")
	if e.loop, err = syncloop.New(dispatcher{e.workers, e.recovery.Complete}.Dispatch, o); err != nil {
		return err
	}
	known := &inventory.Inventory{
		Pods: inventory.Pods{Workers: e.workers, Memory: e.recovery, Clock: c.Clock}, Reader: e.pleg,
		LastPlan: func() cleanup.Plan { return e.housekeeper.LastPlan() },
	}
	h := c.Cleanup
	h.SourcesReady, h.Undecided, h.Gate, h.Withheld, h.Again = e.loop.Ready, e.loop.Undecided, e.usable, e.occupants.Kept, e.tidy
	h.Statuses, h.CleanupProbes, h.Content = statuses{e.status, e.pruner()}, e.probes.CleanupPods, contents{e.pods}
	h.Collector = e.dead
	h.Cgroups, h.UserRanges, h.PruneBackOffs, h.Mirrors, h.Rule = e.podCgroups(), e.pods, e.pods.PruneBackOffs, orphanedMirrors{e}, pods.RemovalRule
	h.Clock, h.Logger, h.Meter = c.Clock, c.Observe.Logger.WithName("cleanup"), meter("cleanup")
	e.housekeeper, err = cleanup.New(e.loop.Store(), known, known, h)
	return err
}

// buildJournal makes what writes down what must survive the agent.
func (e *parts) buildJournal(meter metric.Meter) {
	c := e.config
	o := c.Checkpoints
	o.Meter = meter
	e.journal = recovery.NewJournal(recovery.JournalOptions{
		Checkpoints: o, BootID: c.Node.BootID, End: func(ctx context.Context, uid types.UID, id runtime.ContainerID) (*runtime.ContainerStatus, error) {
			return e.ends().Of(ctx, uid, id)
		}, Written: e.recordWritten,
		Clock: c.Clock, Logger: c.Observe.Logger.WithName("checkpoint"),
	})
	e.probeMemory = recovery.NewProbeMemory(e.journal)
}

// buildRecovery makes what takes the engine from its start to its first pod.
func (e *parts) buildRecovery() {
	c := e.config
	e.recovery = recovery.New(recovery.Options{
		Journal: e.journal, Runtime: knownRuntime{e.pleg}, Statuses: e.status, Probes: e.probes,
		NodeName: c.Node.Name, Events: c.Observe.Events, Opened: func() { e.loop.GateChanged(); e.tidy() },
		Clock: c.Clock, Logger: c.Observe.Logger,
	})
}

// pruner makes what removes records that are of no more use.
func (e *parts) pruner() *recovery.Pruner {
	return recovery.NewPruner(recovery.PrunerOptions{
		Journal: e.journal, Desired: e.loop.Store(), Workers: e.workers, Undecided: e.loop.Undecided,
		View: e.pleg.Get, TellEnd: e.syncer.PublishEnd, Forget: e.status.RemoveOrphanedStatuses, Sinks: e.status.Sinks(),
		Clock: e.config.Clock, Logger: e.config.Observe.Logger,
	})
}

// buildProbes makes the probe manager. It needs the parts built before it.
func (e *parts) buildProbes(meter metric.Meter) error {
	o := e.config.Probes
	o.Pods, o.Runtime, o.Memory, o.OnResult = probedPods{e}, e.config.Runtime, e.probeMemory, e.probed
	o.Events, o.Clock = e.config.Observe.Events, e.config.Clock
	o.Logger, o.Meter = e.config.Observe.Logger.WithName("probe"), meter
	var err error
	e.probes, err = probe.New(o)
	return err
}

// buildMirrors makes what keeps mirror pods.
func (e *parts) buildMirrors() (err error) {
	o := e.config.Mirrors
	o.Clock, o.Logger = e.config.Clock, e.config.Observe.Logger.WithName("mirror")
	e.mirrors, err = mirror.New(o)
	return err
}

// buildAdmission makes what judges pods.
func (e *parts) buildAdmission(meter metric.Meter) (err error) {
	a := e.config.Admission
	kernel := node.KernelRelease()
	own := []admission.Handler{
		admission.Shutdown(e.shutdown.Active, nil),
		e.evictions,
		admission.Sysctls(func(pod *v1.Pod) error { return pods.CheckSysctls(pod, a.AllowedSysctls, kernel) }),
		admission.HostPorts(),
	}
	room := []admission.Handler{admission.PodCount(a.MaxPods)}
	if a.FitResources {
		room = append(room, admission.Resources(func() v1.ResourceList { return e.allocatable }))
	}
	verdicts := e.recovery.Verdicts(e.shutdown.Active)
	e.occupants = &node.Occupants{
		Residents: e.residents, Refused: e.journal.Refused, Granted: e.allocations.Allocated,
		Verdict: func(uid types.UID) (bool, error) { _, known, err := verdicts.Verdict(uid); return known, err },
	}
	e.gate, err = admission.NewGate(admission.Options{
		Handlers: slices.Concat(own, room, a.Handlers), Verdicts: verdicts, Exempt: e.occupants.Ending, Active: e.occupants.Active, Rejected: e.rejected,
		Recorder: e.config.Observe.Events, Logger: e.config.Observe.Logger.WithName("admission"), Meter: meter,
	})
	if err != nil {
		return err
	}
	e.preemption = node.NewPreemption(node.PreemptionOptions{
		Gate: e.gate, Others: slices.Concat(own, a.Handlers), Node: e.room(), Places: e.occupants, Residents: e.residents,
		Update:   func(u podworkers.UpdateOptions) { e.workers.UpdatePod(u) },
		Critical: e.critical, Usable: e.usable, Events: e.config.Observe.Events, Logger: e.config.Observe.Logger,
	})
	if i := slices.Index(a.Soft, nil); i >= 0 {
		return fmt.Errorf("Admission.Soft[%d] is nil", i)
	}
	return nil
}

// buildSetupGates makes what stands between the sources and the setup of a pod.
func (e *parts) buildSetupGates(meter func(room string) metric.Meter) error {
	if err := e.buildMirrors(); err != nil {
		return err
	}
	return e.buildAdmission(meter("syncloop/admission"))
}
