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

// Changes yields the present status of every pod and then each change, in order per pod, until ctx ends, the caller
// breaks out of the loop, or Run has returned and nothing is left to yield. A slow caller delays only itself: when
// changes were dropped before it took them (Options.History), Changes yields [ErrGap] with a zero Change and then
// what the gap hid: the pods that changed, with their newest status, and those that are gone, as Forgotten with the
// last status the caller saw. A caller that ignores the error still ends up with the truth; one that counts changes
// knows that it missed some. Each iteration begins with a snapshot; use one per goroutine.
func (m *Manager) Changes(ctx context.Context) iter.Seq2[Change, error] {
	return func(yield func(Change, error) bool) {
		known := yielded{}
		list, changes := m.watch()
		for {
			for _, c := range known.compare(list) {
				if ctx.Err() != nil || !yield(c, nil) {
					return
				}
			}
			c, err := changes.wait(ctx, m.ended)
			switch {
			case ctx.Err() != nil:
				return
			case errors.Is(err, ErrGap):
				if !yield(Change{}, ErrGap) {
					return
				}
				list, changes = m.watch()
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

// yielded holds what a reader of changes knows of each pod.
type yielded map[types.UID]Change

// take records a change.
func (y yielded) take(c Change) {
	if c.Forgotten {
		delete(y, c.UID)
		return
	}
	y[c.UID] = c
}

// compare returns what has changed since, given all pods that exist now; nothing if there is no
// list. Pods that are gone come first, because another pod may have taken the name. The same
// version may belong to another life, so the status itself is compared too.
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
