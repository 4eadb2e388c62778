package stats

import (
	"context"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/runtime"
	"github.com/podwright/podwright/runtime/cri"
)

// podStatsPause is how long a runtime is not asked for the statistics of pods after it failed to say
// them: it may be unable to, or to for one pod of the node, which fails all of the answer.
const podStatsPause = 5 * time.Minute

// runtimeReader asks a container runtime what runs and what that uses.
type runtimeReader struct {
	runtime cri.Reader
	lister  cri.StatsLister // nil: it measures nothing
	// podStats is when it is asked for the statistics of pods again.
	podStats time.Time
}

// found is what runs, and what of it the runtime measures.
type found struct {
	sandboxes  []*runtimeapi.PodSandbox
	containers []*runtimeapi.Container
	// stats are those of containers and pods by the ID of the container and the sandbox.
	stats    map[string]*runtimeapi.ContainerStats
	podStats map[string]*runtimeapi.LinuxPodSandboxStats
}

// read asks the runtime. Statistics come first: what has ended since is not in the lists, and
// what has started since is measured by its cgroup.
func (r *runtimeReader) read(ctx context.Context, now time.Time) (*found, error) {
	f := &found{stats: map[string]*runtimeapi.ContainerStats{}, podStats: map[string]*runtimeapi.LinuxPodSandboxStats{}}
	if r.lister != nil {
		if err := r.measure(ctx, f, now); err != nil {
			return nil, err
		}
	}
	var err error
	f.sandboxes, err = r.runtime.ListPodSandbox(ctx, &runtimeapi.PodSandboxFilter{
		State: &runtimeapi.PodSandboxStateValue{State: runtimeapi.PodSandboxState_SANDBOX_READY},
	})
	if err != nil {
		return nil, err
	}
	f.containers, err = r.runtime.ListContainers(ctx, &runtimeapi.ContainerFilter{
		State: &runtimeapi.ContainerStateValue{State: runtimeapi.ContainerState_CONTAINER_RUNNING},
	})
	return f, err
}

// measure asks for the statistics of pods, and if there are none for those of containers. A
// runtime that cannot measure containers either leaves them to the cgroups.
func (r *runtimeReader) measure(ctx context.Context, f *found, now time.Time) error {
	if !now.Before(r.podStats) {
		list, err := r.lister.ListPodSandboxStats(ctx, nil)
		if err == nil {
			for _, s := range list {
				f.podStats[s.GetAttributes().GetId()] = s.GetLinux()
				for _, c := range s.GetLinux().GetContainers() {
					f.stats[c.GetAttributes().GetId()] = c
				}
			}
			return nil
		}
		if ctx.Err() != nil {
			return err
		}
		r.podStats = now.Add(podStatsPause)
	}
	list, err := r.lister.ListContainerStats(ctx, nil)
	if err != nil && cri.Class(err) != runtime.ErrUnimplemented {
		return err
	}
	for _, c := range list {
		f.stats[c.GetAttributes().GetId()] = c
	}
	return nil
}
