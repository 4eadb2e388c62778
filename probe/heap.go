package probe

// timeline is a heap of workers by due time. Among equal times, startup and liveness come before
// readiness (9.4), then the worker that was added first. Every run goes through it six times, so it
// is written out for its one type.
type timeline []*worker

func (a *worker) before(b *worker) bool {
	if a.due != b.due {
		return a.due < b.due
	}
	if a.kind != b.kind && (a.kind == Readiness || b.kind == Readiness) {
		return b.kind == Readiness
	}
	return a.number < b.number
}

func (t *timeline) add(w *worker) {
	w.place = len(*t)
	*t = append(*t, w)
	t.rise(w)
}

func (t *timeline) take() *worker {
	w := (*t)[0]
	t.drop(w)
	return w
}

// drop removes a worker, wherever it is.
func (t *timeline) drop(w *worker) {
	h := *t
	last := h[len(h)-1]
	h[len(h)-1] = nil
	*t = h[:len(h)-1]
	if last != w {
		last.place = w.place
		h[last.place] = last
		t.place(last)
	}
	w.place = -1
}

// place moves a worker to where its new due time belongs; the worker may or may not be in the heap yet.
func (t *timeline) place(w *worker) {
	if w.place < 0 {
		t.add(w)
		return
	}
	t.rise(w)
	t.sink(w)
}

// rise moves a worker up past those that are due after it.
func (t timeline) rise(w *worker) {
	i := w.place
	for i > 0 {
		parent := (i - 1) / 2
		if !w.before(t[parent]) {
			break
		}
		t[i] = t[parent]
		t[i].place = i
		i = parent
	}
	t[i], w.place = w, i
}

// sink moves a worker down past those that are due before it.
func (t timeline) sink(w *worker) {
	i := w.place
	for {
		child := 2*i + 1
		if child+1 < len(t) && t[child+1].before(t[child]) {
			child++
		}
		if child >= len(t) || !t[child].before(w) {
			break
		}
		t[i] = t[child]
		t[i].place = i
		i = child
	}
	t[i], w.place = w, i
}
