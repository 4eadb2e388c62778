package status

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Changes yields the present status of every pod and then each change, in order per pod, until ctx ends, the
// caller breaks off, or Run has returned and there is nothing left to tell. A caller that is slow delays only itself: when changes were dropped before it took them
// (Options.History), Changes yields [ErrGap] beside a zero Change and then what the gap hid, the pods that
// have changed with their newest status and those that are gone as Forgotten, with the last status the caller had. So a caller that ignores the
// error still ends up with the truth, and one that counts changes knows that it missed some. Each call of the
// function it returns begins with a snapshot; that is for one goroutine at a time.
func (m *Manager) Changes(ctx context.Context) iter.Seq2[Change, error] {
	return func(yield func(Change, error) bool) {
		known := yielded{}
		list, watcher := m.Watch()
		for {
			for _, c := range known.compare(list) {
				if ctx.Err() != nil || !yield(c, nil) {
					return
				}
			}
			c, err := watcher.wait(ctx, m.ended)
			switch {
			case ctx.Err() != nil:
				return
			case errors.Is(err, ErrGap):
				if !yield(Change{}, ErrGap) {
					return
				}
				list, watcher = m.Watch()
			case err != nil:
				return
			default:
				list = nil
				if known.take(c); !yield(c, nil) {
					return
				}
			}
		}
	}
}

// yielded is what a reader of changes knows of each pod.
type yielded map[types.UID]Change

// take notes a change.
func (y yielded) take(c Change) {
	if c.Forgotten {
		delete(y, c.UID)
		return
	}
	y[c.UID] = c
}

// compare returns what has changed since, given all pods there are; nothing if there is no list. What is gone
// comes first, because another pod may have its name. The same version may be of another life, so the status
// itself is compared too.
func (y yielded) compare(list []Change) []Change {
	if list == nil {
		return nil
	}
	var changes []Change
	present := make(map[types.UID]*v1.PodStatus, len(list))
	for _, c := range list {
		present[c.UID] = c.Status
	}
	for uid, c := range y {
		if present[uid] == nil {
			c.Forgotten = true
			changes = append(changes, c)
		}
	}
	byName := func(a, b Change) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name), cmp.Compare(a.UID, b.UID))
	}
	slices.SortFunc(changes, byName)
	gone := len(changes)
	for _, c := range list {
		if before, ok := y[c.UID]; !ok || before != c {
			changes = append(changes, c)
		}
	}
	slices.SortFunc(changes[gone:], byName)
	for _, c := range changes {
		y.take(c)
	}
	return changes
}
