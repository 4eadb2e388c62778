package podwright

import (
	"fmt"
	"path/filepath"

	"go.opentelemetry.io/otel/metric"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/cleanup"
	"github.com/podwright/podwright/cleanup/eviction"
	"github.com/podwright/podwright/cleanup/imagegc"
	"github.com/podwright/podwright/internal/node"
	"github.com/podwright/podwright/internal/podinfo"
	"github.com/podwright/podwright/podworkers"
	"github.com/podwright/podwright/runtime/pods"
	"github.com/podwright/podwright/syncloop/preemption"
)

// buildResizer makes what grants pods their resources, and tries deferred resizes again.
func (e *parts) buildResizer() (err error) {
	c := e.config
	e.allocatable = node.Allocatable(c.Pods.Machine, c.Node.Allocatable)
	o := c.Resizes
	o.Store = pods.ResourceFiles{Dir: filepath.Join(c.RootDir, "state", "resources")}
	o.Allocatable, o.NoUpdate, o.Active, o.Wake = e.allocatable, c.Pods.Updater == nil, e.residents.Active, e.wake
	o.Clock, o.Events = c.Clock, c.Observe.Events
	if e.allocations, err = pods.NewAllocations(o); err != nil {
		return err
	}
	levels, _ := c.Pods.Cgroups.(node.CgroupLevels)
	e.resizer = node.NewResizer(node.ResizerOptions{
		Allocations: e.allocations, Levels: levels, Active: e.residents.Active, Orphaned: e.residents.Orphaned,
		Clock: c.Clock, Logger: c.Observe.Logger,
	})
	return nil
}

// wake asks for a sync of a desired pod.
func (e *parts) wake(uid types.UID) {
	if pod, ok := e.loop.Store().Get(uid); ok {
		e.workers.UpdatePod(podworkers.UpdateOptions{Type: podworkers.Sync, Pod: pod, StartTime: e.config.Clock.Now()})
	}
}

// buildRemovers makes what keeps logs, dead containers, cgroups and images few.
func (e *parts) buildRemovers(images metric.Meter) (err error) {
	c := e.config
	keep := c.Storage.DeadContainers
	e.dead = &node.DeadContainers{
		Collector: e.pods, Views: e.pleg, Keep: node.Keep{PerName: keep.PerName, Total: keep.Total, MinAge: keep.MinAge},
		Records: node.NewPullRecords(e.pods.PruneImageRecords, c.Clock),
	}
	e.reaper = e.pods.NewReaper(pods.ReaperOptions{Keep: keep.PerName, MinAge: keep.MinAge, ContentShouldBeRemoved: e.dead.ContentGoes})
	e.dead.Reaper = e.reaper
	if e.rotator, err = e.pods.NewLogRotator(c.Storage.LogRotation, e.dead.Running); err != nil {
		return fmt.Errorf("LogRotation: %w", err)
	}
	e.cgroupRemover = node.NewCgroupRemover(e.pods.DestroyCgroup, e.residents.Orphaned, c.Observe.Logger.WithName("cgroups"))
	return e.buildImages(images)
}

// buildImages makes what knows the images, and removes them if that is wanted.
func (e *parts) buildImages(meter metric.Meter) error {
	c := e.config
	e.images = &node.Images{Runtime: c.Runtime, Pods: func() []*v1.Pod { return e.residents.Desired.Pods() }}
	e.images.Fs, _ = c.Images.(node.ImageFs)
	if c.ImageGC == nil {
		return nil
	}
	e.images.Path, e.images.Kept = c.ImageGC.Dir, c.ImageGC.Keep
	return e.images.Collect(imagegc.Options{
		Store: c.Images, Containers: c.Runtime, Policy: c.ImageGC.Policy, Period: c.ImageGC.Period,
		Left: e.dead.Records.ImagesLeft(c.Observe.Logger), NodeName: c.Node.Name, Recorder: c.Observe.Events,
		Clock: c.Clock, Logger: c.Observe.Logger.WithName("images"), Meter: meter,
	})
}

// podCgroups returns what the housekeeper sees of cgroups, nil if there are none.
func (e *parts) podCgroups() cleanup.Cgroups {
	tree, ok := e.config.Pods.Cgroups.(node.CgroupTree)
	if !ok {
		return nil
	}
	return node.PodCgroups{CgroupTree: tree, PodVolumes: e.pods, CgroupRemover: e.cgroupRemover}
}

// buildNode makes what knows how the node is, tells others, and shuts it down.
func (e *parts) buildNode() {
	c := e.config
	e.health = node.NewHealth(node.HealthOptions{Runtime: c.Runtime, Clock: c.Clock, Changed: e.healthChanged, Logger: c.Observe.Logger})
	e.shutdown = &node.Shutdown{
		File: filepath.Join(c.RootDir, "state", "shutdown.json"), Residents: e.residents,
		Statuses: e.status, RemovePod: e.pods.RemovePod,
		Acknowledged: func(uid types.UID) bool { return e.journal.AcknowledgedBy(uid, e.status.Sinks()) },
		Changed:      e.shutdownChanged, Clock: c.Clock, Logger: c.Observe.Logger,
	}
	e.evictions = &node.Evictions{}
	e.state = node.State{Health: e.health, ShuttingDown: e.shutdown.Active, Pressure: e.evictions.Conditions, Clock: c.Clock}
	e.hooks = node.NewHooks(node.HookOptions{
		Hooks: c.NodeHooks, RuntimeWell: e.health.WellOnce(), State: e.state, Clock: c.Clock, Logger: c.Observe.Logger,
	})
}

// buildEviction has pods evicted, if that is wanted.
func (e *parts) buildEviction(meter metric.Meter) error {
	c := e.config
	if c.Eviction == nil {
		return nil
	}
	*e.evictions = node.Evictions{
		Residents: e.residents, Killer: e.workers, Disk: e.pods, Views: e.pleg, Dead: e.dead, Images: e.images,
		Usage: c.Pods.Stats, Cgroups: c.Pods.Cgroups,
	}
	machine := eviction.LinuxStatsOptions{Cgroup: c.Eviction.Cgroup, NodeFs: c.RootDir}
	switch {
	case c.Eviction.ImageFs != "":
		machine.ImageFs = (&node.Images{Path: c.Eviction.ImageFs}).Dir
	case c.ImageGC != nil:
		machine.ImageFs = e.images.Dir
	}
	return e.evictions.Watch(eviction.Options{
		Critical: c.Eviction.Critical, Changed: e.hooks.Changed, Policy: c.Eviction.Policy,
		NodeName: c.Node.Name, Recorder: c.Observe.Events, Clock: c.Clock, Logger: c.Observe.Logger.WithName("eviction"), Meter: meter,
	}, c.Eviction.Stats, machine)
}

// critical reports whether the node needs a pod more than others.
func (e *parts) critical(pod *v1.Pod) bool {
	if c := e.config.Eviction; c != nil && c.Critical != nil {
		return c.Critical(pod)
	}
	return podinfo.Critical(pod)
}

// room is what pods may have together.
func (e *parts) room() preemption.Node {
	n := preemption.Node{MaxPods: e.config.Admission.MaxPods}
	if e.config.Admission.FitResources {
		n.Allocatable = e.allocatable
	}
	return n
}
