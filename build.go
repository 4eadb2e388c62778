package podwright

import (
	"errors"
	"path/filepath"
	"slices"

	"github.com/go-logr/logr"
	"go.opentelemetry.io/otel/metric"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/cleanup"
	"github.com/podwright/podwright/internal/dirlock"
	"github.com/podwright/podwright/internal/foreign"
	"github.com/podwright/podwright/internal/inventory"
	"github.com/podwright/podwright/internal/latency"
	"github.com/podwright/podwright/internal/node"
	"github.com/podwright/podwright/internal/oomkills"
	"github.com/podwright/podwright/internal/podinfo"
	"github.com/podwright/podwright/internal/problem"
	"github.com/podwright/podwright/internal/recovery"
	"github.com/podwright/podwright/internal/tracing"
	"github.com/podwright/podwright/pleg"
	"github.com/podwright/podwright/podworkers"
	"github.com/podwright/podwright/podworkers/podsync"
	"github.com/podwright/podwright/probe"
	"github.com/podwright/podwright/runtime"
	"github.com/podwright/podwright/runtime/cri"
	"github.com/podwright/podwright/runtime/pods"
	"github.com/podwright/podwright/runtime/pods/containerlog"
	"github.com/podwright/podwright/status"
	"github.com/podwright/podwright/syncloop"
	"github.com/podwright/podwright/syncloop/admission"
	"github.com/podwright/podwright/syncloop/mirror"
)

// build makes the parts and ties them together, each after those it needs. Parts know each
// other only through the small interfaces that each declares; joints.go has the adapters.
// The error joins the problems of all parts.
func (p *parts) build() error {
	p.foreign = foreign.New(p.config.Clock).LogTo(p.logger("calls"))
	p.events = &node.Events{Recorder: p.config.Observe.Events, Clock: p.config.Clock, Logger: p.logger("events")}
	if _, discarded := p.config.Observe.Events.(podinfo.DiscardEvents); !discarded {
		p.config.Observe.Events = p.events
	}
	var problems []error
	for _, step := range []func() error{
		p.buildReading, p.buildResizer, p.buildJournal, p.buildPods, p.buildRemovers, p.buildStatus, p.buildNode,
		p.buildProbes, p.buildRecovery, p.buildMirrors, p.buildAdmission, p.buildWorkers, p.buildEviction, p.buildLoop, p.buildHousekeeper,
	} {
		problems = append(problems, step())
	}
	p.tie()
	return errors.Join(problems...)
}

// tie completes the parts that need later ones.
func (p *parts) tie() {
	store := p.loop.Store()
	*p.residents = node.Residents{
		Desired: store, Statuses: p.status, Lives: p.workers, Stopping: p.syncer.Stopping, Heard: p.loop.Ready, MaybeWanted: p.housekeeper.MaybeWanted,
		Ending: p.journal.Ending, Holding: p.journal.Holding, Open: p.loop.OpenVerdict, Queue: p.loop.OpenVerdicts, Allocated: p.allocations.Allocated,
	}
	*p.wakes = node.Wakes{Residents: p.residents, Update: func(u podworkers.UpdateOptions) { p.workers.UpdatePod(u) }, Refresh: p.pods.Refresh, Clock: p.config.Clock}
	p.shown = &node.Shown{Residents: p.residents, Pulling: p.pods.Pulling, Translate: store.TranslateUID}
	*p.probed = node.Probed{Statuses: p.status, Desired: store, Stopping: p.syncer.StoppingPod, Views: p.pleg, Addresses: p.self.Addresses, Remember: p.probeMemory.Wait, Wake: p.wakes.Wake}
	p.onePod = &node.OnePod{Evictions: p.evictions, Find: p.shown.Get, Critical: p.users().Spared(p.config.Eviction.critical()), Events: p.config.Observe.Events, Logger: p.logger("eviction")}
	p.restarts.Residents, p.restarts.Find, p.restarts.View, p.restarts.Wake = p.residents, p.shown.Get, p.pleg.Get, p.wakes.Wake
	dir := p.config.Storage.LogDir
	p.logs = &node.Logs{Pod: p.shown.Get, View: p.pleg.Get, Dir: dir, Reader: containerlog.New(dir, p.config.Clock)}
	p.streams = node.NewStreams(p.config.Runtime, p.shown.Get, p.pleg.Get)
	p.occupants.Terminated, p.occupants.Withheld, p.occupants.Held = p.workers.IsPodKnownTerminated, p.loop.Withheld, p.loop.Holds
	p.dead.Desired, p.dead.Heard, p.dead.Removals = store, p.loop.Ready, p.workers
	p.dead.MaybeWanted, p.dead.Permit, p.images.Permit = p.housekeeper.MaybeWanted, p.housekeeper.Permit, p.housekeeper.Permit
	p.shutdown.Stopper, p.shutdown.Start = p.workers, p.recovery
	p.shutdown.Runtime = node.Lister{Runtime: cri.NewView(p.config.Runtime, cri.ViewOptions{OwnerID: p.config.Node.OwnerID, Clock: p.config.Clock}), Hidden: p.pleg}
	*p.mirrored = node.Mirrored{Store: store, Statuses: p.status, Lived: p.journal.Lived}
	p.problems = &node.Problems{
		Clock: p.config.Clock, Logger: p.logger("problems"), Meter: p.config.Observe.MeterProvider.Meter("github.com/podwright/podwright"),
		Parts: []func() []problem.Problem{
			p.health.Problems, p.pleg.Problems, p.recovery.Problems, p.journal.Problems, p.loop.Problems, p.workers.Problems,
			p.syncer.Problems, p.pods.Problems, p.evictions.Problems,
			p.status.Problems, p.probes.Problems, p.events.Problems, p.foreign.Problems, p.housekeeper.Problems, p.objects.Problems, p.images.Problems,
		},
	}
}

// users calls functions of the Config.
func (p *parts) users() node.Users {
	return node.Users{Calls: p.foreign, Clock: p.config.Clock, Hold: p.hold}
}

// meter makes the meter of a part.
func (p *parts) meter(room string) metric.Meter {
	return p.config.Observe.MeterProvider.Meter("github.com/podwright/podwright/" + room)
}

// logger makes the logger of a part.
func (p *parts) logger(name string) logr.Logger { return p.config.Observe.Logger.WithName(name) }

// buildReading makes the parts that read the runtime, measure how soon an exit is seen, and count OOM kills.
func (p *parts) buildReading() error {
	c, o := p.config, p.config.PLEG
	p.sequence = &runtime.Sequence{}
	o.View = cri.NewView(c.Runtime, cri.ViewOptions{OwnerID: c.Node.OwnerID, Sequence: p.sequence, Clock: c.Clock})
	o.Streamer, _ = c.Runtime.(cri.EventStreamer)
	o.Sequence, o.Clock, o.Recorder, o.Logger, o.Meter = p.sequence, c.Clock, c.Observe.Events, p.logger("pleg"), p.meter("pleg")
	var err error
	if p.pleg, err = pleg.New(c.Runtime, o); err != nil {
		p.pleg, _ = pleg.New(c.Runtime, pleg.Options{}) // the other parts are checked too
	}
	p.changes = p.pleg.Subscribe()
	var metricsErr error
	p.exits, metricsErr = latency.New(c.Observe.MeterProvider.Meter("github.com/podwright/podwright"), c.Clock, p.pleg.Get)
	var killsErr error
	p.kills, killsErr = oomkills.New(oomkills.Options{
		View: p.pleg.Get, Read: p.pleg.SyncedC(), Pods: func() []types.UID { return p.pleg.ChangedSince(0).UIDs }, Pod: func(uid types.UID) *v1.Pod { return p.residents.Get(uid) },
		Stopping: func(uid types.UID) bool { _, stopping := p.syncer.StoppingPod(uid); return stopping },
		Clock:    c.Clock, Events: c.Observe.Events, Meter: c.Observe.MeterProvider.Meter("github.com/podwright/podwright"), Logger: p.logger("oom"),
	})
	return errors.Join(err, metricsErr, killsErr)
}

// buildJournal makes the part that records what must survive the agent.
func (p *parts) buildJournal() error {
	o := p.config.Checkpoints
	o.Meter = p.meter("status/checkpoint")
	p.journal = recovery.NewJournal(recovery.JournalOptions{
		Checkpoints: o, BootID: p.config.Node.BootID, StandInAfter: p.config.Storage.StandInAfter, End: p.endOf, Written: p.recordWritten,
		Renewed: func(uid types.UID) { p.status.Forget(uid) },
		Admitted: node.Overheads{
			Classes: p.users().RuntimeClasses(p.config.Pods.RuntimeClasses),
			Known:   func(uid types.UID) *v1.Pod { pod, _ := p.journal.Owner(uid); return pod },
		}.Fill,
		Clock: p.config.Clock, Logger: p.logger("checkpoint"),
	})
	p.probeMemory = recovery.NewProbeMemory(p.journal)
	p.restarts = &node.Restarts{
		Journal: p.journal, Stopped: p.stopped, ErrStopped: ErrNotRunning, Events: p.config.Observe.Events, Logger: p.logger("restarts"),
	}
	return nil
}

// buildPods makes the part that turns pods into containers.
func (p *parts) buildPods() error {
	p.traces = tracing.New(tracing.Options{
		Provider: p.config.Observe.TracerProvider, Clock: p.config.Clock,
		Status:  func(uid types.UID) (v1.PodStatus, bool) { return p.status.Get(uid) },
		Explain: func(uid types.UID) (podworkers.Explanation, bool) { return p.workers.Explain(uid) },
	})
	p.calls = podsync.NewCalls(p.exits.Runtime(p.traces.Runtime(node.WatchRuntime(p.config.Runtime, p.foreign))), podsync.CallOptions{
		Cache: p.pleg, BeforeStart: p.journal.Starting, Clock: p.config.Clock,
	})
	o := p.podOptions()
	var err error
	if p.pods, err = pods.New(p.calls, p.traces.Images(node.WatchImages(p.config.Images, p.foreign)), o); err != nil {
		p.pods, _ = pods.New(p.calls, p.config.Images, pods.Options{RootDir: o.RootDir, LogDir: o.LogDir}) // the other parts are checked too
	}
	return err
}

// podOptions completes the options of the part that turns pods into containers.
func (p *parts) podOptions() pods.Options {
	c, o := p.config, p.config.Pods
	p.objects = &node.Objects{Getter: o.Objects, Changed: p.wakes.ObjectChanged, Calls: p.foreign, Clock: c.Clock, Logger: p.logger("objects")}
	u := p.users()
	o.Volumes, o.Objects, o.Services = u.Volumes(o.Volumes), u.Objects(o.Objects), u.Services(o.Services)
	o.Projections, o.Grants, o.ImagePull.Credentials = u.Projections(o.Projections), u.Grants(o.Grants), u.ImageCredentials(o.ImagePull.Credentials)
	o.RuntimeClasses, o.SandboxReady = u.RuntimeClasses(o.RuntimeClasses), u.SandboxReady(func(uid types.UID) { p.status.SetSandboxReady(uid) }, o.SandboxReady)
	o.RootDir, o.LogDir, o.LinkDir = c.RootDir, c.Storage.LogDir, c.Storage.LogLinkDir
	o.OwnerID, o.NodeName, o.HostIPs = c.Node.OwnerID, c.Node.Name, p.self.Addresses
	o.ClusterDNS, o.ClusterDomain = c.Node.ClusterDNS, c.Node.ClusterDomain
	o.Allocations, o.Allocatable = p.allocations, p.self.Allocatable
	o.Reader, o.Hidden, o.Sequence, o.Outbound = p.calls, p.pleg.AddHidden, p.sequence, c.Outbound
	o.Restarts, o.RecordRestarts = p.restarts.Asked, p.journal.ReplaceOwn
	o.Gone = node.WorkerViews{Generator: p.pleg}.Gone
	o.BeforeRemove, o.NextRun, o.Probes = p.journal.BeforeRemove, p.journal.NextRun, node.ProbeResults(func(kind probe.Kind, id runtime.ContainerID) (probe.Result, bool) { return p.probes.Result(kind, id) })
	o.Clock, o.Logger, o.Events, o.Meter = c.Clock, p.logger("pods"), c.Observe.Events, p.meter("runtime/pods")
	return o
}

// buildStatus makes the status manager.
func (p *parts) buildStatus() error {
	c, o := p.config, p.config.Status
	p.mirrored = &node.Mirrored{}
	o.Sinks, o.Clock, o.Logger, o.Meter = c.Observe.Sinks, c.Clock, p.logger("status"), p.meter("status")
	o.Journal, o.CouldHaveRunningContainers, o.Mirrors = p.journal, p.couldRun, p.mirrored
	p.status = status.NewManager(o)
	return nil
}

// buildProbes makes the probe manager.
func (p *parts) buildProbes() (err error) {
	c, o := p.config, p.config.Probes
	p.probed = &node.Probed{}
	o.Pods, o.Runtime, o.Memory, o.OnResult, o.Outbound = p.probed, c.Runtime, p.probeMemory, p.probed.Announce, c.Outbound
	o.Events, o.EveryEvent, o.Clock, o.Logger, o.Meter = c.Observe.Events, c.Pods.EveryEvent, c.Clock, p.logger("probe"), p.meter("probe")
	p.probes, err = probe.New(o)
	return err
}

// buildRecovery makes the part that takes the engine from its start to its first pod.
func (p *parts) buildRecovery() error {
	c := p.config
	p.recovery = recovery.New(recovery.Options{
		Journal: p.journal, Runtime: node.KnownViews{Generator: p.pleg}, Statuses: p.status, Probes: p.probes,
		NodeName: c.Node.Name, Events: c.Observe.Events, Opened: func() { p.gateChanged(); p.tidy() },
		Rival: func(dir string) error { return dirlock.Rival(dir, c.RootDir, c.Node.OwnerID) },
		Clock: c.Clock, Logger: c.Observe.Logger,
	})
	return nil
}

// buildMirrors makes the part that maintains mirror pods.
func (p *parts) buildMirrors() (err error) {
	o := p.config.Mirrors
	o.Client, o.Node = p.users().MirrorClient(o.Client), p.users().NodeGetter(o.Node)
	o.Clock, o.Logger = p.config.Clock, p.logger("mirror")
	p.mirrors, err = mirror.New(o)
	return err
}

// buildAdmission makes the part that admits or refuses pods.
func (p *parts) buildAdmission() (err error) {
	a := p.config.Admission
	kernel := node.KernelRelease()
	handlers := p.users().Handlers(a.Handlers, func(uid types.UID) { p.loop.Answered(uid) })
	ports := admission.HostPorts()
	matching := node.Matching{
		Self: p.self, Machine: p.config.Pods.Machine, Health: p.health,
		HTTP2: p.config.Probes.HTTP2, GRPCTLS: p.config.Probes.GRPCTLS, Events: p.config.Observe.Events,
	}
	policies, problem := admission.BySource(a.Sources)
	policies = policies.Counting(p.residents.Departing).InOrder(p.residents.Ahead)
	p.policies = policies
	p.uids = recovery.NewOwnUIDs(filepath.Join(p.config.RootDir, "state", "uid-key"), policies.OwnUIDs)
	p.review = admission.Reviews(append([]admission.Handler{policies}, a.Handlers...)...)
	own := slices.Concat([]admission.Handler{policies, admission.Shutdown(p.shutdown.Active, nil), p.evictions}, matching.Handlers(), []admission.Handler{
		admission.Sysctls(func(pod *v1.Pod) error { return pods.CheckSysctls(pod, a.AllowedSysctls, kernel) }), ports,
	})
	room := p.self.RoomHandlers(a.MaxPods, a.FitResources)
	verdicts := p.recovery.Verdicts(p.shutdown.Active)
	p.occupants = &node.Occupants{
		Residents: p.residents, Refused: p.journal.Refused, Began: p.journal.Began, Granted: p.allocations.Granted,
		Verdict: func(pod *v1.Pod) (bool, error) { _, known, err := verdicts.Verdict(pod); return known, err },
	}
	p.gate, err = admission.NewGate(admission.Options{
		Handlers: slices.Concat(own, room, handlers, []admission.Handler{matching.Warning()}), Verdicts: verdicts, Active: p.occupants.Active, Rejected: p.rejected,
		Recorder: p.config.Observe.Events, Logger: p.logger("admission"), Meter: p.meter("syncloop/admission"),
	})
	p.preemption = node.NewPreemption(node.PreemptionOptions{
		Gate: p.gate, Others: slices.Concat(own, handlers), Room: append(slices.Clone(room), ports, policies), Node: p.self.Room(a.MaxPods, a.FitResources), Places: p.occupants, Residents: p.residents, Admitted: p.resizer.Admitted,
		Update:   func(u podworkers.UpdateOptions) { p.workers.UpdatePod(u) },
		Critical: p.users().Critical(p.config.Eviction.critical()), Usable: p.usable, Clock: p.config.Clock, Events: p.config.Observe.Events, Logger: p.config.Observe.Logger,
	})
	p.buildReturns()
	return errors.Join(problem, err, node.CheckHandlers(a.Handlers, a.Soft))
}

// buildWorkers makes the workers, and the syncer that carries out the steps of their pods.
func (p *parts) buildWorkers() error {
	c := p.config
	p.syncer = podsync.New(p.pods, p.pleg, p.status, podsync.Options{
		Calls: p.calls, Content: p.pods, Probes: p.probes, Mirrors: node.WantedMirrors{Mirrors: p.mirrors, Of: func(static *v1.Pod) *v1.Pod { return p.loop.Store().MirrorOf(static) }},
		Records:     recovery.Records{Journal: p.journal, ProbeMemory: p.probeMemory},
		Restarts:    p.restarts,
		Allocations: node.Grants{Allocations: p.allocations, Resizer: p.resizer},
		Admission:   podsync.Admission{Handlers: p.users().SoftHandlers(c.Admission.Soft, p.wakes.Wake), Others: p.occupants.Others, Refused: p.gate.RefuseLate},
		Gate:        p.open,
		Network:     p.health.Network,
		Removable:   p.removable,
		Wake:        p.wakes.Wake,
		NodeIPs:     p.self.Addresses, Clock: c.Clock, Events: c.Observe.Events,
		Hooks: podsync.Hooks{
			Syncing: p.exits.Entered,
			Changed: func(types.UID) { p.resizer.PodChanged() },
			// A pass at this moment marks a pod that no source wants as deleted while its
			// containers still stop, so that its leftovers can be removed right after.
			Terminating: func(uid types.UID) { p.exits.Dropped(uid); p.restarts.Ended(uid); p.tidy() },
			Terminated:  func(types.UID) { p.loop.GateChanged() }, // its room is free (IN6)
			Released:    p.ended,
		},
	})
	o := c.Workers
	o.Views, o.SourcesReady, o.Journal = node.WorkerViews{Generator: p.pleg}, func() bool { return p.loop.ReadyExcept(syncloop.SourceAPI) }, p.journal
	o.KillOrphan, o.Doing = p.recovery.KillOrphan, p.pods.Doing
	o.Spared = node.Namesakes{Owner: p.journal.Owner, Sources: func() []syncloop.SourceStatus { return p.loop.Sources() }, MaybeWanted: func(uid types.UID) cleanup.Denial { return p.housekeeper.MaybeWanted(uid) }}.Spared
	o.Clock, o.Logger, o.Events, o.Meter = c.Clock, p.logger("workers"), c.Observe.Events, p.meter("podworkers")
	p.workers = podworkers.New(p.traces.Syncer(p.syncer), o)
	return nil
}

// buildLoop makes the loop.
func (p *parts) buildLoop() error {
	c, o := p.config, p.config.Loop
	sources, problem := p.sources()
	o.Sources, o.Changes, o.Housekeeper = sources, node.Changes{Subscription: p.changes, Exits: p.exits, Seen: p.kills.Noticed, Noticed: p.noticed, Died: p.dead.Died}, housekeeping(p.housekeep)
	o.Gate, o.Admission, o.Observed, o.Evicted = p.open, p.returns, p.observed, p.dead.Evicted
	o.Review, o.Owner, o.Lower, o.Admitted = p.review, p.journal.Owner, p.journal.Lowering(p.policies.Lower), p.journal.Continues
	o.Recorder, o.Clock, o.Logger, o.Meter = c.Observe.Events, c.Clock, p.logger("loop"), p.meter("syncloop")
	p.dispatch = node.Dispatcher{Workers: p.workers, Complete: p.recovery.Complete, Delivered: p.journal.Delivered}.Dispatch
	var err error
	if p.loop, err = syncloop.New(p.dispatch, o); err != nil {
		p.loop, _ = syncloop.New(p.dispatch, syncloop.Options{}) // the housekeeper is checked too
	}
	return errors.Join(problem, err)
}

// buildHousekeeper makes the housekeeper.
func (p *parts) buildHousekeeper() (err error) {
	c, o := p.config, p.config.Cleanup
	known := &inventory.Inventory{
		Pods: inventory.Pods{Workers: p.workers, Memory: p.recovery, Judged: p.occupants.Judged, Readmit: p.loop.Readmit, Clock: c.Clock}, Reader: p.pleg,
		LastPlan: func() cleanup.Plan { return p.housekeeper.LastPlan() },
	}
	o.SourcesReady, o.Undecided, o.Gate, o.Withheld, o.Again = p.loop.Ready, p.loop.Undecided, p.open, p.occupants.Kept, p.tidy
	o.Dropped, o.Veto = p.journal.Dropped, p.users().Veto(o.Veto, p.tidy)
	o.Statuses, o.CleanupProbes, o.Content = statuses{p.status, p.pruner()}, p.probes.CleanupPods, node.Contents{Manager: p.pods}
	o.Collector, o.Hold = p.dead, p.workers.Hold
	o.Cgroups, o.UserRanges, o.PruneBackOffs, o.Mirrors, o.Rule = node.PodCgroupsOf(c.Pods.Cgroups, p.pods), p.pods, p.pods.PruneBackOffs, node.OrphanedMirrors{
		Mirrored: p.mirrored, Terminating: p.workers.IsPodForMirrorPodTerminatingByFullName, Delete: p.mirrors.Orphaned,
	}, pods.RemovalRule
	o.Clock, o.Logger, o.Meter = c.Clock, p.logger("cleanup"), p.meter("cleanup")
	p.housekeeper, err = cleanup.New(p.loop.Store(), known, known, o)
	return err
}

// pruner makes the part that removes records that are no longer needed.
func (p *parts) pruner() *recovery.Pruner {
	return recovery.NewPruner(recovery.PrunerOptions{
		Journal: p.journal, Desired: p.loop.Store(), Workers: p.workers, Undecided: p.loop.Undecided,
		View: p.pleg.Get, TellEnd: p.syncer.PublishEnd, Forget: p.status.RemoveOrphanedStatuses, Untold: p.status.Untold, Sinks: p.status.Sinks(),
		Clock: p.config.Clock, Logger: p.config.Observe.Logger,
	})
}
