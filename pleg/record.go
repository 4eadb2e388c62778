package pleg

import (
	"cmp"
	"hash/maphash"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/runtime"
)

// record is everything that the generator holds of one pod besides the cache entry. It is guarded
// by Generator.mu.
type record struct {
	uid             types.UID
	name, namespace string

	// objects is what the published status shows, sorted; events are derived
	// from it. known is false until a reading succeeded.
	objects []object
	known   bool
	// fingerprint is that of a list that matches objects; stamp is that of the latest complete look
	// of any kind.
	fingerprint uint64
	stamp       runtime.Stamp

	// hidden are the objects that the latest list lacked. The fingerprint is without them.
	hidden []hiddenObject

	// partial is what the last reading that failed has found of a pod without a status.
	partial *runtime.PodStatus

	// disputed is the last reading that contradicted its list.
	disputed dispute

	// Scratch space for scanning a list: the list's number, the sum so far, whether something of
	// the pod is running (kept between lists) and whether a sandbox is ready.
	round   uint64
	scanned uint64
	alive   bool
	ready   bool
	// changedIn is the number of the last list whose fingerprint differed.
	changedIn uint64
	// missing counts the consecutive lists that lacked the pod although it may run.
	missing int

	// What is wanted of the pod: listed is a changed listing to be read, request the stamp of the
	// latest Refresh, readers are the waiting ReadNow calls.
	listed    *runtime.Pod
	request   runtime.Stamp
	readers   []*reader
	reinspect bool
	// list: the request needs a list, because more may have been made than is known.
	list bool
	// batches are the relists that wait for this pod.
	batches []*batch
	// order is the number of the first change not delivered yet, 0 if there is none.
	order uint64

	holds  int
	queued queueing
	busy   bool
	// open mirrors the outstanding mark in the cache; why is for Dump.
	open bool
	why  string

	// failures counts the consecutive readings that ran out of time; the last one did at failed,
	// and the pod is left alone for backoff after it (B4).
	failures int
	failed   time.Time
	failing  time.Time // when the first of them began
	backoff  time.Duration
	warned   time.Time

	// reports holds the states that a syncer has reported, until a reading has been compared with
	// them (D7).
	reports map[string]runtime.State
	// made and gone are what calls for the pod have made and removed; described is a sandbox that
	// was read during a hold.
	made      []madeObject
	gone      []string
	described *runtime.SandboxStatus
	// tracked: what is made for the pod is reported with Made.
	tracked bool

	dropped bool
}

// dispute is a list and a status of one pod that show different states, and how often this happened
// in a row.
type dispute struct {
	shown, listed uint64
	times         int
}

// maxDisputes is how many contradictions in a row count as a habit of the runtime.
const maxDisputes = 10

// reader is one ReadNow or ReadObjects call.
type reader struct {
	list   bool
	done   chan struct{}
	status *runtime.PodStatus
	err    error
}

// batch is the set of pods one relist waits for. It is guarded by Generator.mu.
type batch struct {
	left int
	done chan struct{}
}

func (b *batch) finish() {
	if b.left--; b.left == 0 {
		close(b.done)
	}
}

// idle reports whether nothing but the cache refers to the record.
func (r *record) idle() bool {
	return !r.busy && r.holds == 0 && r.request == 0 && len(r.readers) == 0 && r.listed == nil && len(r.made) == 0
}

// resting reports whether the pod is being left alone after readings that ran out of time. If the
// clock goes back, the rest ends.
func (g *Generator) resting(r *record, now time.Time) bool {
	if r.failures == 0 {
		return false
	}
	since := now.Sub(r.failed)
	return since >= 0 && since < r.backoff || g.lostReads.of(r.uid) >= maxLostPerPod
}

// maxLostPerPod bounds how many lost calls one pod may cause: after that it is read again only when
// one of them returns. This bounds the goroutines of a runtime whose calls never return by the
// number of its pods, and no pod waits for another (B4, IN2). It is two rather than one, because a
// call may be lost together with its connection.
const maxLostPerPod = 2

// isEmpty reports whether a list has nothing of the pod.
func isEmpty(pod *runtime.Pod) bool { return len(pod.Sandboxes)+len(pod.Containers) == 0 }

// listedObjects returns the objects of a listing in record order.
func listedObjects(pod *runtime.Pod) []object {
	if pod == nil {
		return nil
	}
	objects := make([]object, 0, len(pod.Sandboxes)+len(pod.Containers))
	for _, s := range pod.Sandboxes {
		objects = append(objects, object{s.ID, true, objectStateOf(s.State)})
	}
	for _, c := range pod.Containers {
		objects = append(objects, object{c.ID.ID, false, objectStateOf(c.State)})
	}
	return normalize(objects)
}

// statusObjects returns the objects of a status in record order.
func statusObjects(status *runtime.PodStatus) []object {
	objects := make([]object, 0, len(status.Sandboxes)+len(status.Containers))
	for _, s := range status.Sandboxes {
		objects = append(objects, object{s.ID, true, objectStateOf(s.State)})
	}
	for _, c := range status.Containers {
		objects = append(objects, object{c.ID.ID, false, objectStateOf(c.State)})
	}
	return normalize(objects)
}

// normalize sorts objects into record order and keeps one of each ID.
func normalize(objects []object) []object {
	slices.SortFunc(objects, func(a, b object) int {
		switch {
		case a.before(b):
			return -1
		case b.before(a):
			return 1
		}
		return cmp.Compare(a.state, b.state)
	})
	return slices.CompactFunc(objects, func(a, b object) bool { return a.id == b.id && a.sandbox == b.sandbox })
}

// mayRun reports whether something of the pod ran in the latest list that had the pod, or in the latest reading. The list
// may be older, or partial.
func (r *record) mayRun() bool { return r.alive || anyRunning(r.objects) }

func anyRunning(objects []object) bool {
	return slices.ContainsFunc(objects, func(o object) bool { return o.state == running })
}

// printer makes fingerprints: the sum of a hash of each object, so the order of a list does not
// matter (B6). Each printer has its own seed, so no runtime can prepare IDs that collide.
type printer struct{ seed maphash.Seed }

func (p printer) object(id string, sandbox bool, state objectState) uint64 {
	h := maphash.String(p.seed, id)
	if sandbox {
		h ^= 0x9e3779b97f4a7c15
	}
	// A bijective mix: without it two objects that swap states would cancel out.
	h += uint64(state) * 0xbf58476d1ce4e5b9
	h ^= h >> 30
	h *= 0xbf58476d1ce4e5b9
	h ^= h >> 27
	h *= 0x94d049bb133111eb
	return h ^ h>>31
}

func (p printer) all(objects []object) (sum uint64) {
	for _, o := range objects {
		sum += p.object(o.id, o.sandbox, o.state)
	}
	return sum
}

// keepIPs is rule R11: a pod without a ready sandbox and without an address keeps the address it
// had, because a finished pod must keep its address in the API.
func keepIPs(status, cached *runtime.PodStatus) *runtime.PodStatus {
	if len(status.IPs) > 0 || cached == nil || len(cached.IPs) == 0 {
		return status
	}
	for _, s := range status.Sandboxes {
		if s.State == runtime.Running {
			return status
		}
	}
	kept := *status
	kept.IPs = cached.IPs
	return &kept
}

// behind reports whether a reading shows less than was reported of some object (D7): a lower state,
// or no state at all unless exited was the last one reported.
func behind(reports map[string]runtime.State, pod *runtime.Pod, status *runtime.PodStatus) bool {
	if len(reports) == 0 {
		return false
	}
	shown := map[string]runtime.State{}
	switch {
	case status != nil:
		for _, s := range status.Sandboxes {
			shown[s.ID] = s.State
		}
		for _, c := range status.Containers {
			shown[c.ID.ID] = c.State
		}
	case pod != nil:
		for _, s := range pod.Sandboxes {
			shown[s.ID] = s.State
		}
		for _, c := range pod.Containers {
			shown[c.ID.ID] = c.State
		}
	}
	for id, want := range reports {
		got, ok := shown[id]
		if !ok && want == runtime.Exited {
			continue
		}
		if !ok || got < want {
			return true
		}
	}
	return false
}
