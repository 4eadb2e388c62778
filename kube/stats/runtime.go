package stats

import (
	"context"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/runtime"
	"github.com/podwright/podwright/runtime/cri"
)

// podStatsPause is how long a runtime is not asked for the statistics of pods after that failed: it
// may not support them, or fail for one pod of the node, which fails the whole answer.
const podStatsPause = 5 * time.Minute

// runtimeReader asks a container runtime what runs and what that uses.
type runtimeReader struct {
	runtime cri.Reader
	lister  cri.StatsLister // nil if it measures nothing
	// podStats is when to ask for the statistics of pods again.
	podStats time.Time
}

// found is what runs, and what the runtime has measured of it.
type found struct {
	sandboxes  []*runtimeapi.PodSandbox
	containers []*runtimeapi.Container
	// stats and podStats are keyed by the ID of the container and of the sandbox.
	stats    map[string]*runtimeapi.ContainerStats
	podStats map[string]*runtimeapi.LinuxPodSandboxStats
}

// read asks the runtime. Statistics come first: what has ended since is not in the lists, and what
// has started since is measured by its cgroup.
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

// measure asks for the statistics of pods or, if that fails, for those of containers. A runtime
// that cannot measure containers either leaves them to the cgroups.
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
