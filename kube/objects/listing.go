package objects

import (
	"context"
	"errors"
	"sync"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"

	"github.com/podwright/podwright/kube/internal/reflection"
	"github.com/podwright/podwright/kube/offline"
)

// ListOptions configures [Services] and [RuntimeClasses].
type ListOptions struct {
	// Client reads the list. Required.
	Client kubernetes.Interface
	// Changed is called with what pods may wait for: each runtime class that is added or changes,
	// and the services once they are known. It must not block. An engine's ObjectChanged fits. Nil
	// means that pods look again within 10 s.
	Changed func(Object)
	// Cache keeps what pods have asked for, for a restart without an API server (KO8): the services of their
	// namespaces, as entries of the kind [offline.Services], or all runtime classes. Nil keeps nothing.
	Cache *offline.Cache
	// Clock is the time source. Nil means the real clock.
	Clock clock.Clock
	// Logger receives failures. Zero means silent.
	Logger logr.Logger
}

func (o *ListOptions) complete() error {
	if o.Client == nil {
		return errors.New("objects: Client is required")
	}
	if o.Changed == nil {
		o.Changed = func(Object) {}
	}
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	return nil
}

// listing has all objects of one kind.
type listing[T any] struct {
	// kind is the engine's name for it; whole says that changes are reported for the list, not for its items.
	kind    string
	whole   bool
	changed func(Object)

	mu     sync.RWMutex
	synced bool
	// items are indexed by namespace and name.
	items map[string]map[string]T
	// err is the last failure, nil once a list was received.
	err error
	// turn has a token while Run runs.
	turn chan struct{}
	// kept has what was known before the start.
	kept kept[T]
}

var _ cache.ReflectorStore = (*listing[any])(nil)

func newListing[T any](kind string, whole bool, changed func(Object)) *listing[T] {
	return &listing[T]{kind: kind, whole: whole, changed: changed, items: map[string]map[string]T{}, turn: make(chan struct{}, 1)}
}

// run reflects until ctx ends; a second concurrent run is refused.
func (l *listing[T]) run(ctx context.Context, r reflection.Reflection) error {
	select {
	case l.turn <- struct{}{}:
		defer func() { <-l.turn }()
	default:
		return errRunning
	}
	l.mu.Lock()
	l.kept.begin()
	l.mu.Unlock()
	r.Silence = silence
	r.Store, r.Failed = l, func(err error) {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.err = err
	}
	r.Run(ctx)
	return nil
}

func (l *listing[T]) Add(o any) error    { return l.put(o, true) }
func (l *listing[T]) Update(o any) error { return l.put(o, true) }

func (l *listing[T]) put(o any, tell bool) error {
	item, ok := o.(T)
	m, err := meta.Accessor(o)
	if !ok || err != nil {
		return err
	}
	m.SetManagedFields(nil)
	l.mu.Lock()
	if l.items[m.GetNamespace()] == nil {
		l.items[m.GetNamespace()] = map[string]T{}
	}
	l.items[m.GetNamespace()][m.GetName()] = item
	l.keep(m.GetNamespace())
	l.mu.Unlock()
	if tell && !l.whole {
		l.changed(Object{Kind: l.kind, Namespace: m.GetNamespace(), Name: m.GetName()})
	}
	return nil
}

func (l *listing[T]) Delete(o any) error {
	m, err := meta.Accessor(o)
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.items[m.GetNamespace()], m.GetName())
	if len(l.items[m.GetNamespace()]) == 0 {
		delete(l.items, m.GetNamespace())
	}
	l.keep(m.GetNamespace())
	return nil
}

// Replace takes a whole list, and reports what pods may have waited for.
func (l *listing[T]) Replace(list []any, _ string) error {
	next := newListing[T](l.kind, true, nil)
	var problems []error
	for _, o := range list {
		problems = append(problems, next.put(o, false))
	}
	l.mu.Lock()
	first := !l.synced
	old := l.items
	l.items, l.synced, l.err = next.items, true, nil
	l.keepAll()
	l.mu.Unlock()
	if l.whole {
		if first {
			l.changed(Object{Kind: l.kind, Namespace: "default"})
		}
		return errors.Join(problems...)
	}
	for namespace, items := range next.items {
		for name, item := range items {
			if was, known := old[namespace][name]; !known || version(was) != version(item) {
				l.changed(Object{Kind: l.kind, Namespace: namespace, Name: name})
			}
		}
	}
	return errors.Join(problems...)
}

// Resync does nothing.
func (l *listing[T]) Resync() error { return nil }

// in returns the objects of a namespace, and whether the list is known.
func (l *listing[T]) in(namespace string) ([]T, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	items, err := l.of(namespace)
	out := make([]T, 0, len(items))
	for _, item := range items {
		out = append(out, item)
	}
	return out, err == nil
}

// one returns an object, whether it exists, and why the list is not known.
func (l *listing[T]) one(namespace, name string) (item T, found bool, unknown error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	items, unknown := l.of(namespace)
	item, found = items[name]
	return item, found, unknown
}

// of returns the objects of a namespace, or why they are not known. l.mu must be held.
func (l *listing[T]) of(namespace string) (map[string]T, error) {
	l.ask(namespace)
	if l.synced {
		return l.items[namespace], nil
	}
	if l.err != nil || l.kept.overdue() {
		if items, ok := l.kept.items[namespace]; ok {
			return items, nil
		}
	}
	if l.err != nil {
		return nil, l.err
	}
	return nil, errors.New("the API server has not answered yet")
}
