package status

import (
	"context"
	"errors"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/timing"
)

// ErrGap is returned by [Watcher.Next] when changes were dropped before the watcher
// took them. Watch again.
var ErrGap = errors.New("status watch: changes were missed")

// errEnded: the manager's Run has returned.
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
	// Finished: the status is final and the engine holds nothing for the pod any more.
	Finished bool
	// Forgotten: no source wants the pod, and the manager dropped it; Status is the end of it,
	// Succeeded or Failed. Only after an [ErrGap] it is the last one that this reader was told,
	// of whatever phase: what came later is dropped.
	Forgotten bool
}

// Watch returns the present status of all pods, in no particular order, and a watcher
// for the changes after them. A watcher costs nothing while it is not used: it has no
// buffer and no goroutine, and needs no Close. From the first Watch on changes wait in the manager's
// history (Options.History); a watcher that lags behind further gets [ErrGap] and slows nothing
// down.
func (m *Manager) Watch() ([]Change, *Watcher) {
	m.mu.Lock()
	defer m.mu.Unlock()
	list := make([]Change, 0, len(m.pods))
	for _, e := range m.pods {
		list = append(list, e.change())
	}
	m.history.begin()
	return list, &Watcher{manager: m, next: m.history.end}
}

// Watcher reads the stream of changes. It is for one goroutine.
type Watcher struct {
	manager *Manager
	next    uint64
}

// Next returns the next change and waits for it if need be. Its error is
// [ErrGap] if changes were missed, for this and all later calls, or that of ctx.
func (w *Watcher) Next(ctx context.Context) (Change, error) { return w.wait(ctx, nil) }

// wait is Next that gives up, with errEnded, when there is nothing left after ended was closed.
func (w *Watcher) wait(ctx context.Context, ended <-chan struct{}) (Change, error) {
	for {
		over := timing.Ended(ended) // before the look: what came before the end is told
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

// history is a ring of the newest changes since somebody watched first: without a watcher it would
// keep old statuses that cannot be read. Guarded by Manager.mu.
type history struct {
	limit int
	// ring has change number n at n modulo limit, and the newest kept of them; nil before the first watcher.
	ring []Change
	kept int
	// end is the number of changes ever added: the number of the next one.
	end uint64
	// grown, if not nil, is closed at the next addition: a watcher waits.
	grown chan struct{}
}

// position says whether a change can still be, or cannot yet be, read.
type position uint8

const (
	present position = iota
	dropped
	ahead
)

// begin keeps changes from now on.
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
