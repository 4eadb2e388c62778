package podwright

import (
	"context"
	"errors"
	"fmt"

	"go.opentelemetry.io/otel/metric"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/cleanup/eviction"
	"github.com/podwright/podwright/internal/podinfo"
	"github.com/podwright/podwright/podworkers"
	"github.com/podwright/podwright/runtime"
	"github.com/podwright/podwright/runtime/pods"
)

// Eviction stops pods when the node runs out of memory, disk or process IDs, and pods
// of which an emptyDir is larger than its limit (spec/syncloop.md 16). Before a pod goes
// for the sake of a disk, dead containers do, and unused images if there is an
// [ImageGC]. An evicted pod has ended: it is Failed for good, also after a restart.
type Eviction struct {
	// Policy says when. Zero: the kubelet's hard limits.
	Policy eviction.Policy
	// Stats reads the node and its pods. Nil: this machine.
	Stats eviction.Stats
	// Cgroup is the cgroup of all pods, such as kubepods: if it has a limit, what is
	// left below that counts as the node's. Empty: the machine's memory alone counts.
	Cgroup string
	// ImageFs is any path on the file system of images. Empty: as [ImageGC] has it;
	// without one, imagefs is not watched.
	ImageFs string
	// Critical pods are never evicted and always admitted. Nil: those with the priority
	// of a system-critical class, or its name.
	Critical func(pod *v1.Pod) bool
}

// buildEviction makes what evicts pods, if there is to be any.
func (e *parts) buildEviction(meter metric.Meter) error {
	c := e.config
	if c.Eviction == nil {
		return nil
	}
	stats := c.Eviction.Stats
	if stats == nil {
		options := eviction.MachineOptions{
			Cgroup: c.Eviction.Cgroup, NodeFs: c.RootDir, ImageFs: e.imageFolder(),
			PodDirs: e.pods.PodFolders, PodLayers: e.podLayers,
		}
		if c.Pods.Cgroups != nil {
			options.PodCgroup = func(pod *v1.Pod) (string, error) {
				return c.Pods.Cgroups.Parent(pods.PodCgroup{UID: pod.UID, Class: podinfo.QoS(pod)})
			}
		}
		var err error
		if stats, err = eviction.NewMachine(options); err != nil {
			return err
		}
	}
	var err error
	e.evictor, err = eviction.New(eviction.Options{
		Stats: stats, Killer: evictions{e}, Pods: e.evictable, Class: podinfo.QoS, Requests: podinfo.Requests,
		Critical: c.Eviction.Critical, Volumes: e.limitedVolumes, Reclaim: e.reclaim, Changed: e.hooks.Changed,
		Policy: c.Eviction.Policy, NodeName: c.Node.Name, Recorder: c.Observe.Events, Clock: c.Clock,
		Logger: c.Observe.Logger.WithName("eviction"), Meter: meter,
	})
	return err
}

// runEviction watches the node until ctx ends.
func (e *parts) runEviction(ctx context.Context) error {
	if e.evictor == nil {
		<-ctx.Done()
		return nil
	}
	return e.evictor.Run(ctx)
}

// imageFolder returns a path on the file system of images, nil if nobody knows one.
func (e *parts) imageFolder() func(ctx context.Context) (string, error) {
	c := e.config
	switch {
	case c.Eviction.ImageFs != "":
		return func(context.Context) (string, error) { return c.Eviction.ImageFs, nil }
	case c.ImageGC != nil:
		return e.imageDir
	}
	return nil
}

// evictions stops pods for good.
type evictions struct{ e *parts }

func (k evictions) Kill(ctx context.Context, pod *v1.Pod, grace *int64, amend func(*v1.PodStatus)) error {
	if desired, ok := k.e.loop.Store().Get(pod.UID); ok {
		pod = desired // without the engine's own status
	}
	_, err := k.e.workers.KillPod(ctx, pod, podworkers.KillOptions{Evict: true, GracePeriodSeconds: grace, StatusFunc: amend})
	return err
}

func (k evictions) Finished(uid types.UID) bool {
	_, known := k.e.workers.Explain(uid)
	return !known || k.e.workers.ShouldPodBeFinished(uid)
}

// evictable returns the pods that run or are about to, each with its newest status.
func (e *parts) evictable() []*v1.Pod {
	var out []*v1.Pod
	for _, p := range e.loop.Store().Pods() {
		s, ok := e.status.Get(p.UID)
		if !ok || podinfo.Terminal(s.Phase) || e.workers.IsPodTerminationRequested(p.UID) {
			continue
		}
		if _, known := e.workers.Explain(p.UID); !known {
			continue // the loop still keeps it
		}
		pod := *p
		pod.Status = s
		out = append(out, &pod)
	}
	return out
}

// limitedVolumes returns the emptyDirs on the disk that have a limit. Those in memory
// cannot grow beyond theirs.
func (e *parts) limitedVolumes(pod *v1.Pod) []eviction.Volume {
	var out []eviction.Volume
	var mounted map[string]pods.MountedVolume
	for i := range pod.Spec.Volumes {
		v := &pod.Spec.Volumes[i]
		if v.EmptyDir == nil || v.EmptyDir.SizeLimit == nil || v.EmptyDir.Medium != v1.StorageMediumDefault {
			continue
		}
		if mounted == nil {
			mounted = e.pods.MountedVolumes(pod.UID)
		}
		if m, ok := mounted[v.Name]; ok && m.SizeLimit > 0 && m.HostPath != "" {
			out = append(out, eviction.Volume{Name: v.Name, Path: m.HostPath, Limit: uint64(m.SizeLimit)})
		}
	}
	return out
}

// reclaim frees disk space without stopping a pod.
func (e *parts) reclaim(ctx context.Context) error {
	err := e.pods.GarbageCollect(ctx, pods.GCPolicy{
		SourcesReady: e.loop.Ready(), Pressure: true,
		ContentShouldBeRemoved: e.containersGo, RuntimeShouldBeRemoved: e.workers.ShouldPodRuntimeBeRemoved,
	})
	if err != nil {
		err = fmt.Errorf("dead containers: %w", err)
	}
	if e.images != nil {
		if _, imageErr := e.images.Reclaim(ctx); imageErr != nil {
			err = errors.Join(err, fmt.Errorf("images: %w", imageErr))
		}
	}
	return err
}

// podLayers is what the runtime measures of a pod's containers, nothing if it measures
// nothing.
func (e *parts) podLayers(ctx context.Context, pod *v1.Pod) (eviction.Usage, error) {
	var out eviction.Usage
	reader := e.config.Pods.Stats
	if reader == nil {
		return out, nil
	}
	view, err := e.pleg.Get(pod.UID)
	if err != nil {
		return out, err
	}
	var problems []error
	for _, c := range view.Containers {
		if c.State != runtime.Running {
			continue
		}
		stats, err := reader.ContainerStats(ctx, c.ID.ID)
		if errors.Is(err, runtime.ErrUnimplemented) || errors.Is(err, runtime.ErrNotFound) {
			continue
		}
		if err != nil {
			problems = append(problems, fmt.Errorf("container %s: %w", c.Name, err))
			continue
		}
		out.Memory += stats.GetMemory().GetWorkingSetBytes().GetValue()
		out.Disk += stats.GetWritableLayer().GetUsedBytes().GetValue()
		out.Inodes += stats.GetWritableLayer().GetInodesUsed().GetValue()
	}
	return out, errors.Join(problems...)
}
