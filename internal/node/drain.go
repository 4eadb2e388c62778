package node

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/podwright/podwright/cleanup"
	"github.com/podwright/podwright/internal/backoff"
	"github.com/podwright/podwright/internal/timing"
	"github.com/podwright/podwright/podworkers"
	"github.com/podwright/podwright/runtime"
)

// drainRetryMin and drainRetryMax bound the pauses between attempts to ask a runtime that does not
// answer.
const (
	drainRetryMin = 100 * time.Millisecond
	drainRetryMax = 5 * time.Second
)

// drainReadLimit is how long a drain waits for the runtime to describe a pod.
const drainReadLimit = 10 * time.Second

// ErrKept says that every pod is stopped, but the remains of some were kept.
var ErrKept = errors.New("all pods are stopped, but the remains of some are kept")

// StoppableWorkers end with all their pods; [podworkers.Workers] are such workers.
type StoppableWorkers interface {
	Snapshot() []podworkers.Explanation
	Stop(ctx context.Context, mode podworkers.StopMode) error
}

// PodLister lists the pods in the runtime; [cri.View] does.
type PodLister interface {
	ListPods(ctx context.Context) ([]*runtime.Pod, error)
}

// PodReader reads a pod past the cache; [pleg.Generator] does.
type PodReader interface {
	ReadNow(ctx context.Context, uid types.UID) (*runtime.PodStatus, error)
}

// PodRemover removes pods from the node; [pods.Manager] does.
type PodRemover interface {
	KillPod(ctx context.Context, pod *v1.Pod, view *runtime.PodStatus, graceOverride *int64) error
	RemovePod(ctx context.Context, uid types.UID) error
	RemovePodDir(ctx context.Context, uid types.UID) error
}

// Drain terminates all pods and removes what is left of them.
type Drain struct {
	Workers StoppableWorkers
	Runtime PodLister
	Reader  PodReader
	Pods    PodRemover
	// Kill returns how to stop a pod without a worker: as it is remembered, with what is left of
	// its grace (IN7).
	Kill func(pod *runtime.Pod) podworkers.UpdateOptions
	// Forget drops the memory of a pod that ended only because of the drain.
	Forget func(uid types.UID)
	// Permit asks everything that may object to a removal (IN11). What it forbids stays and is
	// named in the error; the drain waits for the removal rate. Pods are stopped without asking:
	// that is what a drain is for.
	Permit Permit
	Clock  clock.Clock
}

// Run terminates all pods and removes their remains: the pods that the workers know, and those that
// only the runtime knows because no source has named them yet. It ends with ctx; the error names
// the pods that are left. The error is an [ErrKept] if all pods are stopped and nothing failed. No
// new pod may come meanwhile.
func (d Drain) Run(ctx context.Context) error {
	known := d.Workers.Snapshot()
	var problems, kept []error
	if err := d.Workers.Stop(ctx, podworkers.Terminate); err != nil {
		problems = append(problems, fmt.Errorf("not every pod could be stopped: %w", err))
	}
	remains := map[types.UID]*runtime.Pod{}
	for _, p := range known {
		remains[p.UID] = &runtime.Pod{UID: p.UID, Namespace: p.Namespace, Name: p.Name}
	}
	listed, err := list(ctx, d.Runtime, d.Clock)
	if err != nil {
		problems = append(problems, fmt.Errorf("look for pods that still run: %w", err))
	}
	for _, p := range listed {
		remains[p.UID] = p
	}
	stopped := d.stop(ctx, listed)
	for _, uid := range slices.Sorted(maps.Keys(remains)) {
		p, err := remains[uid], stopped[uid]
		if err == nil {
			err = d.remove(ctx, p)
		}
		if err == nil {
			continue
		}
		err = fmt.Errorf("pod %s/%s (%s): %w", p.Namespace, p.Name, uid, err)
		if errors.Is(err, errNotAllowed) && ctx.Err() == nil {
			kept = append(kept, err)
		} else {
			problems = append(problems, err)
		}
	}
	if len(problems) == 0 && len(kept) > 0 {
		return fmt.Errorf("%w:\n%w", ErrKept, errors.Join(kept...))
	}
	return errors.Join(append(problems, kept...)...)
}

// errNotAllowed says that a rule keeps what is left of a pod.
var errNotAllowed = errors.New("it is not allowed")

// list asks what the runtime has until the runtime answers or ctx ends, even if the runtime does not
// hear that: a runtime that is down may still run pods that were never seen.
func list(ctx context.Context, from PodLister, c clock.Clock) ([]*runtime.Pod, error) {
	for pause := drainRetryMin; ; pause = backoff.Next(drainRetryMin, drainRetryMax, pause) {
		listed, err := answered(ctx, c, "ListPods", from.ListPods)
		if err == nil || ctx.Err() != nil {
			return listed, err
		}
		if timing.Sleep(ctx, c, pause) != nil {
			return nil, err
		}
	}
}

// stop stops the pods that still run after the workers have ended: pods that never had a worker, or
// that the workers failed to stop. All are told at the same time (IN1). It returns why pods could
// not be stopped.
func (d Drain) stop(ctx context.Context, pods []*runtime.Pod) map[types.UID]error {
	var mu sync.Mutex
	var wg sync.WaitGroup
	failed := map[types.UID]error{}
	for _, p := range pods {
		if !p.Running() {
			continue
		}
		wg.Go(func() {
			if err := d.stopOne(ctx, p); err != nil {
				mu.Lock()
				defer mu.Unlock()
				failed[p.UID] = err
			}
		})
	}
	wg.Wait()
	return failed
}

// stopOne stops one pod, as it is remembered or as its annotations ask. A pod that the runtime lists
// but does not describe in time is told to stop according to the list (podworkers.md V8), and left.
func (d Drain) stopOne(ctx context.Context, p *runtime.Pod) error {
	limited, cancel := timing.WithTimeout(ctx, d.Clock, drainReadLimit)
	status, unread := d.Reader.ReadNow(limited, p.UID)
	cancel()
	if unread != nil {
		status = asListed(p)
	}
	how := d.Kill(p)
	var grace *int64
	if how.Kill != nil {
		grace = how.Kill.GracePeriodSeconds
	}
	if err := d.Pods.KillPod(ctx, how.Pod, status, grace); err != nil {
		return errors.Join(unread, fmt.Errorf("stop: %w", err))
	}
	return unread
}

// asListed returns what a list says about a pod, as far as needed to stop it.
func asListed(p *runtime.Pod) *runtime.PodStatus {
	out := &runtime.PodStatus{UID: p.UID, Name: p.Name, Namespace: p.Namespace}
	for _, s := range p.Sandboxes {
		out.Sandboxes = append(out.Sandboxes, &runtime.SandboxStatus{ID: s.ID, State: s.State})
	}
	for _, c := range p.Containers {
		out.Containers = append(out.Containers, &runtime.ContainerStatus{ID: c.ID, Name: c.Name, State: c.State, Annotations: c.Annotations})
	}
	return out
}

// remove removes what is left of a pod that has stopped.
func (d Drain) remove(ctx context.Context, p *runtime.Pod) error {
	if err := d.permit(ctx, p, cleanup.StepContent); err != nil {
		return err
	}
	if err := d.Pods.RemovePod(ctx, p.UID); err != nil {
		return fmt.Errorf("remove from the runtime: %w", err)
	}
	if err := d.permit(ctx, p, cleanup.StepDirectories); err != nil {
		return err
	}
	if err := d.Pods.RemovePodDir(ctx, p.UID); err != nil {
		return fmt.Errorf("remove its folder: %w", err)
	}
	d.Forget(p.UID)
	return nil
}

// permit asks for permission for one removal.
func (d Drain) permit(ctx context.Context, p *runtime.Pod, step cleanup.Step) error {
	denial := d.Permit.await(ctx, d.Clock, cleanup.Action{
		Step: step, PodUID: p.UID, Object: cleanup.Object{Namespace: p.Namespace, Name: p.Name, ID: string(p.UID)}, Reason: "the node is drained",
	})
	if denial.IsZero() {
		return nil
	}
	return fmt.Errorf("%w to %s: %s", errNotAllowed, step, denial)
}
