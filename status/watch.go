package status

import (
	"context"
	"errors"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/timing"
)

// ErrGap is what [Manager.Changes] yields when changes were dropped before its caller took them.
var ErrGap = errors.New("status watch: changes were missed")

// errEnded says that the manager's Run has returned.
var errEnded = errors.New("the status manager has ended")

// Change is one accepted change of a pod's status.
type Change struct {
	UID       types.UID
	Namespace string
	Name      string
	// Version counts the accepted changes of the pod, from 1.
	Version uint64
	// Status is the status after the change. Read-only.
	Status *v1.PodStatus
	// Finished: the status is final and the engine no longer holds anything for the pod.
	Finished bool
	// Forgotten: no source wants the pod, and the manager dropped it; Status is its end, Succeeded
	// or Failed. Only after an [ErrGap], Status is the last one this reader got, whatever its
	// phase; later ones were dropped.
	Forgotten bool
}

// watch returns the present status of all pods, in no particular order, and a watcher for the
// changes that follow. A watcher costs nothing while it is not used: it has no buffer and no
// goroutine, and needs no Close. From the first watch on, changes are kept in the manager's history
// (Options.History); a watcher that lags behind further gets [ErrGap] and slows nothing down.
func (m *Manager) watch() ([]Change, *watcher) {
	m.mu.Lock()
	defer m.mu.Unlock()
	list := make([]Change, 0, len(m.pods))
	for _, e := range m.pods {
		list = append(list, e.change())
	}
	m.history.begin()
	return list, &watcher{manager: m, next: m.history.end}
}

// watcher reads the stream of changes. It is for one goroutine at a time.
type watcher struct {
	manager *Manager
	next    uint64
}

// wait returns the next change, waiting for it if necessary. If changes were missed the error is
// [ErrGap], for this and all later calls; it is errEnded when ended was closed and nothing is left,
// otherwise that of ctx.
func (w *watcher) wait(ctx context.Context, ended <-chan struct{}) (Change, error) {
	for {
		over := timing.Ended(ended) // checked first, so that what came before the end is still returned
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
		if over {
			return Change{}, errEnded
		}
		select {
		case <-grown:
		case <-ended:
		case <-ctx.Done():
			return Change{}, ctx.Err()
		}
	}
}

// change describes an entry's present state. The manager's lock is held.
func (e *entry) change() Change {
	return Change{
		UID: e.uid, Namespace: e.pod.Namespace, Name: e.pod.Name,
		Version: e.version, Status: e.status, Finished: e.finished, Forgotten: !e.forgotten.IsZero(),
	}
}

// history is a ring of the newest changes since the first watch: without a watcher it would keep
// old statuses that cannot be read. Guarded by Manager.mu.
type history struct {
	limit int
	// ring holds the newest kept changes, number n at n modulo limit; nil before the first watcher.
	ring []Change
	kept int
	// end is the number of changes ever added, and so the number of the next one.
	end uint64
	// grown, if not nil, is closed at the next addition; a watcher waits for it.
	grown chan struct{}
}

// position says whether a change can be read, no longer be read, or not yet be read.
type position uint8

const (
	present position = iota
	dropped
	ahead
)

// begin starts keeping changes.
func (h *history) begin() {
	if h.ring == nil {
		h.ring = make([]Change, h.limit)
	}
}

// add appends a change and wakes the watchers.
func (h *history) add(c Change) {
	if h.ring != nil {
		h.ring[h.end%uint64(h.limit)] = c
		h.kept = min(h.kept+1, h.limit)
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
	case n+uint64(h.kept) < h.end: //nolint:gosec // not negative
		return Change{}, dropped
	}
	return h.ring[n%uint64(h.limit)], present
}
