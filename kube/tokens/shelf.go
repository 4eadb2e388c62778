package tokens

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/kube/offline"
)

const (
	// earlyPatience is how long to wait for the API server while there is an answer from before the start.
	earlyPatience = 2 * time.Second
	// absence is for how long a server that did not answer is not asked anything: many pods then wait only once.
	absence = 10 * time.Second
)

// shelf keeps answers for a restart without an API server (KK10). Without a cache it keeps nothing.
type shelf[K comparable, V any] struct {
	cache *offline.Cache
	entry func(K) offline.Entry
	// expires says that an answer's expiry time is kept with it.
	expires bool
}

// shelved is an answer on the shelf.
type shelved[V any] struct {
	Value   V         `json:"value"`
	Expires time.Time `json:"expires,omitzero"`
}

func (s shelf[K, V]) put(key K, a answer[V]) {
	if s.cache == nil {
		return
	}
	kept := shelved[V]{Value: a.value}
	if s.expires {
		kept.Expires = a.expires
	}
	s.cache.Put(s.entry(key), kept)
}

func (s shelf[K, V]) remove(key K) {
	if s.cache != nil {
		s.cache.Remove(s.entry(key))
	}
}

// recall takes an answer from the shelf the first time that it is requested. It is due at once,
// because a clock that lost its time says little about the answer's age.
func (k *keeper[K, V]) recall(key K, e *kept[V]) {
	if k.shelf.cache == nil {
		return
	}
	e.recalled.Do(func() {
		var early shelved[V]
		if !k.shelf.cache.Get(k.shelf.entry(key), &early) {
			return
		}
		k.mu.Lock()
		defer k.mu.Unlock()
		if !e.good && e.err == nil {
			e.answer, e.good, e.early = answer[V]{value: early.Value, expires: early.Expires}, true, true
		}
	})
}

// forget drops a pod's entries of a kind from a cache.
func forget(c *offline.Cache, kind string, uid types.UID) {
	for _, e := range c.Entries(kind) {
		if e.Pod == uid {
			c.Remove(e)
		}
	}
}
