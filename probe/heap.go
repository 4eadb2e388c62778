package probe

import (
	"cmp"
	"container/heap"
)

// timeline is a heap of workers by due time. At the same time startup and liveness
// come before readiness (9.4), then who was there first.
type timeline []*worker

// Len is for container/heap.
func (t timeline) Len() int { return len(t) }

// Less is for container/heap.
func (t timeline) Less(i, j int) bool {
	a, b := t[i], t[j]
	if a.due != b.due {
		return a.due < b.due
	}
	if a.kind != b.kind && (a.kind == Readiness || b.kind == Readiness) {
		return b.kind == Readiness
	}
	return cmp.Less(a.number, b.number)
}

// Swap is for container/heap.
func (t timeline) Swap(i, j int) {
	t[i], t[j] = t[j], t[i]
	t[i].place, t[j].place = i, j
}

// Push is for container/heap.
func (t *timeline) Push(x any) {
	w := x.(*worker)
	w.place = len(*t)
	*t = append(*t, w)
}

// Pop is for container/heap.
func (t *timeline) Pop() any {
	last := len(*t) - 1
	w := (*t)[last]
	(*t)[last] = nil
	*t = (*t)[:last]
	w.place = -1
	return w
}

func (t *timeline) add(w *worker) { heap.Push(t, w) }

func (t *timeline) take() *worker { return heap.Pop(t).(*worker) }

func (t *timeline) drop(w *worker) { heap.Remove(t, w.place) }

// place puts a worker where its new due time belongs, whether it is in the heap or not.
func (t *timeline) place(w *worker) {
	if w.place < 0 {
		t.add(w)
		return
	}
	heap.Fix(t, w.place)
}
