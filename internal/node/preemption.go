package node

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/cleanup/eviction"
	"github.com/podwright/podwright/internal/podinfo"
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

var errMakingRoom = errors.New("pods are being stopped to make room for it")

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
}

// PreemptionOptions configures [NewPreemption].
type PreemptionOptions struct {
	// Gate judges every pod in the end.
	Gate Gate
	// Others are the gate's handlers that are not about room.
	Others []admission.Handler
	// Node is what pods may have together.
	Node      preemption.Node
	Places    Places
	Residents *Residents
	// Update hands an update of a pod to its worker.
	Update func(podworkers.UpdateOptions)
	// Critical reports whether the node needs a pod more than others.
	Critical func(pod *v1.Pod) bool
	// Usable returns why no pod should be stopped now.
	Usable func() error
	Events podinfo.EventRecorder
	Logger logr.Logger
}

// Preemption is the admission with room made for critical pods that fail only on
// resources (spec/syncloop.md 16): the fewest pods of lower priority are stopped, with
// their own grace, and meanwhile the pod waits. It belongs to the loop's goroutine.
type Preemption struct {
	options PreemptionOptions
	// going are the pods that were stopped for others and still have their place.
	going map[types.UID]bool
}

var _ syncloop.Rememberer = (*Preemption)(nil)

// NewPreemption returns an admission that makes room for critical pods.
func NewPreemption(options PreemptionOptions) *Preemption {
	return &Preemption{options: options, going: map[types.UID]bool{}}
}

// Remembered is the gate's.
func (p *Preemption) Remembered(uid types.UID) bool { return p.options.Gate.Remembered(uid) }

// Admit makes room, or asks the gate.
func (p *Preemption) Admit(ctx context.Context, pod *v1.Pod, others iter.Seq[*v1.Pod]) (bool, error) {
	o := p.options
	if !o.Critical(pod) || o.Places.Judged(pod) {
		return o.Gate.Admit(ctx, pod, others)
	}
	maps.DeleteFunc(p.going, func(uid types.UID, _ bool) bool { return o.Residents.Finished(uid) })
	all, staying := p.places(others)
	request := admission.Request{Pod: pod, Others: func(yield func(*v1.Pod) bool) {
		for _, other := range all {
			if !yield(other.Pod) {
				return
			}
		}
	}}
	if v, err := admission.Judge(o.Others, request); err != nil {
		return false, err
	} else if !v.Admitted() {
		return o.Gate.Admit(ctx, pod, others) // room would not help
	}
	victims, err := preemption.Select(pod, staying, o.Node)
	if err != nil {
		o.Logger.Info("No room can be made for a critical pod", "uid", pod.UID, "error", err.Error())
		return o.Gate.Admit(ctx, pod, others)
	}
	if err := o.Usable(); err != nil && len(victims) > 0 {
		return false, fmt.Errorf("room for critical pod %s/%s has to wait: %w", pod.Namespace, pod.Name, err)
	}
	for _, v := range victims {
		p.stop(v, pod)
	}
	if now, err := preemption.Select(pod, all, o.Node); err == nil && len(now) == 0 {
		return o.Gate.Admit(ctx, pod, others)
	}
	return false, fmt.Errorf("critical pod %s/%s: %w", pod.Namespace, pod.Name, errMakingRoom)
}

// places returns the pods that have a place on the node, and those of them that were not
// told to make room.
func (p *Preemption) places(others iter.Seq[*v1.Pod]) (all, staying []preemption.Pod) {
	for o := range others {
		granted, has := p.options.Places.Place(o)
		if !has {
			continue
		}
		place := preemption.Pod{Pod: granted, Class: podinfo.QoS(granted), Critical: p.options.Critical(o)}
		all = append(all, place)
		if !p.going[o.UID] {
			staying = append(staying, place)
		}
	}
	return all, staying
}

// stop tells a pod to make room.
func (p *Preemption) stop(victim, critical *v1.Pod) {
	p.going[victim.UID] = true
	if desired, ok := p.options.Residents.Desired.Get(victim.UID); ok {
		victim = desired
	}
	p.options.Logger.Info("Preempting a pod", "namespace", victim.Namespace, "name", victim.Name, "uid", victim.UID, "for", critical.Namespace+"/"+critical.Name)
	p.options.Events.Eventf(victim, v1.EventTypeWarning, reasonPreempting, "%s", preemptedMessage)
	p.options.Update(podworkers.UpdateOptions{Type: podworkers.Kill, Pod: victim, Kill: &podworkers.KillOptions{
		Evict: true, StatusFunc: eviction.Amend(reasonPreempting, preemptedMessage),
	}})
}
