package podsync

import (
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/podwright/podwright/runtime"
)

// unlistedLimit is how long an object may be missing from the lists after the runtime
// said that it made it. After that, the runtime is assumed to have lost it.
const unlistedLimit = 10 * time.Second

// unlisted tracks the sandboxes and containers that the runtime has made and no view has
// shown yet. Acting on a view without them would make them a second time.
type unlisted struct {
	clock clock.PassiveClock

	mu   sync.Mutex
	made map[types.UID]map[string]time.Time // object ID -> when it was made
}

func newUnlisted(c clock.PassiveClock) *unlisted {
	return &unlisted{clock: c, made: map[types.UID]map[string]time.Time{}}
}

// add notes an object that has just been made.
func (u *unlisted) add(uid types.UID, id string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.made[uid] == nil {
		u.made[uid] = map[string]time.Time{}
	}
	u.made[uid][id] = u.clock.Now()
}

// remove forgets an object that has just been removed.
func (u *unlisted) remove(uid types.UID, id string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.made[uid], id)
	if len(u.made[uid]) == 0 {
		delete(u.made, uid)
	}
}

// forget drops all objects of a pod.
func (u *unlisted) forget(uid types.UID) {
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.made, uid)
}

// check returns an error that names an object of the pod that the view does not
// show yet, nil if there is none. It forgets the objects that the view shows, and those
// that have been missing for too long.
func (u *unlisted) check(uid types.UID, view *runtime.PodStatus) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	made := u.made[uid]
	if view != nil {
		for _, s := range view.Sandboxes {
			delete(made, s.ID)
		}
		for _, c := range view.Containers {
			delete(made, c.ID.ID)
		}
	}
	for id, at := range made {
		if u.clock.Since(at) >= unlistedLimit {
			delete(made, id)
		}
	}
	for id := range made {
		return fmt.Errorf("the runtime made %s but does not list it yet; waiting until it does", id)
	}
	delete(u.made, uid)
	return nil
}
