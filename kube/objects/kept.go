package objects

import (
	"context"
	"errors"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podwright/podwright/internal/timing"
	"github.com/podwright/podwright/kube/offline"
	"github.com/podwright/podwright/runtime/cri"
)

const (
	// patience is how long to wait for the API server while the cache has an answer.
	patience = 2 * time.Second
	// absence is for how long a server that did not answer is not asked first: a pod with many objects waits once.
	absence = 10 * time.Second
)

// cached names an object's entry in the cache.
func cached(o Object) offline.Entry {
	return offline.Entry{Kind: o.Kind, Namespace: o.Namespace, Name: o.Name}
}

// get returns an object as the API server has it or, while the server has not answered about it
// since the start, as the cache has it (KO8).
func (s *Store) get(ctx context.Context, o Object) (any, error) {
	kept, away := s.kept(o)
	switch {
	case kept == nil:
		return s.ask(ctx, o)
	case away:
		return s.lend(o, kept), nil
	}
	limited, cancel := timing.WithTimeout(ctx, s.options.Clock, patience)
	defer cancel()
	found, err := s.ask(limited, o)
	switch {
	case err == nil:
		s.options.Cache.Put(cached(o), essence(found))
		return found, nil
	case cri.IsNotFound(err):
		s.options.Cache.Remove(cached(o))
		return nil, err
	}
	if ctx.Err() != nil { // the caller waits no longer, which says nothing of the server
		return s.lend(o, kept), nil
	}
	s.options.Logger.Info("The API server does not answer; pods get an object as it was before the restart",
		"kind", o.Kind, "namespace", o.Namespace, "name", o.Name, "error", err.Error())
	var said apierrors.APIStatus
	if !errors.As(err, &said) {
		s.mu.Lock()
		s.away = s.options.Clock.Now().Add(absence)
		s.mu.Unlock()
	}
	return s.lend(o, kept), nil
}

// kept returns what the cache has, nil once the API server has answered, and whether the API server is away.
func (s *Store) kept(o Object) (value any, away bool) {
	if s.options.Cache == nil {
		return nil, false
	}
	s.mu.Lock()
	e := s.entries[o]
	answered := e != nil && e.known
	away = s.options.Clock.Now().Before(s.away)
	s.mu.Unlock()
	if answered {
		return nil, false
	}
	switch o.Kind {
	case kindConfigMap:
		if c := (&v1.ConfigMap{}); s.options.Cache.Get(cached(o), c) {
			return c, away
		}
	case kindSecret:
		if c := (&v1.Secret{}); s.options.Cache.Get(cached(o), c) {
			return c, away
		}
	}
	return nil, false
}

// lend records which version a pod gets, so that it is told when the API server has another one.
func (s *Store) lend(o Object, value any) any {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lent[o] = version(value)
	if e := s.entries[o]; e != nil {
		e.told = false // it is not told of the first answer, but of another version
	}
	return value
}

// keep stores the API server's answer about an object in the cache, and reports whether pods got a
// different one from the cache before. s.mu must be held.
func (s *Store) keep(e *entry, value any) (differs bool) {
	o := e.object
	s.away = time.Time{}
	had, lent := s.lent[o]
	delete(s.lent, o)
	switch {
	case s.entries[o] != e: // no pod refers to it any more
	case value == nil:
		s.options.Cache.Remove(cached(o))
	default:
		s.options.Cache.Put(cached(o), essence(value))
	}
	return lent && had != version(value)
}

// essence is what pods see of an object, and what distinguishes it from others of its name.
func essence(value any) any {
	meta := func(m metav1.ObjectMeta) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: m.Namespace, Name: m.Name, UID: m.UID, ResourceVersion: m.ResourceVersion}
	}
	switch o := value.(type) {
	case *v1.ConfigMap:
		return &v1.ConfigMap{ObjectMeta: meta(o.ObjectMeta), Immutable: o.Immutable, Data: o.Data, BinaryData: o.BinaryData}
	case *v1.Secret:
		return &v1.Secret{ObjectMeta: meta(o.ObjectMeta), Immutable: o.Immutable, Data: o.Data, Type: o.Type}
	}
	return value
}
