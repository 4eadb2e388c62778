package podwright

import (
	"errors"
	"fmt"
	"path/filepath"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/cleanup/eviction"
	"github.com/podwright/podwright/cleanup/imagegc"
	"github.com/podwright/podwright/internal/node"
	"github.com/podwright/podwright/runtime/pods"
	"github.com/podwright/podwright/syncloop"
)

// buildResizer makes the part that grants pods their resources and retries deferred resizes.
func (p *parts) buildResizer() (err error) {
	c := p.config
	p.residents, p.wakes = &node.Residents{}, &node.Wakes{}
	p.self = node.NewSelf(node.SelfOptions{
		Name: c.Node.Name, IPs: c.Node.IPs, Allocatable: c.Node.Allocatable, Labels: c.Node.Labels, Machine: c.Pods.Machine,
		Addresses: c.Node.Addresses, AllocatableNow: c.Node.AllocatableNow, Object: c.Node.Object,
		Calls: p.foreign, Clock: c.Clock, Logger: p.logger("node"),
	})
	o := c.Resizes
	o.Store = pods.ResourceFiles{Dir: filepath.Join(c.RootDir, "state", "resources")}
	o.Allocatable, o.NoUpdate, o.Active, o.Wake = p.self.Allocatable, c.Pods.Updater == nil, p.residents.Active, p.wakes.Wake
	o.Clock, o.Events, o.Swap = c.Clock, c.Observe.Events, o.Swap || c.Pods.LimitedSwap
	p.allocations, err = pods.NewAllocations(o)
	levels, _ := c.Pods.Cgroups.(node.CgroupLevels)
	p.resizer = node.NewResizer(node.ResizerOptions{
		Allocations: p.allocations, Levels: levels, Active: p.residents.Active, Orphaned: p.residents.Orphaned,
		Reserve: c.Pods.MemoryQoS.Enabled && c.Pods.MemoryQoS.TieredReservation,
		Records: func() node.Admissions { return p.journal },
		Clock:   c.Clock, Logger: c.Observe.Logger,
	})
	return err
}

// buildRemovers makes the parts that bound the number of logs, dead containers, cgroups and images.
func (p *parts) buildRemovers() (err error) {
	c := p.config
	keep := c.Storage.DeadContainers
	p.dead = &node.DeadContainers{
		Collector: p.pods, Views: p.pleg, Keep: node.Keep{PerName: keep.PerName, Total: keep.Total, MinAge: keep.MinAge},
		Records: node.NewPullRecords(p.pods.PruneImageRecords, c.Clock), Clock: c.Clock,
	}
	p.reaper = p.pods.NewReaper(pods.ReaperOptions{
		Keep: keep.PerName, MinAge: keep.MinAge, Hold: p.hold,
		ContentShouldBeRemoved: func(uid types.UID) bool { // until it has finished, its own last step removes all
			return p.workers.ShouldPodBeFinished(uid) && p.dead.ContentGoes(uid)
		},
	})
	p.dead.Reaper = p.reaper
	if p.rotator, err = p.pods.NewLogRotator(c.Storage.LogRotation, p.dead.Running); err != nil {
		err = fmt.Errorf("LogRotation: %w", err)
	}
	return errors.Join(err, p.buildImages())
}

// buildImages makes the part that tracks images and, if configured, removes them.
func (p *parts) buildImages() error {
	c := p.config
	p.images = &node.Images{Runtime: node.WatchRuntime(c.Runtime, p.foreign), Calls: p.foreign, Pods: p.residents.Everywhere, Views: p.pleg, Remembered: p.hidden}
	p.images.Fs, _ = c.Images.(imagegc.ImageFs)
	if c.ImageGC == nil {
		return nil
	}
	p.images.Path, p.images.Kept = c.ImageGC.Dir, c.ImageGC.Keep
	return p.images.Collect(imagegc.Options{
		Store: node.WatchImages(c.Images, p.foreign), Containers: node.WatchRuntime(c.Runtime, p.foreign), Policy: c.ImageGC.Policy, Period: c.ImageGC.Period,
		Left: p.dead.Records.ImagesLeft(c.Observe.Logger), NodeName: c.Node.Name, Recorder: c.Observe.Events,
		Clock: c.Clock, Logger: p.logger("images"), Meter: p.meter("cleanup/imagegc"),
	})
}

// hidden returns the remembered pods that sources may want but have not named.
func (p *parts) hidden() []*v1.Pod {
	if !p.loop.Ready() {
		return p.journal.Hidden(func(types.UID) bool { return true })
	}
	if p.loop.Undecided() == nil {
		return nil
	}
	return p.journal.Hidden(func(uid types.UID) bool { return !p.housekeeper.MaybeWanted(uid).IsZero() })
}

// buildNode makes the parts that know the state of the node, report it, and shut it down.
func (p *parts) buildNode() error {
	c := p.config
	p.health = node.NewHealth(node.HealthOptions{Runtime: node.WatchRuntime(c.Runtime, p.foreign), Calls: p.foreign, Clock: c.Clock, Changed: p.healthChanged, Logger: c.Observe.Logger})
	p.shutdown = &node.Shutdown{
		File: filepath.Join(c.RootDir, "state", "shutdown.json"), Residents: p.residents,
		Statuses: p.status, RemovePod: p.pods.RemovePod,
		Acknowledged: func(uid types.UID) bool { return p.journal.AcknowledgedBy(uid, p.status.Sinks()) },
		Changed:      p.shutdownChanged, Stopped: p.stopped, ErrStopped: ErrNotRunning, Clock: c.Clock, Logger: c.Observe.Logger,
	}
	p.evictions = &node.Evictions{}
	p.state = node.State{Health: p.health, ShuttingDown: p.shutdown.Active, Pressure: p.evictions.Conditions, Clock: c.Clock}
	p.hooks = node.NewHooks(node.HookOptions{
		Hooks: c.NodeHooks, RuntimeWell: p.health.WellOnce(), State: p.state, Clock: c.Clock, Logger: c.Observe.Logger,
		Calls: p.foreign,
	})
	return nil
}

// buildEviction makes the part that evicts pods, if configured.
func (p *parts) buildEviction() error {
	c := p.config
	*p.evictions = node.Evictions{
		Residents: p.residents, Killer: p.workers, Disk: p.pods, Views: p.pleg, Dead: p.dead, Images: p.images,
		Usage: c.Pods.Stats, Cgroups: c.Pods.Cgroups,
	}
	o := eviction.Options{
		NodeName: c.Node.Name, Recorder: c.Observe.Events, Clock: c.Clock, Logger: p.logger("eviction"), Meter: p.meter("cleanup/eviction"),
	}
	if c.Eviction == nil {
		return p.evictions.WatchPods(o)
	}
	machine := eviction.LinuxStatsOptions{Cgroup: c.Eviction.Cgroup, NodeFs: c.RootDir}
	switch {
	case c.Eviction.ImageFs != "":
		machine.ImageFs = (&node.Images{Path: c.Eviction.ImageFs}).Dir
	case c.ImageGC != nil || p.images.Fs != nil:
		machine.ImageFs = p.images.Dir
	}
	err := p.evictions.Watch(eviction.Options{
		Critical: p.users().Spared(c.Eviction.Critical), Changed: func() { p.hooks.Changed(); p.returns.Changed() }, Policy: c.Eviction.Policy,
		NodeName: c.Node.Name, Recorder: c.Observe.Events, Clock: c.Clock, Logger: p.logger("eviction"), Meter: p.meter("cleanup/eviction"),
	}, p.users().Stats(c.Eviction.Stats), machine)
	if err != nil {
		return fmt.Errorf("Eviction: %w", err)
	}
	return nil
}

// buildReturns makes the part that starts static pods again for which the node had no room.
func (p *parts) buildReturns() {
	c := p.config
	o := node.ReturnOptions{
		Judge: p.preemption, Pressure: p.evictions, Past: p.journal.Past, Residents: p.residents, Others: p.occupants.Others,
		Open: func() []syncloop.OpenVerdict { return p.loop.OpenVerdicts() },
		Gate: p.open, Readmit: func(uid types.UID) { p.loop.Readmit(uid) },
		Renew:  func(uid types.UID) { p.status.Forget(uid); p.journal.Renew(uid) },
		Forget: func(uid types.UID) bool { return p.workers.Forget(uid) },
		Clock:  c.Clock, Events: c.Observe.Events, Logger: p.logger("returns"),
	}
	if c.Eviction != nil {
		o.Period = c.Eviction.Policy.Transition
	}
	p.returns = node.NewReturns(o)
}
