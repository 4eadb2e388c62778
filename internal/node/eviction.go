package node

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/cleanup/eviction"
	"github.com/podwright/podwright/cleanup/imagegc"
	"github.com/podwright/podwright/internal/podinfo"
	"github.com/podwright/podwright/internal/problem"
	"github.com/podwright/podwright/podworkers"
	"github.com/podwright/podwright/runtime"
	"github.com/podwright/podwright/runtime/cri"
	"github.com/podwright/podwright/runtime/pods"
	"github.com/podwright/podwright/syncloop/admission"
)

// PodKiller stops pods; [podworkers.Workers] is one.
type PodKiller interface {
	KillPod(ctx context.Context, pod *v1.Pod, kill podworkers.KillOptions) error
}

// PodDisk knows what pods have on the disk; [pods.Manager] is one.
type PodDisk interface {
	PodFolders(pod *v1.Pod) []string
	MountedVolumes(uid types.UID) map[string]pods.MountedVolume
	LocalStorage(pod *v1.Pod) pods.LocalStorage
}

// Evictions stops pods when the node runs out of something, once Watch was called. Every field
// except the optional ones must be set before.
type Evictions struct {
	Residents *Residents
	Killer    PodKiller
	Disk      PodDisk
	Views     Views
	Dead      *DeadContainers
	Images    *Images
	Usage     cri.StatsReader // optional
	Cgroups   pods.Cgroups    // optional

	manager *eviction.Manager
	watches bool // false: the manager looks only at pods, not at the node
}

// WatchPods makes Run evict pods that use more storage than their own limits allow (FD2).
func (e *Evictions) WatchPods(o eviction.Options) (err error) {
	o.LocalOnly, o.Killer, o.Pods, o.Volumes, o.Storage = true, e, e.Residents.Evictable, e.limitedVolumes, e.storage
	e.manager, err = eviction.New(o)
	return err
}

// Watch makes Run watch the node as well; o has what this package does not know. Nil stats are
// those of this machine, read as machine says.
func (e *Evictions) Watch(o eviction.Options, stats eviction.Stats, machine eviction.LinuxStatsOptions) (err error) {
	if stats == nil {
		machine.Clock = o.Clock
		machine.PodDirs, machine.PodLayers = e.Disk.PodFolders, e.containerUsage
		if machine.ImageFs != nil {
			machine.ImageFs = named(machine.ImageFs, o.Logger)
		}
		if e.Cgroups != nil {
			machine.PodCgroup = func(pod *v1.Pod) (string, error) {
				return e.Cgroups.Parent(pods.PodCgroup{UID: pod.UID, Class: podinfo.QoS(pod)})
			}
		}
		if stats, err = eviction.NewLinuxStats(machine); err != nil {
			return err
		}
	}
	o.Stats, o.Killer, o.Pods, o.Leaving, o.Complete = stats, e, e.Residents.Evictable, e.Residents.Leaving, e.Residents.Complete
	o.Volumes, o.Storage, o.Reclaim = e.limitedVolumes, e.storage, e.reclaim
	e.manager, err = eviction.New(o)
	e.watches = e.manager != nil
	return err
}

// named returns "" for a runtime that names no file system for its images, so that imagefs is not
// watched, and logs that once.
func named(dir func(ctx context.Context) (string, error), logger logr.Logger) func(ctx context.Context) (string, error) {
	var once sync.Once
	return func(ctx context.Context) (string, error) {
		path, err := dir(ctx)
		if errors.Is(err, imagegc.ErrNoImageFs) {
			once.Do(func() { logger.Info("The file system of the images is not watched", "reason", err.Error()) })
			return "", nil
		}
		return path, err
	}
}

// Run watches the node until ctx ends.
func (e *Evictions) Run(ctx context.Context) error {
	if e.manager == nil {
		<-ctx.Done()
		return nil
	}
	return e.manager.Run(ctx)
}

// Problems returns the signals that limits need and that cannot be read.
func (e *Evictions) Problems() []problem.Problem {
	if e.manager == nil {
		return nil
	}
	return e.manager.Problems()
}

// Conditions returns the conditions for everything that the node may run out of.
func (e *Evictions) Conditions() []v1.NodeCondition {
	if !e.watches {
		return nil
	}
	return e.manager.Conditions()
}

// Admit refuses pods that the node must not take while it runs out of something
// (spec/syncloop.md 16).
func (e *Evictions) Admit(r admission.Request) admission.Verdict {
	if !e.watches {
		return admission.Verdict{}
	}
	if admitted, message := e.manager.Admit(r.Pod); !admitted {
		return admission.Refuse(eviction.Reason, "%s", message)
	}
	return admission.Verdict{}
}

// Relieved returns why the node has no room for the pods it evicted: it is short of something, or
// was so less than the transition period ago. It returns nil if the node is not watched.
func (e *Evictions) Relieved() error {
	if !e.watches {
		return nil
	}
	conditions := e.manager.Conditions()
	if len(conditions) == 0 {
		return errUnwatched
	}
	for _, c := range conditions {
		if c.Status == v1.ConditionTrue {
			return fmt.Errorf("the node has the condition %s, which stays for a while after its cause", c.Type)
		}
	}
	return nil
}

// Takes returns why the node must not take a pod now, nil if it may.
func (e *Evictions) Takes(pod *v1.Pod) error {
	if e.watches && len(e.manager.Conditions()) == 0 {
		return errUnwatched
	}
	if v := e.Admit(admission.Request{Pod: pod}); !v.Admitted() {
		return errors.New(v.Message)
	}
	return nil
}

// errUnwatched says that the first pass is not over yet.
var errUnwatched = errors.New("it is not known yet what the node is short of")

// Kill stops a pod for good.
func (e *Evictions) Kill(ctx context.Context, pod *v1.Pod, grace *int64, amend func(*v1.PodStatus)) error {
	if desired, ok := e.Residents.Desired.Get(pod.UID); ok {
		pod = desired // without the engine's own status
	}
	err := e.Killer.KillPod(ctx, pod, podworkers.KillOptions{Evict: true, GracePeriodSeconds: grace, StatusFunc: amend})
	return err
}

// Finished reports whether a pod no longer holds anything of the node.
func (e *Evictions) Finished(uid types.UID) bool { return e.Residents.Finished(uid) }

// limitedVolumes returns the emptyDirs on the disk that have a limit, including those of pods that
// an earlier process started. Those in memory cannot grow beyond their limit.
func (e *Evictions) limitedVolumes(pod *v1.Pod) []eviction.Volume {
	var out []eviction.Volume
	var mounted map[string]pods.MountedVolume
	var local pods.LocalStorage
	for i := range pod.Spec.Volumes {
		v := &pod.Spec.Volumes[i]
		if v.EmptyDir == nil || v.EmptyDir.SizeLimit == nil || v.EmptyDir.SizeLimit.Sign() <= 0 || v.EmptyDir.Medium != v1.StorageMediumDefault {
			continue
		}
		if mounted == nil {
			mounted, local = e.Disk.MountedVolumes(pod.UID), e.Disk.LocalStorage(pod)
		}
		limited := eviction.Volume{Name: v.Name, Path: local.EmptyDirs[v.Name], Limit: uint64(v.EmptyDir.SizeLimit.Value())}
		if m, ok := mounted[v.Name]; ok && m.SizeLimit > 0 && m.HostPath != "" { // made by any process
			limited.Path, limited.Limit = m.HostPath, uint64(m.SizeLimit)
		}
		if limited.Path != "" {
			out = append(out, limited)
		}
	}
	return out
}

// storage reads what a pod uses of the disk: its containers' layers, as far as the runtime measures
// them, their logs and termination messages, and the pod's own emptyDirs and files.
func (e *Evictions) storage(ctx context.Context, pod *v1.Pod) (eviction.Storage, error) {
	local := e.Disk.LocalStorage(pod)
	out := eviction.Storage{Containers: map[string]uint64{}}
	var problems []error
	for _, folder := range local.EmptyDirs {
		out.Folders = append(out.Folders, folder)
	}
	for _, folders := range []map[string]string{local.Logs, local.Messages} {
		for name, folder := range folders {
			bytes, _, err := eviction.FolderSize(ctx, folder)
			problems = append(problems, err)
			out.Containers[name] += bytes
		}
	}
	if info, err := os.Lstat(local.HostsFile); err == nil {
		out.Containers[""] = uint64(info.Size()) // not of one container, but of the pod
	}
	if e.Usage == nil {
		return out, errors.Join(problems...)
	}
	view, err := e.Views.Get(pod.UID)
	if err != nil {
		return out, errors.Join(append(problems, err)...)
	}
	for _, c := range view.Containers {
		if c.State != runtime.Running {
			continue
		}
		stats, err := e.Usage.ContainerStats(ctx, c.ID.ID)
		switch {
		case errors.Is(err, runtime.ErrUnimplemented), errors.Is(err, runtime.ErrNotFound):
		case err != nil:
			problems = append(problems, fmt.Errorf("container %s: %w", c.Name, err))
		default:
			out.Containers[c.Name] += stats.GetWritableLayer().GetUsedBytes().GetValue()
		}
	}
	return out, errors.Join(problems...)
}

// reclaim frees disk space without stopping a pod. Images go too if only nodefs is low and they have a
// file system of their own: the manager does not say which disk it is about.
func (e *Evictions) reclaim(ctx context.Context) error {
	err := e.Dead.Reclaim(ctx)
	if err != nil {
		err = fmt.Errorf("dead containers: %w", err)
	}
	if imageErr := e.Images.Reclaim(ctx); imageErr != nil {
		err = errors.Join(err, fmt.Errorf("images: %w", imageErr))
	}
	return err
}

// containerUsage returns what the runtime measures of a pod's containers, or nothing if it measures
// nothing.
func (e *Evictions) containerUsage(ctx context.Context, pod *v1.Pod) (eviction.Usage, error) {
	var out eviction.Usage
	if e.Usage == nil {
		return out, nil
	}
	view, err := e.Views.Get(pod.UID)
	if err != nil {
		return out, err
	}
	var problems []error
	for _, c := range view.Containers {
		if c.State != runtime.Running {
			continue
		}
		stats, err := e.Usage.ContainerStats(ctx, c.ID.ID)
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
