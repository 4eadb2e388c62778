package podwright

import (
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/podwright/podwright/runtime"
)

// unseenLimit is how long an object may be missing from the lists after the runtime
// said that it made it. A runtime that takes longer is believed to have lost it.
const unseenLimit = 10 * time.Second

// unseen are the sandboxes and containers the engine has made and no view has shown
// yet. Acting on a view without them would make them a second time.
type unseen struct {
	clock clock.PassiveClock

	mu   sync.Mutex
	made map[types.UID]map[string]time.Time // object ID -> when it was made
}

func newUnseen(c clock.PassiveClock) *unseen {
	return &unseen{clock: c, made: map[types.UID]map[string]time.Time{}}
}

// add notes an object that has just been made.
func (u *unseen) add(uid types.UID, id string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.made[uid] == nil {
		u.made[uid] = map[string]time.Time{}
	}
	u.made[uid][id] = u.clock.Now()
}

// gone forgets an object that has just been removed, or all of a pod for "".
func (u *unseen) gone(uid types.UID, id string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if id != "" {
		delete(u.made[uid], id)
	}
	if id == "" || len(u.made[uid]) == 0 {
		delete(u.made, uid)
	}
}

// check returns an error that names an object of the pod that the view does not
// show yet, nil if there is none. What it shows, and what has been missing for too
// long, is forgotten.
func (u *unseen) check(uid types.UID, view *runtime.PodStatus) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	made := u.made[uid]
	if len(made) == 0 {
		return nil
	}
	if view != nil {
		for _, s := range view.Sandboxes {
			delete(made, s.ID)
		}
		for _, c := range view.Containers {
			delete(made, c.ID.ID)
		}
	}
	for id, at := range made {
		if u.clock.Since(at) >= unseenLimit {
			delete(made, id)
		}
	}
	if len(made) == 0 {
		delete(u.made, uid)
		return nil
	}
	for id := range made {
		return fmt.Errorf("the runtime made %s and does not list it yet; waiting for that", id)
	}
	return nil
}
