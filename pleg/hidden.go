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
// what happens to the rest of the pod. Before a pod's first reading, what was recalled takes the place of its status (R15).

// hiddenObject is an object of the published status that the latest list of its pod lacked, or a recalled one. It is read
// again when due, although the list does not change.
type hiddenObject struct {
	id string
	// recalled: no status has had the object yet; sandbox says what it is. waits counts the relists that have lacked it.
	recalled, sandbox bool
	waits             int
	unreadCount
	wait time.Duration
	due  time.Time
}

// unreadCount is how long an object that lists lack could not be read either: a runtime may have no proper answer for what it
// has lost (R7). unread: the latest reading has failed; lists counts the relists that have lacked the object since the first
// failure in a row.
type unreadCount struct {
	unread bool
	lists  int
}

// note takes a reading into account. lists is the count if it is the first that failed.
func (c *unreadCount) note(unread bool, lists int) {
	switch {
	case !unread:
		*c = unreadCount{}
	case !c.unread:
		*c = unreadCount{unread: true, lists: lists}
	}
}

// countList counts a relist that lacks the object.
func (c *unreadCount) countList() {
	if c.unread {
		c.lists++
	}
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

// hiddenBy returns the object with the ID, or nil.
func hiddenBy(hidden []hiddenObject, id string) *hiddenObject {
	if i := slices.IndexFunc(hidden, func(h hiddenObject) bool { return h.id == id }); i >= 0 {
		return &hidden[i]
	}
	return nil
}

// recall adds a container that no status has had yet.
func (r *record) recall(id string) {
	known := slices.ContainsFunc(r.objects, func(o object) bool { return o.id == id && !o.sandbox })
	if !known && hiddenBy(r.hidden, id) == nil {
		r.hidden = append(r.hidden, hiddenObject{id: id, recalled: true})
	}
}

// recallSandboxes recalls the sandboxes that containers name and the list lacks.
func (j *job) recallSandboxes(pod *runtime.Pod) {
	for _, c := range pod.Containers {
		if c.SandboxID != "" && !has(pod, c.SandboxID) && hiddenBy(j.hidden, c.SandboxID) == nil {
			j.hidden = append(j.hidden, hiddenObject{id: c.SandboxID, recalled: true, sandbox: true})
		}
	}
}

// recalls reports whether a recalled object is still to be read.
func (r *record) recalls() bool {
	return slices.ContainsFunc(r.hidden, func(h hiddenObject) bool { return h.recalled })
}

// covert reports whether the latest list lacked the whole pod, and its objects were read by their IDs all the same.
func (r *record) covert() bool {
	hides := func(o object) bool { return hiddenBy(r.hidden, o.id) != nil }
	return r.known && len(r.objects) > 0 && len(r.hidden) >= len(r.objects) && !slices.ContainsFunc(r.objects, func(o object) bool { return !hides(o) })
}

// hiddenDue reports whether a hidden object is to be read again. If the clock went back, it is.
func (r *record) hiddenDue(now time.Time) bool {
	for i := range r.hidden {
		if wait := r.hidden[i].due.Sub(now); wait <= 0 || wait > maxBackoff {
			return true
		}
	}
	return false
}

// countHidden counts a list for the hidden and made objects of the pod that could not be read, and reports whether there are any.
// Lists of ListRunning may directly follow each other, so they do not count.
func (r *record) countHidden(shared bool) (unread bool) {
	for i := range r.hidden {
		h := &r.hidden[i]
		unread = unread || h.unread || h.recalled
		if shared {
			continue
		}
		h.countList()
		if h.recalled {
			h.waits++
		}
	}
	for i := range r.made {
		m := &r.made[i]
		unread = unread || m.unread
		if !shared {
			m.countList()
		}
	}
	return unread
}

// hiddenUnread reports whether a hidden object could not be read, or was not yet.
func (r *record) hiddenUnread() bool {
	return slices.ContainsFunc(r.hidden, func(h hiddenObject) bool { return h.unread || h.recalled })
}

// listedAgain ends the count of the hidden objects that a list shows. They are hidden until a reading without them.
func (r *record) listedAgain(pod *runtime.Pod) {
	for i := range r.hidden {
		if has(pod, r.hidden[i].id) {
			h := &r.hidden[i]
			*h = hiddenObject{id: h.id, recalled: h.recalled, sandbox: h.sandbox}
		}
	}
}

// recalledSince returns what was recalled after the job had begun.
func (r *record) recalledSince(j *job) (hidden []hiddenObject) {
	for _, h := range r.hidden {
		if h.recalled && hiddenBy(j.hidden, h.id) == nil {
			hidden = append(hidden, h)
		}
	}
	return hidden
}

// hide returns what is hidden after a reading.
func (r *record) hide(j *job, readings []hiddenReading, now time.Time) (hidden []hiddenObject) {
	hidden = r.recalledSince(j)
	for _, reading := range readings {
		h := hiddenObject{id: reading.id}
		if known := hiddenBy(r.hidden, reading.id); known != nil {
			h = *known
		}
		h.recalled, h.waits = false, 0
		h.note(reading.unread, j.firstCount())
		if reading.unread {
			h.wait, h.due = 0, now
		} else {
			h.wait = backoff.Next(firstBackoff, maxBackoff, h.wait)
			h.due = now.Add(h.wait)
		}
		hidden = append(hidden, h)
	}
	return hidden
}

// noteUnread begins the count of the objects that a failed reading could not read, and ends that of those that it could.
func (r *record) noteUnread(j *job, readings []hiddenReading) {
	for _, reading := range readings {
		known := hiddenBy(r.hidden, reading.id)
		switch {
		case known != nil:
			known.note(reading.unread, j.firstCount())
		case reading.unread:
			h := hiddenObject{id: reading.id}
			if recalled := hiddenBy(j.hidden, reading.id); recalled != nil {
				h = *recalled // a sandbox that the job has recalled
			}
			h.unreadCount = unreadCount{unread: true, lists: j.firstCount()}
			r.hidden = append(r.hidden, h)
		}
	}
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
	if h := hiddenBy(j.hidden, id); h != nil && h.unread {
		return h.lists
	}
	return j.firstCount()
}

// waits is how many relists have lacked a recalled object, up to that of the job.
func (j *job) waits(id string) int {
	if h := hiddenBy(j.hidden, id); h != nil {
		return h.waits
	}
	return 0
}

// recalls reports whether the object was recalled.
func (j *job) recalls(id string) bool {
	h := hiddenBy(j.hidden, id)
	return h != nil && h.recalled
}

// unlisted returns what the pod's last status has or what was recalled, and the pod as listed lacks, one pod for each
// object, without what was removed or found to be gone.
func (j *job) unlisted(listed *runtime.Pod) (pods []*runtime.Pod) {
	lacks := func(id string) bool {
		return !has(listed, id) && !slices.Contains(j.gone, id) && !slices.Contains(j.notFound, id)
	}
	single := func() *runtime.Pod {
		pod := &runtime.Pod{UID: listed.UID, Name: listed.Name, Namespace: listed.Namespace, Stamp: listed.Stamp}
		pods = append(pods, pod)
		return pod
	}
	if j.last != nil {
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
	}
	for _, h := range j.hidden {
		switch {
		case !h.recalled || !lacks(h.id) || j.last != nil && statusHas(j.last, h.id):
		case h.sandbox:
			addSandbox(single(), h.id)
		default:
			addContainer(single(), h.id, "") // no status of a container says
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
// last state, until enough relists have lacked it: then it counts as gone. It fails if nothing of the pod could be read,
// or if a recalled object could not, which has no last state.
func (g *Generator) readHidden(ctx context.Context, j *job, status *runtime.PodStatus, unlisted []*runtime.Pod) (readings []hiddenReading, err error) {
	answers := g.readApart(ctx, unlisted)
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	read := holds(status)
	var failed, stateless error
	for i, pod := range unlisted {
		id, a := singleID(pod), answers[i]
		if j.recalls(id) {
			g.disown(status, pod, &a)
		}
		switch {
		case a.err == nil && !holds(a.status):
			j.notFound = append(j.notFound, id)
			continue
		case a.err == nil:
			read = true
			merge(status, a.status, id)
		case j.lacked(id) > g.options.ConfirmVanished:
			continue
		case j.recalls(id):
			stateless = errors.Join(stateless, a.err)
		default:
			failed = errors.Join(failed, a.err)
			merge(status, j.last, id)
		}
		readings = append(readings, hiddenReading{id: id, unread: a.err != nil})
	}
	podorder.Status(status)
	stateless = errors.Join(stateless, g.house(j, status))
	if stateless != nil || failed != nil && !read {
		return readings, errors.Join(stateless, failed)
	}
	return readings, nil
}

// readApart reads objects, each apart from the others.
func (g *Generator) readApart(ctx context.Context, pods []*runtime.Pod) []answer {
	answers := make([]answer, len(pods))
	var asked sync.WaitGroup
	for i, pod := range pods {
		asked.Go(func() { answers[i] = g.readHiddenObject(ctx, pod) })
	}
	asked.Wait()
	return answers
}

// disown turns the answer for a recalled object into that for one that is gone, unless the object is the pod's: what is
// remembered of a pod comes from its status, which others may have written. It also names a pod that no list has named.
func (g *Generator) disown(status *runtime.PodStatus, pod *runtime.Pod, a *answer) {
	if a.err != nil || !holds(a.status) {
		return
	}
	var id string
	var labels map[string]string
	if len(a.status.Sandboxes) > 0 {
		id, labels = a.status.Sandboxes[0].ID, a.status.Sandboxes[0].Labels
	} else {
		id, labels = a.status.Containers[0].ID.ID, a.status.Containers[0].Labels
	}
	if id != singleID(pod) || types.UID(labels[runtime.LabelPodUID]) != pod.UID || !g.view.Owns(labels) {
		a.status = &runtime.PodStatus{}
		return
	}
	if status.Name == "" {
		status.Name, status.Namespace = labels[runtime.LabelPodName], labels[runtime.LabelPodNamespace]
	}
}

// house finds the sandboxes of recalled containers: each was made in the newest sandbox that is not younger, and one that
// runs is not in a sandbox that has ended. If none is left, the list lacks it, and shown without it the pod would be
// replaced, or what was done in an older sandbox would count for this one. So it is not shown before a list has the
// sandbox. If a container is dead, that ends once enough relists have lacked it.
func (g *Generator) house(j *job, status *runtime.PodStatus) error {
	for _, c := range status.Containers {
		if c.SandboxID != "" || !j.recalls(c.ID.ID) {
			continue
		}
		i := slices.IndexFunc(status.Sandboxes, func(s *runtime.SandboxStatus) bool { return !s.CreatedAt.After(c.CreatedAt) })
		if i >= 0 && (c.State != runtime.Running || status.Sandboxes[i].State == runtime.Running) {
			c.SandboxID = status.Sandboxes[i].ID
			continue
		}
		mayRun := c.State == runtime.Running || c.State == runtime.Unknown
		if mayRun || j.waits(c.ID.ID) <= g.options.ConfirmVanished {
			return fmt.Errorf("the runtime has container %s (%s), and its list lacks the sandbox", c.Name, c.ID.ID)
		}
	}
	return nil
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
