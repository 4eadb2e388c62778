package pods

import (
	"context"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/timing"
	"github.com/podwright/podwright/runtime"
)

const (
	// reapQueue is how many removals may wait (spec/syncloop.md PE3).
	reapQueue = 50
	// maxReaping bounds the removals under way: so many of them mean that they hang.
	maxReaping = 1000
)

// ReaperOptions configures a [Reaper].
type ReaperOptions struct {
	// Keep is how many dead containers are kept per pod and container name. 0 means
	// 1, the minimum: the newest one shows how the container ended. Negative: all are
	// kept.
	Keep int
	// MinAge keeps containers that ended less than this long ago.
	MinAge time.Duration
	// Hold is as in [GCPolicy]. Nil: a pod that comes back is not protected.
	Hold func(ctx context.Context, uid types.UID, reason string) (held context.Context, release func(), ok bool)
	// ContentShouldBeRemoved reports whether nothing of the pod is needed any more, so
	// that all its dead containers can go. Asked again before each removal; must not
	// block. Nil: never.
	ContentShouldBeRemoved func(uid types.UID) bool
}

// Reaper removes the older dead containers of a pod soon after another one has
// died, so that a container that crashes again and again does not pile up dead
// containers until the next garbage collection (spec/syncloop.md PE2 to PE4). It works
// on hints: [Manager.GarbageCollect] removes what it misses or drops. Make one with
// [Manager.NewReaper] and run it once.
type Reaper struct {
	manager *Manager
	options ReaperOptions
	queue   chan reap

	mu sync.Mutex
	// removing are the containers whose removal is under way.
	removing map[runtime.ContainerID]bool
}

// reap is one container to remove.
type reap struct {
	pod       *runtime.Pod
	container *runtime.Container
	// all is true if it is removed only because nothing of the pod is needed.
	all bool
}

// NewReaper returns a reaper.
func (m *Manager) NewReaper(o ReaperOptions) *Reaper {
	if o.Keep == 0 {
		o.Keep = 1
	}
	if o.ContentShouldBeRemoved == nil {
		o.ContentShouldBeRemoved = func(types.UID) bool { return false }
	}
	return &Reaper{manager: m, options: o, queue: make(chan reap, reapQueue), removing: map[runtime.ContainerID]bool{}}
}

// Died reports that the containers with these runtime IDs have died; status is that of
// their pod, read since. It never blocks: if the queue is full, removals are dropped.
// It may be called from many goroutines, even before Run.
func (r *Reaper) Died(status *runtime.PodStatus, ids ...string) {
	all := r.options.ContentShouldBeRemoved(status.UID)
	pod := &runtime.Pod{UID: status.UID, Name: status.Name, Namespace: status.Namespace}
	for _, c := range r.options.excess(status, ids, all, r.manager.options.Clock.Now()) {
		select {
		case r.queue <- reap{pod: pod, container: c.Listed(), all: all}:
		default:
			r.manager.options.Logger.V(1).Info("Many dead containers: one is left to garbage collection", "podUID", status.UID, "container", c.Name)
		}
	}
}

// excess chooses the dead containers to remove after those with the given IDs died, newest first: all
// of them if nothing of the pod is needed, otherwise those with the name of one that died, except the
// newest. IDs that are not in the status choose nothing.
func (o *ReaperOptions) excess(status *runtime.PodStatus, died []string, all bool, now time.Time) []*runtime.ContainerStatus {
	if o.Keep < 0 && !all {
		return nil
	}
	names := map[string]bool{}
	for _, c := range status.Containers {
		if slices.Contains(died, c.ID.ID) {
			names[c.Name] = true
		}
	}
	if len(names) == 0 {
		return nil
	}
	var out []*runtime.ContainerStatus
	seen := map[string]int{}
	for _, c := range status.Containers {
		if c.State != runtime.Exited || c.StartAborted() && !all {
			continue // one whose start was aborted is replaced, and is not the last run
		}
		seen[c.Name]++
		switch {
		case all:
		case !names[c.Name], seen[c.Name] <= o.Keep, now.Sub(c.FinishedAt) < o.MinAge:
			continue
		}
		out = append(out, c)
	}
	return out
}

// Run removes what Died chose until ctx ends, one container after the other, and returns nil
// then. A removal that hangs continues alongside the next ones (IN1). How a container ended
// is stored first (BeforeRemove); what cannot be removed is left to garbage collection.
func (r *Reaper) Run(ctx context.Context) error {
	var removals sync.WaitGroup
	defer removals.Wait()
	begun := timing.Batch{Clock: r.manager.options.Clock}
	for {
		select {
		case <-ctx.Done():
			return nil
		case v := <-r.queue:
			if !r.claim(v) {
				continue
			}
			ended := make(chan struct{})
			removals.Go(func() {
				defer close(ended)
				r.reap(ctx, v)
			})
			if begun.Add(ctx, ended); len(r.queue) == 0 {
				begun.Wait(ctx)
				begun = timing.Batch{Clock: r.manager.options.Clock}
			}
		}
	}
}

// claim notes that a removal begins. It returns false if a removal of the container is under
// way already, or if too many hang.
func (r *Reaper) claim(v reap) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.removing[v.container.ID] || len(r.removing) >= maxReaping {
		return false
	}
	r.removing[v.container.ID] = true
	return true
}

// reap performs a removal that was claimed.
func (r *Reaper) reap(ctx context.Context, v reap) {
	err := r.remove(ctx, v)
	r.mu.Lock()
	delete(r.removing, v.container.ID)
	r.mu.Unlock()
	if err != nil && ctx.Err() == nil {
		r.manager.options.Logger.Info("A dead container is left to garbage collection",
			"podUID", v.pod.UID, "container", v.container.Name, "error", err.Error())
	}
}

// remove removes one container. If the only reason is that the pod was gone, it holds the pod, and the
// container stays if the pod has come back (IN3). A life that begins does not cut off other removals.
func (r *Reaper) remove(ctx context.Context, v reap) error {
	if v.all && r.options.Hold != nil {
		held, release, ok := r.options.Hold(ctx, v.pod.UID, "remove container")
		defer release()
		if !ok {
			return nil
		}
		ctx = held
	}
	if v.all && !r.options.ContentShouldBeRemoved(v.pod.UID) {
		return nil
	}
	return r.manager.collect(ctx, v.pod, v.container)
}
