package pleg

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/backoff"
	"github.com/podwright/podwright/internal/podorder"
	"github.com/podwright/podwright/runtime"
)

// A list may be partial, as that of a runtime that restarts between the two calls of a list, and only the answer to a
// reading by ID shows that an object is gone (R7). So what a published status has and the list of its pod lacks is read
// by its ID, apart from the rest: a runtime may have no proper answer for what it has forgotten, and that must not hide
// what happens to the rest of the pod.

// hiddenObject is an object of the published status that the latest list of its pod lacked. It is read again when due,
// although the list does not change.
type hiddenObject struct {
	id string
	// unread: the latest reading has failed; lists counts the relists that have lacked the object since the first
	// failure in a row.
	unread bool
	lists  int
	wait   time.Duration
	due    time.Time
}

// hiddenReading says whether an object that the list lacks could be read.
type hiddenReading struct {
	id     string
	unread bool
}

// hiddenLimit bounds the reading of one hidden object, and hiddenLinger is how long after that it may still return.
const (
	hiddenLimit  = time.Second
	hiddenLinger = 100 * time.Millisecond
)

// hiddenDue reports whether a hidden object is to be read again. If the clock went back, it is.
func (r *record) hiddenDue(now time.Time) bool {
	for i := range r.hidden {
		if wait := r.hidden[i].due.Sub(now); wait <= 0 || wait > maxBackoff {
			return true
		}
	}
	return false
}

// countHidden counts a list that shows the pod for its hidden objects that could not be read, and reports whether there are any.
// Lists of ListRunning may directly follow each other, so they do not count.
func (r *record) countHidden(shared bool) (unread bool) {
	for i := range r.hidden {
		if !r.hidden[i].unread {
			continue
		}
		unread = true
		if !shared {
			r.hidden[i].lists++
		}
	}
	return unread
}

// hiddenUnread reports whether a hidden object could not be read.
func (r *record) hiddenUnread() bool {
	return slices.ContainsFunc(r.hidden, func(h hiddenObject) bool { return h.unread })
}

// listedAgain ends the count of the hidden objects that a list shows. They are hidden until a reading without them.
func (r *record) listedAgain(pod *runtime.Pod) {
	for i := range r.hidden {
		if has(pod, r.hidden[i].id) {
			r.hidden[i] = hiddenObject{id: r.hidden[i].id}
		}
	}
}

// hide returns what is hidden after a reading.
func (r *record) hide(j *job, readings []hiddenReading, now time.Time) (hidden []hiddenObject) {
	for _, reading := range readings {
		h := hiddenObject{id: reading.id}
		if i := slices.IndexFunc(r.hidden, func(known hiddenObject) bool { return known.id == reading.id }); i >= 0 {
			h = r.hidden[i]
		}
		if reading.unread {
			if !h.unread {
				h.lists = j.firstCount()
			}
			h.unread, h.wait, h.due = true, 0, now
		} else {
			h.wait = backoff.Next(firstBackoff, maxBackoff, h.wait)
			h.unread, h.lists, h.due = false, 0, now.Add(h.wait)
		}
		hidden = append(hidden, h)
	}
	return hidden
}

// firstCount is the count of an object that could not be read for the first time: the list that the job reads counts.
func (j *job) firstCount() int {
	if j.listed != nil {
		return 1
	}
	return 0
}

// lacked is how many relists have lacked an object, up to that of the job, since it could not be read.
func (j *job) lacked(id string) int {
	if i := slices.IndexFunc(j.hidden, func(h hiddenObject) bool { return h.id == id && h.unread }); i >= 0 {
		return j.hidden[i].lists
	}
	return j.firstCount()
}

// unlisted returns what the pod's last status has and the pod as listed lacks, one pod for each object, without what was
// removed or found to be gone.
func (j *job) unlisted(listed *runtime.Pod) (pods []*runtime.Pod) {
	if j.last == nil {
		return nil
	}
	lacks := func(id string) bool {
		return !has(listed, id) && !slices.Contains(j.gone, id) && !slices.Contains(j.notFound, id)
	}
	single := func() *runtime.Pod {
		pod := &runtime.Pod{UID: listed.UID, Name: listed.Name, Namespace: listed.Namespace, Stamp: listed.Stamp}
		pods = append(pods, pod)
		return pod
	}
	for _, s := range j.last.Sandboxes {
		if lacks(s.ID) {
			addSandbox(single(), s.ID)
		}
	}
	for _, c := range j.last.Containers {
		if lacks(c.ID.ID) {
			addContainer(single(), c.ID.ID, c.SandboxID)
		}
	}
	return pods
}

// answer is the reading of one hidden object.
type answer struct {
	status *runtime.PodStatus
	err    error
}

// readHidden reads the objects that the list lacks and adds them to the status. One that could not be read keeps its
// last state, until enough relists have lacked it: then it counts as gone. It fails if nothing of the pod could be read.
func (g *Generator) readHidden(ctx context.Context, j *job, status *runtime.PodStatus, unlisted []*runtime.Pod) (readings []hiddenReading, err error) {
	answers := make([]answer, len(unlisted))
	var asked sync.WaitGroup
	for i, pod := range unlisted {
		asked.Go(func() { answers[i] = g.readHiddenObject(ctx, pod) })
	}
	asked.Wait()
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	read := holds(status)
	var failed error
	for i, pod := range unlisted {
		id, a := singleID(pod), answers[i]
		switch {
		case a.err == nil && !holds(a.status):
			j.notFound = append(j.notFound, id)
			continue
		case a.err == nil:
			read = true
			merge(status, a.status, id)
		case j.lacked(id) > g.options.ConfirmVanished:
			continue
		default:
			failed = errors.Join(failed, a.err)
			merge(status, j.last, id)
		}
		readings = append(readings, hiddenReading{id: id, unread: a.err != nil})
	}
	if failed != nil && !read {
		return nil, failed
	}
	podorder.Status(status)
	return readings, nil
}

// readHiddenObject reads one object within a limit of its own. While a call for it is lost, no other is made.
func (g *Generator) readHiddenObject(ctx context.Context, pod *runtime.Pod) answer {
	id := types.UID(singleID(pod))
	if g.lostHidden.of(id) > 0 {
		return answer{err: fmt.Errorf("%w: a reading of %s hangs", runtime.ErrDeadline, id)}
	}
	limit := min(hiddenLimit, g.options.InspectTimeout/2)
	l := limits{run: limit, linger: hiddenLinger, stop: hiddenLinger}
	a, end := bounded(ctx, g.options.Clock, l, g.lostHidden, id, nil, func(ctx context.Context) (a answer) {
		defer recovered(&a.err)
		a.status, a.err = g.view.PodStatus(ctx, pod)
		return a
	})
	if end != inTime {
		a.err = fmt.Errorf("%w: reading of %s took longer than %v", runtime.ErrDeadline, id, limit)
	}
	return a
}

// singleID is the ID of the only object of a pod.
func singleID(pod *runtime.Pod) string {
	if len(pod.Sandboxes) > 0 {
		return pod.Sandboxes[0].ID
	}
	return pod.Containers[0].ID.ID
}

func holds(status *runtime.PodStatus) bool {
	return len(status.Sandboxes)+len(status.Containers) > 0
}

// merge adds the object with the ID to the status.
func merge(status, from *runtime.PodStatus, id string) {
	for _, s := range from.Sandboxes {
		if s.ID == id {
			status.Sandboxes = append(status.Sandboxes, s)
		}
	}
	for _, c := range from.Containers {
		if c.ID.ID == id {
			status.Containers = append(status.Containers, c)
		}
	}
}

// visible returns the objects of a status without the hidden ones: those that the next list must show for the pod to be
// unchanged.
func visible(objects []object, readings []hiddenReading) []object {
	if len(readings) == 0 {
		return objects
	}
	return slices.DeleteFunc(slices.Clone(objects), func(o object) bool {
		return slices.ContainsFunc(readings, func(h hiddenReading) bool { return h.id == o.id })
	})
}
