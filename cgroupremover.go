package podwright

import (
	"context"
	"sync"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/cleanup"
	"github.com/podwright/podwright/runtime/pods"
)

// cgroupTree is an optional ability of [Config.Cgroups]: housekeeping finds cgroups
// that gone pods have left.
type cgroupTree interface {
	// List returns the pods that have a cgroup.
	List() ([]types.UID, error)
	// ReduceCPU gives a pod's cgroup the smallest weight there is.
	ReduceCPU(uid types.UID) error
}

// leftCgroups shows the pods' cgroups to the housekeeper.
type leftCgroups struct {
	cgroupTree
	pods    *pods.Manager
	remover *cgroupRemover
}

var _ cleanup.Cgroups = leftCgroups{}

func (l leftCgroups) HasVolumes(ctx context.Context, uid types.UID) (bool, error) {
	return l.pods.HasVolumes(ctx, uid)
}

func (l leftCgroups) Destroy(uid types.UID) { l.remover.Destroy(uid) }

// cgroupsLeft returns what the housekeeper sees of cgroups, nil if there are none.
func (e *parts) cgroupsLeft() cleanup.Cgroups {
	tree, ok := e.config.Pods.Cgroups.(cgroupTree)
	if !ok {
		return nil
	}
	return leftCgroups{tree, e.pods, e.cgroupRemover}
}

// cgroupRemover destroys cgroups of pods that are gone, one after the other, beside
// the passes that find them (spec/cleanup.md 3.16). What fails is found again by the
// next pass.
type cgroupRemover struct {
	destroy func(ctx context.Context, uid types.UID) error
	// orphan reports whether nobody wants or knows the pod. Asked right before.
	orphan func(uid types.UID) bool
	logger logr.Logger
	wake   chan struct{}

	mu     sync.Mutex
	queue  []types.UID
	queued map[types.UID]bool
	// busy is closed when the cgroup in hand is done with.
	uid  types.UID
	busy chan struct{}
}

func newCgroupRemover(destroy func(context.Context, types.UID) error, orphan func(types.UID) bool, logger logr.Logger) *cgroupRemover {
	return &cgroupRemover{destroy: destroy, orphan: orphan, logger: logger, wake: make(chan struct{}, 1), queued: map[types.UID]bool{}}
}

// Destroy asks for the end of a cgroup; it does not block.
func (r *cgroupRemover) Destroy(uid types.UID) {
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

// settle returns when the pod's cgroup is in nobody's hands. A pod that came back
// has a worker by now, so that its cgroup is not taken up any more. A nil remover has none
// in its hands.
func (r *cgroupRemover) settle(ctx context.Context, uid types.UID) error {
	if r == nil {
		return nil
	}
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

// run serves until ctx ends.
func (r *cgroupRemover) run(ctx context.Context) error {
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
		if ctx.Err() == nil && r.orphan(uid) {
			if err := r.destroy(ctx, uid); err != nil && ctx.Err() == nil {
				r.logger.Info("A cgroup is left for the next pass", "podUID", uid, "error", err.Error())
			}
		}
		r.release()
	}
}

// next takes up one cgroup.
func (r *cgroupRemover) next() (types.UID, bool) {
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

func (r *cgroupRemover) release() {
	r.mu.Lock()
	defer r.mu.Unlock()
	close(r.busy)
	r.busy = nil
}
