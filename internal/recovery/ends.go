package recovery

import (
	"context"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/runtime"
)

// Cache is what is known of the pods in the runtime; pleg.Generator is one.
type Cache interface {
	Get(uid types.UID) (*runtime.PodStatus, error)
	// ReadNow reads a pod past the cache, and updates the cache.
	ReadNow(ctx context.Context, uid types.UID) (*runtime.PodStatus, error)
	// Synced reports whether the runtime was read completely.
	Synced() bool
}

// Ends knows how containers ended.
type Ends struct {
	Cache Cache
	// Message returns the termination message of a container.
	Message func(c *runtime.ContainerStatus) string
}

// Of returns a container with the message it ended with. It makes sure that the way it ended is in
// the cache before its record is removed from the runtime (spec/pleg.md B12). It returns nil if the
// runtime does not have the container.
func (e Ends) Of(ctx context.Context, uid types.UID, id runtime.ContainerID) (*runtime.ContainerStatus, error) {
	c, err := e.container(ctx, uid, id)
	if err != nil || c == nil {
		return nil, err
	}
	if text := e.Message(c); text != "" && text != c.Message {
		changed := *c
		changed.Message = text
		c = &changed
	}
	return c, nil
}

func (e Ends) container(ctx context.Context, uid types.UID, id runtime.ContainerID) (*runtime.ContainerStatus, error) {
	status, err := e.Cache.Get(uid)
	if err == nil {
		if c := find(status, id); c != nil && c.State == runtime.Exited {
			return c, nil
		}
	}
	if status, err = e.Cache.ReadNow(ctx, uid); err != nil {
		return nil, err
	}
	return find(status, id), nil
}

func find(status *runtime.PodStatus, id runtime.ContainerID) *runtime.ContainerStatus {
	for _, c := range status.Containers {
		if c.ID == id {
			return c
		}
	}
	return nil
}

// CouldRun reports whether a container of a pod may be running; couldRun is the workers' view. A
// worker that cannot record the end of its pod does not advance (CK4). Then what the runtime shows
// counts, so that the end is still reported in time (spec/status.md 9.11).
func (e Ends) CouldRun(uid types.UID, couldRun func(types.UID) bool, j *Journal) bool {
	if !couldRun(uid) {
		return false
	}
	if j.Durable(uid, false) {
		return true
	}
	view, err := e.Cache.Get(uid)
	return err != nil || !e.Cache.Synced() || view.ContainersRunning()
}
