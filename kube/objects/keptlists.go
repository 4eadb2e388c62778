package objects

import (
	"maps"
	"time"

	"k8s.io/utils/clock"

	"github.com/podwright/podwright/kube/offline"
)

// kept is what a listing keeps for a restart without an API server: the objects of the namespaces that pods asked for,
// an entry each. The zero value keeps nothing.
type kept[T any] struct {
	cache *offline.Cache
	kind  string
	slim  func(T) T
	clock clock.Clock
	// items by namespace and name, as they were before the start.
	items map[string]map[string]T
	asked map[string]bool
	// since is when the list was first wanted: by Run, or by a pod before.
	since time.Time
}

// recall reads what was kept before the start. It is called before the listing is used.
func (l *listing[T]) recall(o ListOptions, kind string, slim func(T) T) {
	if o.Cache == nil {
		return
	}
	l.kept = kept[T]{cache: o.Cache, kind: kind, slim: slim, clock: o.Clock, items: map[string]map[string]T{}, asked: map[string]bool{}}
	for _, e := range o.Cache.Entries(kind) {
		items := map[string]T{}
		if o.Cache.Get(e, &items) {
			l.kept.items[e.Namespace] = items
		}
	}
}

// begin notes that the API server is waited for from now on, if it was not before.
func (k *kept[T]) begin() {
	if k.cache != nil && k.since.IsZero() {
		k.since = k.clock.Now()
	}
}

// overdue reports whether the API server has been waited for long enough.
func (k *kept[T]) overdue() bool {
	return k.cache != nil && k.clock.Since(k.since) >= patience
}

// ask notes that a pod needs a namespace. l.mu must be held.
func (l *listing[T]) ask(namespace string) {
	if l.kept.cache == nil {
		return
	}
	l.kept.begin()
	if !l.kept.asked[namespace] {
		l.kept.asked[namespace] = true
		if l.synced {
			l.keep(namespace)
		}
	}
}

// keep has the cache hold a namespace that a pod needs as it is now. l.mu must be held.
func (l *listing[T]) keep(namespace string) {
	if l.kept.cache == nil || !l.kept.asked[namespace] || !l.synced {
		return
	}
	slim := maps.Clone(l.items[namespace])
	for name, item := range slim {
		slim[name] = l.kept.slim(item)
	}
	if slim == nil {
		slim = map[string]T{} // it is known that there are none
	}
	l.kept.cache.Put(offline.Entry{Kind: l.kept.kind, Namespace: namespace}, slim)
	delete(l.kept.items, namespace)
}
