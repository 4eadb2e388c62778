package server

import (
	"crypto/sha256"
	"encoding/json"
	"sync"
	"time"

	"k8s.io/utils/clock"

	"github.com/podwright/podwright/kube/internal/elapsed"
)

// maxDecisions bounds each cache.
const maxDecisions = 1024

// digest identifies a question. It does not reveal a token.
type digest [sha256.Size]byte

// digestOf returns the digest of values that encode as JSON.
func digestOf(parts ...any) digest {
	// Strings, slices and maps of strings always encode.
	data, _ := json.Marshal(parts)
	return sha256.Sum256(data)
}

// cache keeps decisions until they expire, also while the machine is suspended, and at most
// maxDecisions of them: the oldest is dropped first. It is safe for concurrent use.
type cache[V any] struct {
	clock clock.PassiveClock

	mu      sync.Mutex
	entries map[digest]kept[V]
	order   []digest // of the entries, oldest first
}

type kept[V any] struct {
	value V
	until time.Time
}

func (c *cache[V]) get(key digest) (value V, ok bool) {
	now := c.clock.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	e, ok := c.entries[key]
	if !ok || elapsed.Reached(e.until, now) {
		return value, false
	}
	return e.value, true
}

func (c *cache[V]) put(key digest, value V, ttl time.Duration) {
	until := c.clock.Now().Add(ttl)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.entries == nil {
		c.entries = map[digest]kept[V]{}
	}
	if _, known := c.entries[key]; !known {
		if len(c.order) >= maxDecisions {
			delete(c.entries, c.order[0])
			c.order = append(c.order[:0], c.order[1:]...)
		}
		c.order = append(c.order, key)
	}
	c.entries[key] = kept[V]{value, until}
}
