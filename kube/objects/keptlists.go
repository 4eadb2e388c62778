package objects

import (
	"maps"
	"time"

	"k8s.io/utils/clock"

	"github.com/podwright/podwright/kube/offline"
)

// kept is what a listing keeps for a restart without an API server: the objects of the namespaces
// that pods asked for, one entry per namespace. The zero value keeps nothing.
type kept[T any] struct {
	cache *offline.Cache
	kind  string
	slim  func(T) T
	clock clock.Clock
	// items are indexed by namespace and name, as they were before the start.
	items map[string]map[string]T
	// asked are the namespaces that pods need, and whether the cache took them.
	asked map[string]bool
	// since is when the list was first needed, by Run or by a pod.
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

// begin starts the wait for the API server, unless it has started already.
func (k *kept[T]) begin() {
	if k.cache != nil && k.since.IsZero() {
		k.since = k.clock.Now()
	}
}

// overdue reports whether the API server has been waited for long enough.
func (k *kept[T]) overdue() bool {
	return k.cache != nil && k.clock.Since(k.since) >= patience
}

// ask records that a pod needs a namespace. What was dropped when a namespace had no pods is kept again. l.mu must be held.
func (l *listing[T]) ask(namespace string) {
	if l.kept.cache == nil {
		return
	}
	l.kept.begin()
	if _, asked := l.kept.asked[namespace]; !asked || l.kept.dropped(namespace) {
		l.kept.asked[namespace] = false
		l.keep(namespace)
	}
}

// dropped reports whether the cache has dropped a namespace that it took.
func (k *kept[T]) dropped(namespace string) bool {
	return k.asked[namespace] && !k.cache.Has(k.entry(namespace))
}

// keepAll stores the namespaces that pods need. Those that were dropped are not needed any more. l.mu must be held.
func (l *listing[T]) keepAll() {
	for namespace := range l.kept.asked {
		if l.kept.dropped(namespace) {
			delete(l.kept.asked, namespace)
		} else {
			l.keep(namespace)
		}
	}
}

// entry names what is kept of a namespace.
func (k *kept[T]) entry(namespace string) offline.Entry {
	return offline.Entry{Kind: k.kind, Namespace: namespace}
}

// keep stores the current state of a namespace that a pod needs in the cache. l.mu must be held.
func (l *listing[T]) keep(namespace string) {
	stored, asked := l.kept.asked[namespace]
	if l.kept.cache == nil || !asked || !l.synced {
		return
	}
	slim := maps.Clone(l.items[namespace])
	for name, item := range slim {
		slim[name] = l.kept.slim(item)
	}
	if slim == nil {
		slim = map[string]T{} // known to be empty
	}
	l.kept.cache.Put(l.kept.entry(namespace), slim)
	l.kept.asked[namespace] = stored || l.kept.cache.Has(l.kept.entry(namespace)) // a full cache takes none
	delete(l.kept.items, namespace)
}
