package statussink

import (
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/podwright/podwright/kube/internal/answers"
	"github.com/podwright/podwright/status"
)

const (
	// sweepAt is how many answers may be kept before a sweep for those that are no longer needed.
	sweepAt = 64
	// bridge is how long an answer stands in for a watch that is behind it. A watch that stays
	// behind may be right: a server that was restored from a backup has lost the write.
	bridge = 10 * time.Second
)

// copies returns the API server's state of a pod without a request: from the watch, or from the
// server's answer to the last call while the watch does not show that yet (KT5). Without it, a
// watch that lags would hide a write, and the status manager would find nothing to write although
// there is something.
type copies struct {
	lookup func(uid types.UID) *v1.Pod // nil means that nothing is kept
	clock  clock.PassiveClock

	mu sync.Mutex
	// newest is the server's last answer about each pod whose watch copy may be older.
	newest map[types.UID]lastAnswer
	// full is how many answers there may be before the next sweep.
	full int
}

// lastAnswer is a pod as the server returned it. A nil pod means that the state is unknown, because
// a call may have had an effect.
type lastAnswer struct {
	pod *v1.Pod
	at  time.Time
}

func newCopies(lookup func(uid types.UID) *v1.Pod, c clock.PassiveClock) *copies {
	return &copies{lookup: lookup, clock: c, newest: map[types.UID]lastAnswer{}, full: sweepAt}
}

// fresh returns the pod if its state is known, otherwise nil: then ask the server.
func (c *copies) fresh(ref status.PodRef) *v1.Pod {
	if c.lookup == nil {
		return nil
	}
	watched := c.lookup(ref.UID)
	if watched == nil || watched.UID != ref.UID || watched.Namespace != ref.Namespace || watched.Name != ref.Name {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	newest, kept := c.newest[ref.UID]
	switch {
	case !kept:
		return watched
	case newest.pod == nil:
		return nil
	case older(watched, newest.pod):
		if c.clock.Since(newest.at) < bridge {
			return newest.pod
		}
		return nil
	}
	delete(c.newest, ref.UID)
	return watched
}

// note records the server's answer.
func (c *copies) note(pod *v1.Pod) { c.keep(pod.UID, pod) }

// unknown records that a call may or may not have had an effect.
func (c *copies) unknown(uid types.UID) { c.keep(uid, nil) }

func (c *copies) keep(uid types.UID, pod *v1.Pod) {
	if c.lookup == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.newest[uid] = lastAnswer{pod, c.clock.Now()}
	if len(c.newest) <= c.full {
		return
	}
	for uid, newest := range c.newest {
		watched := c.lookup(uid)
		if watched == nil || newest.pod != nil && !older(watched, newest.pod) {
			delete(c.newest, uid)
		}
	}
	c.full = max(sweepAt, 2*len(c.newest))
}

// forget drops what is kept of a life that is over.
func (c *copies) forget(uid types.UID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.newest, uid)
}

// gone reports whether there is a watch and it shows no pod with this UID.
func (c *copies) gone(uid types.UID) bool { return c.lookup != nil && c.lookup(uid) == nil }

// of returns the pod that a status was read from, if it is still available.
func (c *copies) of(uid types.UID, base *v1.PodStatus) *v1.Pod {
	if c.lookup == nil {
		return nil
	}
	if watched := c.lookup(uid); watched != nil && &watched.Status == base {
		return watched
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if newest := c.newest[uid].pod; newest != nil && &newest.Status == base {
		return newest
	}
	return nil
}

func older(a, b *v1.Pod) bool { return answers.Older(a.ResourceVersion, b.ResourceVersion) }
