package node

import (
	"context"
	"sync"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/types"
)

// CgroupTree is an optional ability of what keeps pods' cgroups: it finds those that gone
// pods have left.
type CgroupTree interface {
	// List returns the pods that have a cgroup.
	List() ([]types.UID, error)
	// ReduceCPU gives a pod's cgroup the smallest weight there is.
	ReduceCPU(uid types.UID) error
}

// PodVolumes knows which pods have volumes.
type PodVolumes interface {
	HasVolumes(ctx context.Context, uid types.UID) (bool, error)
}

// PodCgroups shows the pods' cgroups to housekeeping.
type PodCgroups struct {
	CgroupTree
	PodVolumes
	*CgroupRemover
}

// CgroupRemover destroys cgroups of pods that are gone, one after the other, beside
// the passes that find them (spec/cleanup.md 3.16). The next pass finds again what could
// not be destroyed.
type CgroupRemover struct {
	destroy func(ctx context.Context, uid types.UID) error
	// orphaned reports whether no source wants the pod and no worker knows it. It is
	// asked right before.
	orphaned func(uid types.UID) bool
	logger   logr.Logger
	wake     chan struct{}

	mu     sync.Mutex
	queue  []types.UID
	queued map[types.UID]bool
	// uid is the pod whose cgroup is being destroyed until busy is closed; busy is nil
	// if there is none.
	uid  types.UID
	busy chan struct{}
}

// NewCgroupRemover returns a remover that destroys cgroups of orphaned pods.
func NewCgroupRemover(destroy func(context.Context, types.UID) error, orphaned func(types.UID) bool, logger logr.Logger) *CgroupRemover {
	return &CgroupRemover{
		destroy: destroy, orphaned: orphaned, logger: logger, wake: make(chan struct{}, 1), queued: map[types.UID]bool{},
	}
}

// Destroy asks for the end of a cgroup; it does not block.
func (r *CgroupRemover) Destroy(uid types.UID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.queued[uid] || r.busy != nil && r.uid == uid {
		return
	}
	r.queued[uid] = true
	r.queue = append(r.queue, uid)
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// Await returns when the pod's cgroup is not being destroyed. A pod that came back has a
// worker by now, so that no other removal of its cgroup begins.
func (r *CgroupRemover) Await(ctx context.Context, uid types.UID) error {
	r.mu.Lock()
	busy := r.busy
	if r.uid != uid {
		busy = nil
	}
	r.mu.Unlock()
	if busy == nil {
		return nil
	}
	select {
	case <-busy:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Run destroys cgroups until ctx ends.
func (r *CgroupRemover) Run(ctx context.Context) error {
	for {
		uid, ok := r.next()
		if !ok {
			select {
			case <-ctx.Done():
				return nil
			case <-r.wake:
			}
			continue
		}
		if ctx.Err() == nil && r.orphaned(uid) {
			if err := r.destroy(ctx, uid); err != nil && ctx.Err() == nil {
				r.logger.Info("A cgroup is left for the next pass", "podUID", uid, "error", err.Error())
			}
		}
		r.release()
	}
}

// next takes a cgroup from the queue.
func (r *CgroupRemover) next() (types.UID, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.queue) == 0 {
		return "", false
	}
	r.uid, r.queue = r.queue[0], r.queue[1:]
	delete(r.queued, r.uid)
	r.busy = make(chan struct{})
	return r.uid, true
}

// release says that the cgroup is destroyed, or left.
func (r *CgroupRemover) release() {
	r.mu.Lock()
	defer r.mu.Unlock()
	close(r.busy)
	r.busy = nil
}
