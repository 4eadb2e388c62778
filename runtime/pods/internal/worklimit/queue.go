package worklimit

import (
	"container/heap"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Rules say how many calls are made at a time.
type Rules struct {
	// Limit is the number of slots. 0 or less: no limit.
	Limit int
	// A call that is unanswered for its patience counts as waiting: its slot goes to the
	// next. The patience is ten times what calls of the same method usually take, in these
	// bounds.
	LeastPatience, MostPatience time.Duration
	// Opens lifts the limit for MostPatience once as many calls as there are slots were not
	// answered in time, within MostPatience: the runtime does not work on them, it hangs.
	Opens bool
}

// Job is a call to make.
type Job struct {
	// Pod for which the call is made. After a call that was not answered in time, its
	// later calls go behind those of other pods. Empty: no call goes behind.
	Pod types.UID
	// Call is the method's name. Container is what it is about, and Name that of the pod or
	// image; both are only for display.
	Call, Container, Name string
	// First puts the call before others.
	First bool
	// Place is when the pod's start began, so that the pod keeps its place from call to
	// call.
	Place time.Time
}

// state is how far a turn has come.
type state uint8

const (
	waiting state = iota
	working
	late // still unanswered, without its slot
	ended
)

// Turn is one call, from asking to its end.
type Turn struct {
	Job
	asked, began time.Time
	state        state
	// behind: the pod's last call was not answered in time.
	behind bool
	// forgotten: the pod is gone, and nothing more is remembered of it.
	forgotten bool
	seq       uint64
	index     int           // in the heap
	wake      chan struct{} // belongs to the Limiter
}

// Queue decides who may call. It is not safe for concurrent use.
type Queue struct {
	rules   Rules
	waiting order
	working []*Turn // those with a slot, oldest first
	behind  int     // how many of working are behind
	calls   map[*Turn]struct{}
	// slow are the pods whose last call was not answered in time.
	slow map[types.UID]bool
	// answers are kept per method: a sandbox, which waits for the pod's network, takes many
	// times as long as a container.
	answers map[string]*answers
	// ahead is how many calls in a row went before others that waited.
	ahead int
	// missed is a ring of the times when calls were not answered in time, one per
	// slot: once it is full, the oldest is at index misses. It grows with the calls, since a
	// limit may be as high as its caller likes.
	missed    []time.Time
	misses    int
	openUntil time.Time
	seq       uint64
}

// NewQueue returns an empty queue.
func NewQueue(rules Rules) *Queue {
	return &Queue{
		rules: rules, calls: map[*Turn]struct{}{}, slow: map[types.UID]bool{}, answers: map[string]*answers{},
	}
}

// Ask adds a call. The next Step says whether it may be made.
func (q *Queue) Ask(now time.Time, job Job) *Turn {
	q.seq++
	t := &Turn{Job: job, asked: now, seq: q.seq, behind: q.slow[job.Pod]}
	heap.Push(&q.waiting, t)
	q.calls[t] = struct{}{}
	return t
}

// Step takes the slots of calls that are unanswered for too long and gives free slots to
// those that wait. It returns those that may call now, and how many slots were taken.
func (q *Queue) Step(now time.Time) (granted []*Turn, taken int) {
	for i := 0; i < len(q.working); {
		t := q.working[i]
		if now.Sub(t.began) < q.patience(t) {
			i++
			continue
		}
		q.miss(t, now) // takes it out
		taken++
	}
	for len(q.waiting) > 0 && q.free(q.waiting[0], now) {
		t := q.next()
		heap.Remove(&q.waiting, t.index)
		t.state, t.began = working, now
		q.working = append(q.working, t)
		if t.behind {
			q.behind++
		}
		granted = append(granted, t)
	}
	return granted, taken
}

// shareOfFirst is how many calls in a row may go before others that wait: every fourth call is
// one of the others. Otherwise many pods that restart as fast as the runtime works would keep
// every new pod from starting.
const shareOfFirst = 3

// next is the turn that comes next, of those that wait.
func (q *Queue) next() *Turn {
	t := q.waiting[0]
	if !t.First {
		q.ahead = 0
		return t
	}
	var other *Turn
	for _, o := range q.waiting {
		if !o.First && !o.behind && (other == nil || less(o, other)) {
			other = o
		}
	}
	if other == nil {
		q.ahead = 0
		return t
	}
	if q.ahead++; q.ahead > shareOfFirst {
		q.ahead = 0
		return other
	}
	return t
}

// free reports whether there is a slot for a call. Pods that are behind share half of the
// slots, so that others always find one that is not held by a pod known to hang.
func (q *Queue) free(t *Turn, now time.Time) bool {
	limit := q.rules.Limit
	switch {
	case limit <= 0:
		return true
	case t.behind:
		return len(q.working) < limit && q.behind < max(1, limit/2)
	default:
		return len(q.working) < limit || now.Before(q.openUntil)
	}
}

// miss takes the slot of a call that was not answered in time.
func (q *Queue) miss(t *Turn, now time.Time) {
	q.drop(t)
	t.state = late
	if t.Pod != "" && !t.forgotten {
		q.slow[t.Pod] = true
	}
	if t.behind || !q.rules.Opens || q.rules.Limit <= 0 {
		return // expected of a pod that is behind
	}
	if q.misses == len(q.missed) {
		q.missed = append(q.missed, now)
	}
	q.missed[q.misses] = now
	q.misses = (q.misses + 1) % q.rules.Limit
	if q.misses < len(q.missed) && now.Sub(q.missed[q.misses]) < q.rules.MostPatience {
		q.openUntil = now.Add(q.rules.MostPatience)
	}
}

// drop takes a turn out of those that have a slot.
func (q *Queue) drop(t *Turn) {
	i := slices.Index(q.working, t)
	q.working = slices.Delete(q.working, i, i+1)
	if t.behind {
		q.behind--
	}
}

// End removes a turn, whatever its state. answered is false if the caller gave up.
func (q *Queue) End(now time.Time, t *Turn, answered bool) {
	took := now.Sub(t.began)
	switch t.state {
	case waiting:
		heap.Remove(&q.waiting, t.index)
	case working:
		if took >= q.patience(t) {
			q.miss(t, now)
			break
		}
		q.drop(t)
		if answered && !t.forgotten {
			delete(q.slow, t.Pod)
		}
	}
	if t.state != waiting && answered && took < q.rules.MostPatience {
		a := q.answers[t.Call]
		if a == nil {
			a = &answers{}
			q.answers[t.Call] = a
		}
		a.add(took)
	}
	t.state = ended
	delete(q.calls, t)
}

// Forget drops what is known of a pod. Its calls under way end like any other.
func (q *Queue) Forget(pod types.UID) {
	delete(q.slow, pod)
	for t := range q.calls {
		t.forgotten = t.forgotten || t.Pod == pod
	}
}

// Next returns when Step has work even if nothing happens until then; false if never.
func (q *Queue) Next() (time.Time, bool) {
	if len(q.waiting) == 0 || len(q.working) == 0 {
		return time.Time{}, false
	}
	earliest := time.Time{}
	for _, t := range q.working {
		if due := t.began.Add(q.patience(t)); earliest.IsZero() || due.Before(earliest) {
			earliest = due
		}
	}
	return earliest, true
}

// patience is how long a call may keep its slot.
func (q *Queue) patience(t *Turn) time.Duration {
	return min(max(10*q.answers[t.Call].typical(), q.rules.LeastPatience), q.rules.MostPatience)
}

// answers are how long the last answered calls took.
type answers struct {
	took  [9]time.Duration
	count int
}

func (a *answers) add(took time.Duration) {
	a.took[a.count%len(a.took)] = took
	a.count++
}

// typical is their median, 0 if there are none.
func (a *answers) typical() time.Duration {
	if a == nil {
		return 0
	}
	n := min(a.count, len(a.took))
	if n == 0 {
		return 0
	}
	sorted := a.took
	slices.Sort(sorted[:n])
	return sorted[n/2]
}

// order is a heap of those that wait: pods that are behind last, then those that go
// first, then by place.
type order []*Turn

func (o order) Len() int { return len(o) }

func (o order) Less(i, j int) bool { return less(o[i], o[j]) }

func less(a, b *Turn) bool {
	switch {
	case a.behind != b.behind:
		return b.behind
	case a.First != b.First:
		return a.First
	case !a.Place.Equal(b.Place):
		return a.Place.Before(b.Place)
	}
	return a.seq < b.seq
}

func (o order) Swap(i, j int) {
	o[i], o[j] = o[j], o[i]
	o[i].index, o[j].index = i, j
}

// Push is for package heap.
func (o *order) Push(x any) {
	t := x.(*Turn) //nolint:forcetypeassert // only turns are pushed
	t.index = len(*o)
	*o = append(*o, t)
}

// Pop is for package heap.
func (o *order) Pop() any {
	last := len(*o) - 1
	t := (*o)[last]
	(*o)[last] = nil
	*o = (*o)[:last]
	return t
}
