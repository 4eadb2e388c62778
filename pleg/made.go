package pleg

import (
	"context"
	"errors"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/podorder"
	"github.com/podwright/podwright/runtime"
)

// What a syncer makes and removes is known without a list: a pod's objects are those of its status and of the latest
// list, plus what was made since, minus what was removed. So after the syncer's own calls, its pod
// is read by the IDs of its objects, which spares the runtime a list of everything (B14).

// madeObject is an object that a call for the pod has made. It is kept until a list has shown it
// and a reading that has it was published, or until a reading finds it gone. A runtime may list an
// object late; a reading without it would have it made a second time.
type madeObject struct {
	id string
	// sandboxID is the sandbox of a container, empty for a sandbox.
	sandboxID string
	listed    bool
	unreadCount
}

// Made says that the runtime has just made an object for the pod. From now on every reading of the
// pod includes it, by its ID if the list lacks it, until the runtime says that it is gone.
// sandboxID is the sandbox of a container, empty for a sandbox.
func (g *Generator) Made(uid types.UID, id, sandboxID string) {
	g.mu.Lock()
	defer g.unlock()
	r := g.ensure(uid)
	r.tracked = true
	r.made = append(r.made, madeObject{id: id, sandboxID: sandboxID})
}

// Removed says that the runtime has just removed an object of the pod, so that ReadObjects does not
// look for it.
func (g *Generator) Removed(uid types.UID, id string) {
	g.mu.Lock()
	defer g.unlock()
	r := g.ensure(uid)
	r.made = slices.DeleteFunc(r.made, func(m madeObject) bool { return m.id == id })
	r.gone = append(r.gone, id)
}

// Described hands in what the caller has read of a sandbox that it has just made, during a Hold.
// The next ReadObjects of that hold uses it instead of reading the sandbox again (the containers
// started since show that it was ready), unless [Generator.Report] says meanwhile that it has
// changed. If the sandbox ends all the same, the next list differs (R5).
func (g *Generator) Described(uid types.UID, sandbox *runtime.SandboxStatus) {
	g.mu.Lock()
	defer g.unlock()
	r := g.pods[uid]
	if r == nil || r.holds == 0 || !slices.ContainsFunc(r.made, func(m madeObject) bool { return m.id == sandbox.ID }) {
		return
	}
	r.described = sandbox
}

// ReadObjects is [Generator.ReadNow] for a caller that has itself made everything that is new in
// the pod since the latest list: it reads the pod by the IDs of its objects. It makes a list only
// if none of these objects is left, or if it is not known what the pod had.
func (g *Generator) ReadObjects(ctx context.Context, uid types.UID) (*runtime.PodStatus, error) {
	return g.readNow(ctx, uid, &reader{done: make(chan struct{})})
}

// unseen reports whether something was made for the pod that no list, or no published reading, has yet. A list that lacks it
// says nothing: one before it may have had it.
func (r *record) unseen() bool { return len(r.made) > 0 }

// listedMade records that a list shows an object.
func (r *record) listedMade(id string) {
	for i := range r.made {
		if m := &r.made[i]; m.id == id {
			m.listed, m.unreadCount = true, unreadCount{}
		}
	}
}

// noteMade begins the count of the made objects that a reading could not read, and ends that of those that it could.
func (r *record) noteMade(j *job, readings []hiddenReading) {
	for _, reading := range readings {
		for i := range r.made {
			if m := &r.made[i]; m.id == reading.id {
				m.note(reading.unread, j.firstCount())
			}
		}
	}
}

// onceListed returns what was made, and lists had and lack now, one pod for each object: a runtime that has lost it may have no
// proper answer, so it is read apart from the rest, as hidden objects are (R7).
func (j *job) onceListed(shown []string) (pods []*runtime.Pod) {
	for _, m := range j.made {
		if m.listed && !slices.Contains(shown, m.id) && !slices.Contains(j.notFound, m.id) {
			pod := &runtime.Pod{UID: j.record.uid}
			addMade(pod, []madeObject{m})
			pods = append(pods, pod)
		}
	}
	return pods
}

// readMade reads such objects and adds them to the status. One that could not be read since enough lists have lacked it counts as
// gone; before that, it fails.
func (g *Generator) readMade(ctx context.Context, j *job, status *runtime.PodStatus, pods []*runtime.Pod) (readings []hiddenReading, failed error) {
	answers := g.readApart(ctx, pods)
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	for i, pod := range pods {
		id, a := singleID(pod), answers[i]
		readings = append(readings, hiddenReading{id: id, unread: a.err != nil})
		switch {
		case a.err == nil:
			merge(status, a.status, id)
		case !j.givesUp(id, g.options.ConfirmVanished):
			failed = errors.Join(failed, a.err)
		}
	}
	podorder.Status(status)
	return readings, failed
}

// givesUp reports whether more lists than limit have lacked a made object since it could not be read.
func (j *job) givesUp(id string, limit int) bool {
	return slices.ContainsFunc(j.made, func(m madeObject) bool { return m.id == id && m.unread && m.lists > limit })
}

// without returns the pod without the objects of others.
func without(pod *runtime.Pod, others []*runtime.Pod) *runtime.Pod {
	if len(others) == 0 {
		return pod
	}
	in := func(id string) bool {
		return slices.ContainsFunc(others, func(o *runtime.Pod) bool { return singleID(o) == id })
	}
	rest := *pod
	rest.Sandboxes = slices.DeleteFunc(slices.Clone(pod.Sandboxes), func(s *runtime.Sandbox) bool { return in(s.ID) })
	rest.Containers = slices.DeleteFunc(slices.Clone(pod.Containers), func(c *runtime.Container) bool { return in(c.ID.ID) })
	return &rest
}

// dropShown drops the made objects that both a list and a published reading have.
func (r *record) dropShown() {
	r.made = slices.DeleteFunc(r.made, func(m madeObject) bool {
		return m.listed && slices.ContainsFunc(r.objects, func(o object) bool { return o.id == m.id })
	})
}

// takeIn processes what a job found of objects that were made or removed.
func (r *record) takeIn(j *job, result *reading) {
	r.made = slices.DeleteFunc(r.made, func(m madeObject) bool { return slices.Contains(result.missing, m.id) })
	for i := range r.made {
		r.made[i].unreadCount = unreadCount{}
	}
	for _, id := range result.shown {
		r.listedMade(id)
	}
	r.dropShown()
	r.gone = slices.DeleteFunc(r.gone, func(id string) bool { return slices.Contains(j.gone, id) })
}

// complete reports whether all objects of the pod are known without another list.
func (g *Generator) complete(r *record) bool {
	return g.everListed && !r.reinspect && r.missing == 0 && !r.hiddenUnread()
}

// union returns all objects of a pod: those published, those of a list that was not read, and those
// made since, minus those removed.
func (g *Generator) union(r *record) *runtime.Pod {
	pod := &runtime.Pod{UID: r.uid, Name: r.name, Namespace: r.namespace}
	if status, err := g.cache.get(r.uid); err == nil {
		for _, s := range status.Sandboxes {
			pod.Sandboxes = append(pod.Sandboxes, &runtime.Sandbox{ID: s.ID})
		}
		for _, c := range status.Containers {
			pod.Containers = append(pod.Containers, &runtime.Container{ID: c.ID, Name: c.Name, SandboxID: c.SandboxID})
		}
	}
	if r.listed != nil {
		for _, s := range r.listed.Sandboxes {
			addSandbox(pod, s.ID)
		}
		for _, c := range r.listed.Containers {
			addContainer(pod, c.ID.ID, c.SandboxID)
		}
	}
	addMade(pod, r.made)
	pod.Sandboxes = slices.DeleteFunc(pod.Sandboxes, func(s *runtime.Sandbox) bool { return slices.Contains(r.gone, s.ID) })
	pod.Containers = slices.DeleteFunc(pod.Containers, func(c *runtime.Container) bool { return slices.Contains(r.gone, c.ID.ID) })
	return pod
}

// withMade returns the listed pod with what was made and the list lacks.
func (j *job) withMade(listed *runtime.Pod) *runtime.Pod {
	lacks := func(m madeObject) bool { return !has(listed, m.id) && !slices.Contains(j.notFound, m.id) }
	if !slices.ContainsFunc(j.made, lacks) {
		return listed
	}
	pod := *listed
	pod.Sandboxes, pod.Containers = slices.Clone(listed.Sandboxes), slices.Clone(listed.Containers)
	addMade(&pod, slices.DeleteFunc(slices.Clone(j.made), func(m madeObject) bool { return !lacks(m) }))
	return &pod
}

func addMade(pod *runtime.Pod, made []madeObject) {
	for _, m := range made {
		if m.sandboxID == "" {
			addSandbox(pod, m.id)
		} else {
			addContainer(pod, m.id, m.sandboxID)
		}
	}
}

func addSandbox(pod *runtime.Pod, id string) {
	if !has(pod, id) {
		pod.Sandboxes = append(pod.Sandboxes, &runtime.Sandbox{ID: id})
	}
}

func addContainer(pod *runtime.Pod, id, sandboxID string) {
	if !has(pod, id) {
		pod.Containers = append(pod.Containers, &runtime.Container{ID: runtime.ContainerID{ID: id}, SandboxID: sandboxID})
	}
}

func has(pod *runtime.Pod, id string) bool {
	return slices.ContainsFunc(pod.Sandboxes, func(s *runtime.Sandbox) bool { return s.ID == id }) ||
		slices.ContainsFunc(pod.Containers, func(c *runtime.Container) bool { return c.ID.ID == id })
}

func statusHas(status *runtime.PodStatus, id string) bool {
	return slices.ContainsFunc(status.Sandboxes, func(s *runtime.SandboxStatus) bool { return s.ID == id }) ||
		slices.ContainsFunc(status.Containers, func(c *runtime.ContainerStatus) bool { return c.ID.ID == id })
}

// readObjects reads a pod by the IDs of its objects. It returns false if nothing of the pod is
// there, which a list has to confirm.
func (g *Generator) readObjects(ctx context.Context, j *job) (result reading, found bool) {
	pod := *j.union
	pod.Stamp = g.view.Stamp()
	result.stamp = pod.Stamp
	if len(pod.Sandboxes)+len(pod.Containers) == 0 {
		return result, true // it has nothing, or what it had was removed
	}
	var known []*runtime.SandboxStatus
	if j.described != nil {
		known = append(known, j.described)
	}
	status, err := g.view.PodStatus(ctx, &pod, known...)
	if err != nil {
		result.err = err
		return result, true
	}
	if !holds(status) {
		j.notFound = idsOf(&pod)
		return reading{stamp: pod.Stamp}, false
	}
	for _, s := range status.Sandboxes {
		if status.Name == "" { // no list has shown the pod yet
			status.Name, status.Namespace = s.Labels[runtime.LabelPodName], s.Labels[runtime.LabelPodNamespace]
		}
	}
	result.pod, result.status = &pod, status
	for _, h := range j.hidden {
		if statusHas(status, h.id) { // no list has shown it meanwhile
			result.hidden = append(result.hidden, hiddenReading{id: h.id})
		}
	}
	result.fingerprint = g.printer.all(visible(statusObjects(status), result.hidden))
	result.missing = j.missing(status)
	return result, true
}

func idsOf(pod *runtime.Pod) (ids []string) {
	for _, s := range pod.Sandboxes {
		ids = append(ids, s.ID)
	}
	for _, c := range pod.Containers {
		ids = append(ids, c.ID.ID)
	}
	return ids
}

// missing returns what was made and a full reading does not have; nil stands for a reading that found nothing.
func (j *job) missing(status *runtime.PodStatus) (ids []string) {
	for _, m := range j.made {
		if status == nil || !statusHas(status, m.id) {
			ids = append(ids, m.id)
		}
	}
	return ids
}
