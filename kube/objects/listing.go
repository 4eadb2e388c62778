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
)

// ListOptions configures [Services] and [RuntimeClasses].
type ListOptions struct {
	// Client reads the list. Required.
	Client kubernetes.Interface
	// Changed is told what pods may wait for: each runtime class that comes or changes, and the
	// services once they are known. It must not block. An engine's ObjectChanged fits. Nil: pods look
	// again within 10 s.
	Changed func(Object)
	// Clock is the time source. Nil: the real clock.
	Clock clock.Clock
	// Logger receives what fails. Zero: silent.
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
	// kind as an engine names it; whole says that it is told of the list, not of its items.
	kind    string
	whole   bool
	changed func(Object)

	mu     sync.RWMutex
	synced bool
	// items by namespace and name.
	items map[string]map[string]T
	// err is the last failure, nil once a list came.
	err error
	// turn has a token while Run goes on.
	turn chan struct{}
}

var _ cache.ReflectorStore = (*listing[any])(nil)

func newListing[T any](kind string, whole bool, changed func(Object)) *listing[T] {
	return &listing[T]{kind: kind, whole: whole, changed: changed, items: map[string]map[string]T{}, turn: make(chan struct{}, 1)}
}

// run reflects until ctx ends; a second one at a time is refused.
func (l *listing[T]) run(ctx context.Context, r reflection.Reflection) error {
	select {
	case l.turn <- struct{}{}:
		defer func() { <-l.turn }()
	default:
		return ErrRunning
	}
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
	return nil
}

// Replace takes a whole list. Pods are told of what they may have waited for.
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
	l.mu.Unlock()
	if l.whole {
		if first {
			l.changed(Object{Kind: l.kind, Namespace: "default"})
		}
		return errors.Join(problems...)
	}
	for namespace, items := range next.items {
		for name := range items {
			if _, known := old[namespace][name]; !known {
				l.changed(Object{Kind: l.kind, Namespace: namespace, Name: name})
			}
		}
	}
	return errors.Join(problems...)
}

// Resync has nothing to do.
func (l *listing[T]) Resync() error { return nil }

// in returns the objects of a namespace, and whether the list is known.
func (l *listing[T]) in(namespace string) ([]T, bool) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	out := make([]T, 0, len(l.items[namespace]))
	for _, item := range l.items[namespace] {
		out = append(out, item)
	}
	return out, l.synced
}

// one returns an object, whether there is one, and why the list is not known.
func (l *listing[T]) one(namespace, name string) (item T, found bool, unknown error) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	item, found = l.items[namespace][name]
	if !l.synced {
		unknown = errors.New("the API server has not answered yet")
		if l.err != nil {
			unknown = l.err
		}
	}
	return item, found, unknown
}
