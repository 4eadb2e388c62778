package podworkers

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/timing"
	"github.com/podwright/podwright/podworkers/internal/machine"
	"github.com/podwright/podwright/runtime"
)

// viewPatience is how long a pod that has to stop waits for a view before it is stopped
// without one (V8).
const viewPatience = 10 * time.Second

// unseen are the pods that have to stop and have no view.
type unseen struct {
	mu   sync.Mutex
	pods map[types.UID]unseenPod
}

type unseenPod struct {
	since time.Time
	// told is the grace in seconds with which the pod was told to stop; 0: its own.
	told  bool
	grace int64
}

// begin records that the pod waits for a view, and returns since when.
func (u *unseen) begin(uid types.UID, now time.Time) time.Time {
	u.mu.Lock()
	defer u.mu.Unlock()
	p, known := u.pods[uid]
	if !known {
		if u.pods == nil {
			u.pods = map[types.UID]unseenPod{}
		}
		p.since = now
		u.pods[uid] = p
	}
	return p.since
}

// end records that there is a view.
func (u *unseen) end(uid types.UID) {
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.pods, uid)
}

// due reports whether the pod must be told to stop: it was not told yet, or with a longer grace.
func (u *unseen) due(uid types.UID, grace *int64) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	p := u.pods[uid]
	return !p.told || grace != nil && (p.grace == 0 || *grace < p.grace)
}

func (u *unseen) told(uid types.UID, grace *int64) {
	u.mu.Lock()
	defer u.mu.Unlock()
	p := u.pods[uid]
	p.told = true
	if grace != nil {
		p.grace = *grace
	}
	u.pods[uid] = p
}

// prune forgets pods that are no longer known.
func (u *unseen) prune(known func(uid types.UID) bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	maps.DeleteFunc(u.pods, func(uid types.UID, _ unseenPod) bool { return !known(uid) })
}

// newView waits for a view that is new enough. A pod that has to stop and gets none for a while is
// stopped without one; its end still waits for the view (V8).
func (w *Workers) newView(ctx context.Context, c *call) (*runtime.PodStatus, error) {
	stopper, can := w.syncer.(UnseenStopper)
	if !can || c.Phase != machine.Terminating {
		return w.options.Views.GetNewerThan(ctx, c.UID, c.After)
	}
	left := viewPatience - w.options.Clock.Since(w.unseen.begin(c.UID, w.options.Clock.Now()))
	for ; ; left = viewPatience {
		limited, cancel := timing.WithTimeout(ctx, w.options.Clock, max(left, time.Millisecond))
		view, err := w.options.Views.GetNewerThan(limited, c.UID, c.After)
		late := limited.Err() != nil
		cancel()
		switch {
		case err == nil:
			w.unseen.end(c.UID)
			return view, nil
		case ctx.Err() != nil, !late && left > 0: // a failed reading is retried
			return nil, err
		}
		if w.unseen.due(c.UID, c.Grace) {
			w.stopUnseen(ctx, c, stopper)
		}
		if !late {
			return nil, err
		}
	}
}

// stopUnseen stops a pod that the runtime does not describe.
func (w *Workers) stopUnseen(ctx context.Context, c *call, stopper UnseenStopper) {
	w.enter(c, stepCall)
	err := func() (err error) {
		defer recovered(&err)
		if c.Record { // the decision is durable before its first effect
			if err := w.journal(ctx, c, c.Facts); err != nil {
				return err
			}
		}
		return stopper.StopUnseen(ctx, c.Pod, c.Grace)
	}()
	w.enter(c, stepView)
	if err != nil {
		w.options.Logger.Error(fmt.Errorf("stop a pod that the runtime does not describe: %w", err), "A pod was not stopped, and will be tried again", "uid", c.UID)
		return
	}
	w.unseen.told(c.UID, c.Grace)
}
