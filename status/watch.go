package status

import (
	"context"
	"errors"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// ErrGap is returned by [Watcher.Next] when changes were dropped before the
// watcher took them. Call [Manager.List] and watch from its token.
var ErrGap = errors.New("status watch: changes were missed")

// ChangeType says what happened to a pod's status.
type ChangeType uint8

// Change types.
const (
	// Updated: the pod has a new status, maybe its first.
	Updated ChangeType = iota + 1
	// Finished: the pod has its final status and the engine holds nothing for it
	// any more.
	Finished
	// Forgotten: the manager dropped the pod; Status is the last one it had.
	Forgotten
)

// Change is one accepted change of a pod's status.
type Change struct {
	Type      ChangeType
	UID       types.UID
	Namespace string
	Name      string
	// Version counts the accepted changes of the pod, from 1.
	Version uint64
	// Status is the status after the change. Read-only.
	Status *v1.PodStatus
}

// Token is a position in the stream of changes of one manager. The zero Token is
// the beginning of the stream.
type Token struct {
	next uint64
}

// List returns the present status of all pods, in no particular order, and the
// token to watch from so that nothing after this snapshot is missed.
func (m *Manager) List() ([]Change, Token) {
	m.mu.Lock()
	defer m.mu.Unlock()
	list := make([]Change, 0, len(m.pods))
	for _, e := range m.pods {
		list = append(list, e.change())
	}
	return list, Token{next: m.history.end}
}

// Watch returns a watcher for the changes after from. It costs nothing while it
// is not used: there is no buffer, no goroutine and nothing to close. Changes
// wait in the manager's history (Options.History); who lags behind further gets
// [ErrGap], and never slows anybody down.
func (m *Manager) Watch(from Token) *Watcher {
	return &Watcher{manager: m, next: from.next}
}

// Watcher reads the stream of changes. It is for one goroutine.
type Watcher struct {
	manager *Manager
	next    uint64
}

// Next returns the next change and waits for it if need be. Its error is
// [ErrGap] if changes were missed, for this and all later calls, or that of ctx.
func (w *Watcher) Next(ctx context.Context) (Change, error) {
	for {
		w.manager.mu.Lock()
		c, state := w.manager.history.at(w.next)
		var grown <-chan struct{}
		if state == ahead {
			grown = w.manager.history.growth()
		}
		w.manager.mu.Unlock()
		switch state {
		case present:
			w.next++
			return c, nil
		case dropped:
			return Change{}, ErrGap
		}
		select {
		case <-grown:
		case <-ctx.Done():
			return Change{}, ctx.Err()
		}
	}
}

// Token returns the watcher's position: a watch from it goes on after the last
// change Next returned.
func (w *Watcher) Token() Token { return Token{next: w.next} }

// change describes an entry's present state. The manager's lock is held.
func (e *entry) change() Change {
	c := Change{
		Type: Updated, UID: e.uid, Namespace: e.pod.Namespace, Name: e.pod.Name,
		Version: e.version, Status: e.status,
	}
	if e.finished {
		c.Type = Finished
	}
	return c
}

// history is a ring of the newest changes. Guarded by Manager.mu.
type history struct {
	limit int
	ring  []Change
	// end is the number of changes ever added: the number of the next one.
	end uint64
	// grown, if not nil, is closed at the next addition: somebody waits.
	grown chan struct{}
}

// position says whether a change can still be, or cannot yet be, read.
type position uint8

const (
	present position = iota
	dropped
	ahead
)

// add appends a change and wakes the watchers.
func (h *history) add(c Change) {
	if len(h.ring) < h.limit {
		h.ring = append(h.ring, c)
	} else {
		h.ring[h.end%uint64(h.limit)] = c
	}
	h.end++
	if h.grown != nil {
		close(h.grown)
		h.grown = nil
	}
}

// growth returns a channel that is closed at the next addition.
func (h *history) growth() <-chan struct{} {
	if h.grown == nil {
		h.grown = make(chan struct{})
	}
	return h.grown
}

// at returns change number n.
func (h *history) at(n uint64) (Change, position) {
	switch {
	case n >= h.end:
		return Change{}, ahead
	case n+uint64(len(h.ring)) < h.end:
		return Change{}, dropped
	}
	return h.ring[n%uint64(h.limit)], present
}
