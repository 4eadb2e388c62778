package node

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"

	"github.com/podwright/podwright/cleanup/eviction"
	"github.com/podwright/podwright/internal/podinfo"
	"github.com/podwright/podwright/internal/timing"
	"github.com/podwright/podwright/podworkers"
	"github.com/podwright/podwright/syncloop"
	"github.com/podwright/podwright/syncloop/admission"
	"github.com/podwright/podwright/syncloop/preemption"
)

// Reason and message of pods that had to make room.
const (
	reasonPreempting = "Preempting"
	preemptedMessage = "Preempted in order to admit critical pod"
)

// roomKept is how long others leave a pod without a verdict its room. If 1.5 times the grace of the
// pods that make room for it is longer, that counts (IN6).
const roomKept = 10 * time.Second

var (
	errMakingRoom = errors.New("pods are being stopped to make room for it")
	errRoomKept   = errors.New("the room it asks for is kept for pods that came before and wait for their admission")
)

// Gate judges pods; [admission.Gate] does.
type Gate interface {
	Admit(ctx context.Context, pod *v1.Pod, others iter.Seq[*v1.Pod]) (bool, error)
	Remembered(uid types.UID) bool
}

// Places says which pods have a place on the node.
type Places interface {
	// Judged reports whether the pod needs no verdict: it has one, or ends.
	Judged(pod *v1.Pod) bool
	// Place returns the pod with what it was granted, and whether it has a place.
	Place(pod *v1.Pod) (granted *v1.Pod, has bool)
	// Ending reports whether the pod has to stop, or has ended.
	Ending(pod *v1.Pod) bool
}

// PreemptionOptions configures [NewPreemption].
type PreemptionOptions struct {
	// Gate finally judges every pod.
	Gate Gate
	// Others are the gate's handlers that are not about room.
	Others []admission.Handler
	// Room are the gate's handlers that are about what pods use together.
	Room []admission.Handler
	// Node returns what pods may use together.
	Node      func() preemption.Node
	Places    Places
	Residents *Residents
	// Admitted hears of each pod that may run, in this life of the agent; optional.
	Admitted func(pod *v1.Pod)
	// Update hands an update of a pod to its worker.
	Update func(podworkers.UpdateOptions)
	// Critical reports whether the node needs a pod more than others.
	Critical func(pod *v1.Pod) bool
	// Usable returns why no pod should be stopped now.
	Usable func() error
	Clock  clock.PassiveClock
	Events podinfo.EventRecorder
	Logger logr.Logger
}

// Preemption is admission that makes room for critical pods that fail only on resources
// (spec/syncloop.md 16): it stops the fewest possible pods of lower priority, with their own grace,
// while the pod waits. It belongs to the loop's goroutine.
type Preemption struct {
	options PreemptionOptions
	// going holds the pods that were stopped for others and still have their place, and until when their room counts as
	// about to be free.
	going map[types.UID]time.Time
	// leaving holds the pods that stop for another reason, and until when their room counts as about to be free.
	leaving map[types.UID]time.Time
	// open holds the pods without a verdict; arrived counts how many there have been.
	open    map[types.UID]*open
	arrived int
}

var _ syncloop.Rememberer = (*Preemption)(nil)

// Room returns what pods may use together: a number of pods, unless 0, and resources. If those need
// not fit, only those count that a node has only if it declares them.
func (s *Self) Room(maxPods int, fit bool) func() preemption.Node {
	return func() preemption.Node {
		n := preemption.Node{MaxPods: maxPods, Allocatable: s.Allocatable()}
		if !fit {
			n.Allocatable = maps.Clone(n.Allocatable)
			maps.DeleteFunc(n.Allocatable, func(name v1.ResourceName, _ resource.Quantity) bool { return !podinfo.Scarce(name) })
		}
		return n
	}
}

// RoomHandlers refuse pods for which there is no [Self.Room].
func (s *Self) RoomHandlers(maxPods int, fit bool) []admission.Handler {
	resources := admission.Scarce
	if fit {
		resources = admission.Resources
	}
	return []admission.Handler{admission.PodCount(maxPods), resources(s.Allocatable)}
}

// NewPreemption returns an admission that makes room for critical pods.
func NewPreemption(options PreemptionOptions) *Preemption {
	return &Preemption{options: options, going: map[types.UID]time.Time{}, leaving: map[types.UID]time.Time{}, open: map[types.UID]*open{}}
}

// Remembered asks the gate.
func (p *Preemption) Remembered(uid types.UID) bool { return p.options.Gate.Remembered(uid) }

// Admit makes room, or asks the gate. A pod that would take the room of an earlier pod without a
// verdict waits too, for as long as that pod may (IN6).
func (p *Preemption) Admit(ctx context.Context, pod *v1.Pod, others iter.Seq[*v1.Pod]) (bool, error) {
	admitted, err := p.judge(ctx, pod, others)
	if admitted && p.options.Admitted != nil {
		p.options.Admitted(pod)
	}
	return admitted, err
}

// judge is Admit without its consequences.
func (p *Preemption) judge(ctx context.Context, pod *v1.Pod, others iter.Seq[*v1.Pod]) (bool, error) {
	o := p.options
	if o.Places.Judged(pod) {
		delete(p.open, pod.UID)
		return o.Gate.Admit(ctx, pod, others)
	}
	maps.DeleteFunc(p.open, func(uid types.UID, _ *open) bool {
		_, desired := o.Residents.Desired.Get(uid)
		return !desired && uid != pod.UID
	})
	maps.DeleteFunc(p.going, func(uid types.UID, _ time.Time) bool { return o.Residents.Finished(uid) })
	maps.DeleteFunc(p.leaving, func(uid types.UID, _ time.Time) bool { return o.Residents.Finished(uid) })
	admitted, err := p.admit(ctx, pod, others)
	if err == nil || yields(err) {
		delete(p.open, pod.UID) // it does not wait for room on the node
	} else {
		p.wait(pod)
	}
	return admitted, err
}

// admit is Admit for a pod without a verdict.
func (p *Preemption) admit(ctx context.Context, pod *v1.Pod, others iter.Seq[*v1.Pod]) (bool, error) {
	o := p.options
	critical := o.Critical(pod)
	ahead, until := p.ahead(pod, critical)
	if !critical && len(ahead) == 0 {
		return o.Gate.Admit(ctx, pod, others)
	}
	all, staying, stuck, free := p.places(others)
	if len(stuck) > 1 { // that is the fault of the runtime, and not a reason to tell one pod after the other
		p.again(stuck)
		stuck = nil
	}
	if !critical {
		fits, err := p.fits(pod, all, slices.Concat(staying, stuck, ahead))
		switch {
		case err != nil:
			return false, err
		case !fits:
			return false, p.behind(pod, until)
		}
		return o.Gate.Admit(ctx, pod, others)
	}
	if v, err := admission.Judge(o.Others, request(pod, all)); err != nil {
		return false, err
	} else if !v.Admitted() {
		return o.Gate.Admit(ctx, pod, others) // room would not help
	}
	room := o.Node()
	victims, err := preemption.Select(pod, slices.Concat(staying, stuck, ahead), room)
	if err != nil { // then what is stuck is waited for
		victims, err = preemption.Select(pod, slices.Concat(staying, ahead), room)
	}
	if err != nil {
		if _, err := preemption.Select(pod, staying, room); err == nil {
			return false, p.behind(pod, until)
		}
		o.Logger.Info("No room can be made for a critical pod", "uid", pod.UID, "error", err.Error())
		return o.Gate.Admit(ctx, pod, others)
	}
	if err := o.Usable(); err != nil && len(victims) > 0 {
		return false, fmt.Errorf("room for critical pod %s/%s has to wait: %w", pod.Namespace, pod.Name, err)
	}
	for _, v := range victims {
		p.stop(v, pod)
	}
	if now, err := preemption.Select(pod, all, room); err == nil && len(now) == 0 && len(victims) == 0 {
		return o.Gate.Admit(ctx, pod, others)
	}
	w := p.wait(pod)
	w.until = later(w.until, free)
	return false, &syncloop.WaitError{Err: fmt.Errorf("critical pod %s/%s: %w", pod.Namespace, pod.Name, errMakingRoom), Until: w.until}
}

// open is a pod without a verdict.
type open struct {
	pod   *v1.Pod
	order int // of arrival
	since time.Time
	// until is how long others leave it its room.
	until time.Time
}

// wait returns the wait of a pod, and begins it if necessary.
func (p *Preemption) wait(pod *v1.Pod) *open {
	w := p.open[pod.UID]
	if w == nil {
		p.arrived++
		now := p.options.Clock.Now()
		w = &open{order: p.arrived, since: now, until: now.Add(roomKept)}
		p.open[pod.UID] = w
	}
	w.pod = pod
	return w
}

// ahead returns the pods that came before this one and keep their room, and until when. A critical
// pod leaves room only to pods of its own priority or higher.
func (p *Preemption) ahead(pod *v1.Pod, critical bool) (ahead []preemption.Pod, until time.Time) {
	now, own := p.options.Clock.Now(), p.open[pod.UID]
	for uid, w := range p.open {
		if uid == pod.UID || !now.Before(w.until) || own != nil && own.order < w.order {
			continue
		}
		if critical && podinfo.ClaimedPriority(w.pod) < podinfo.ClaimedPriority(pod) {
			continue
		}
		ahead = append(ahead, preemption.Pod{Pod: w.pod, Class: podinfo.QoS(w.pod), Critical: true})
		if w.until.After(until) {
			until = w.until
		}
	}
	return ahead, until
}

// fits reports whether a pod has room beside those that keep theirs, or would have none without them.
func (p *Preemption) fits(pod *v1.Pod, all, kept []preemption.Pod) (bool, error) {
	v, err := admission.Judge(p.options.Room, request(pod, kept))
	if err != nil || v.Admitted() {
		return v.Admitted(), err
	}
	v, err = admission.Judge(p.options.Room, request(pod, all))
	return !v.Admitted(), err
}

// Fitting returns a function that reports whether a pod would get room beside these pods and those
// for which it has returned true before, by preempting some of them if the pod is critical. Fitting may be called
// from anywhere.
func (p *Preemption) Fitting(beside []*v1.Pod) func(pod *v1.Pod) bool {
	beside = slices.Clone(beside)
	var places []preemption.Pod // of beside, as far as a critical pod needed them
	return func(pod *v1.Pod) bool {
		v, err := admission.Judge(p.options.Room, admission.Request{Pod: pod, Others: slices.Values(beside)})
		fits := err == nil && v.Admitted()
		if err == nil && !fits && p.options.Critical(pod) {
			for _, other := range beside[len(places):] {
				places = append(places, preemption.Pod{Pod: other, Class: podinfo.QoS(other), Critical: p.options.Critical(other)})
			}
			victims, err := preemption.Select(pod, places, p.options.Node())
			fits = err == nil && len(victims) > 0 // without victims, making room does not help
		}
		if fits {
			beside = append(beside, pod)
		}
		return fits
	}
}

// behind makes a pod wait for those ahead of it.
func (p *Preemption) behind(pod *v1.Pod, until time.Time) error {
	p.wait(pod).until = until
	return &syncloop.WaitError{Err: errRoomKept, Until: until}
}

// request asks whether a pod may run beside others.
func request(pod *v1.Pod, beside []preemption.Pod) admission.Request {
	return admission.Request{Pod: pod, Others: func(yield func(*v1.Pod) bool) {
		for _, other := range beside {
			if !yield(other.Pod) {
				return
			}
		}
	}}
}

// places returns the pods that have a place on the node, and those of them that keep it: they were not told to
// make room, and are not about to leave. Those that leave should have left at the time free. Those that are stuck were
// told to make room and have not in time: they are not told again.
func (p *Preemption) places(others iter.Seq[*v1.Pod]) (all, staying, stuck []preemption.Pod, free time.Time) {
	now := p.options.Clock.Now()
	for o := range others {
		granted, has := p.options.Places.Place(o)
		if !has {
			continue
		}
		place := preemption.Pod{Pod: granted, Class: podinfo.QoS(granted), Critical: p.options.Critical(o)}
		all = append(all, place)
		until := p.leaves(o)
		switch gone, told := p.going[o.UID]; {
		case told && now.Before(gone):
		case told:
			stuck = append(stuck, immovable(place))
		case now.Before(until):
			free = later(free, until)
		default:
			staying = append(staying, place)
		}
	}
	return all, staying, stuck, free
}

// leaves returns until when the room of a pod counts as about to be free because the pod stops anyway; zero if it
// does not. A pod may have been told to take longer than its own grace, and the runtime may fail to stop one: then
// it is treated like any other.
func (p *Preemption) leaves(pod *v1.Pod) (until time.Time) {
	if d := pod.DeletionGracePeriodSeconds; !p.options.Places.Ending(pod) || d != nil && timing.Seconds(*d) > podinfo.Grace(pod) {
		delete(p.leaving, pod.UID)
		return time.Time{}
	}
	if _, known := p.leaving[pod.UID]; !known {
		p.leaving[pod.UID] = p.freeBy(pod)
	}
	return p.leaving[pod.UID]
}

// freeBy returns by when the room of a pod that is told to stop now should be free.
func (p *Preemption) freeBy(pod *v1.Pod) time.Time {
	return p.options.Clock.Now().Add(max(roomKept, podinfo.StopWait(podinfo.Grace(pod))))
}

// again gives pods that are stuck their time again, all the same: when the runtime stops pods again, the last of them
// is not one that cannot be stopped.
func (p *Preemption) again(stuck []preemption.Pod) {
	var until time.Time
	for _, s := range stuck {
		until = later(until, p.freeBy(s.Pod))
	}
	for _, s := range stuck {
		p.going[s.Pod.UID] = until
	}
}

// immovable returns a place that no pod takes.
func immovable(place preemption.Pod) preemption.Pod {
	pod := *place.Pod
	pod.Spec.Priority = ptr.To[int32](math.MaxInt32)
	place.Pod, place.Critical = &pod, true
	return place
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// stop tells a pod to make room.
func (p *Preemption) stop(victim, critical *v1.Pod) {
	p.going[victim.UID] = p.freeBy(victim)
	w := p.wait(critical)
	w.until = later(w.until, p.going[victim.UID])
	if desired, ok := p.options.Residents.Desired.Get(victim.UID); ok {
		victim = desired
	}
	p.options.Logger.Info("Preempting a pod", "namespace", victim.Namespace, "name", victim.Name, "uid", victim.UID, "for", critical.Namespace+"/"+critical.Name)
	p.options.Events.Eventf(victim, v1.EventTypeWarning, reasonPreempting, "%s", preemptedMessage)
	p.options.Update(podworkers.UpdateOptions{Type: podworkers.Kill, Pod: victim, Kill: &podworkers.KillOptions{
		Evict: true, StatusFunc: eviction.Amend(reasonPreempting, preemptedMessage),
	}})
}
