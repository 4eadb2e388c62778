package podwright

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/cleanup/eviction"
	"github.com/podwright/podwright/internal/podinfo"
	"github.com/podwright/podwright/podworkers"
	"github.com/podwright/podwright/syncloop"
	"github.com/podwright/podwright/syncloop/admission"
	"github.com/podwright/podwright/syncloop/preemption"
)

// criticalPod reports whether the node needs a pod more than others.
func (e *parts) criticalPod(pod *v1.Pod) bool {
	if c := e.config.Eviction; c != nil && c.Critical != nil {
		return c.Critical(pod)
	}
	return podinfo.Critical(pod)
}

// reasonPreempting is that of pods that had to make room, preemptedMessage what people
// read.
const (
	reasonPreempting = "Preempting"
	preemptedMessage = "Preempted in order to admit critical pod"
)

var errMakingRoom = errors.New("pods are being stopped to make room for it")

// preempting is the admission with room made for critical pods that fail only on
// resources (spec/syncloop.md 16): the fewest pods of lower priority are stopped, with
// their own grace, and meanwhile the pod waits. It belongs to the loop's goroutine.
type preempting struct {
	e *parts
	// rest are the handlers that are not about room.
	rest []admission.Handler
	// going are the pods that were stopped for others and still have their place.
	going map[types.UID]bool
}

// Remembered is the gate's.
func (p *preempting) Remembered(uid types.UID) bool { return p.e.gate.Remembered(uid) }

// Admit makes room, or asks the gate.
func (p *preempting) Admit(ctx context.Context, pod *v1.Pod, others iter.Seq[*v1.Pod]) (bool, error) {
	if !p.e.criticalPod(pod) || p.decided(pod) {
		return p.e.gate.Admit(ctx, pod, others)
	}
	maps.DeleteFunc(p.going, func(uid types.UID, _ bool) bool { return (evictions{p.e}).Finished(uid) })
	all, staying := p.places(others)
	request := admission.Request{Pod: pod, Others: func(yield func(*v1.Pod) bool) {
		for _, o := range all {
			if !yield(o.Pod) {
				return
			}
		}
	}}
	if !admission.Judge(p.rest, request).Admitted() {
		return p.e.gate.Admit(ctx, pod, others) // room would not help
	}
	node := preemption.Node{MaxPods: p.e.config.Admission.MaxPods}
	if p.e.config.Admission.FitResources {
		node.Allocatable = p.e.resizer.allocatable
	}
	victims, err := preemption.Select(pod, staying, node)
	if err != nil {
		p.e.config.Observe.Logger.Info("No room can be made for a critical pod", "uid", pod.UID, "error", err.Error())
		return p.e.gate.Admit(ctx, pod, others)
	}
	if err := p.e.usable(); err != nil && len(victims) > 0 {
		return false, fmt.Errorf("room for critical pod %s/%s has to wait: %w", pod.Namespace, pod.Name, err)
	}
	for _, v := range victims {
		p.stop(v, pod)
	}
	if now, err := preemption.Select(pod, all, node); err == nil && len(now) == 0 {
		return p.e.gate.Admit(ctx, pod, others)
	}
	return false, fmt.Errorf("critical pod %s/%s: %w", pod.Namespace, pod.Name, errMakingRoom)
}

var _ syncloop.Rememberer = (*preempting)(nil)

// decided reports whether nobody will judge the pod: it was judged before, or ends.
func (p *preempting) decided(pod *v1.Pod) bool {
	_, known, err := p.e.recovery.Verdicts(p.e.shuttingDown).Verdict(pod.UID)
	return known || err != nil || pod.DeletionTimestamp != nil || podinfo.Terminal(pod.Status.Phase) || p.e.ending(pod)
}

// places returns the pods that have a place on the node, and those of them that were not
// told to make room.
func (p *preempting) places(others iter.Seq[*v1.Pod]) (all, staying []preemption.Pod) {
	for o := range others {
		granted, active := p.e.active(o)
		if !active || p.e.loop.Withheld(o.UID) {
			continue
		}
		place := preemption.Pod{Pod: granted, Class: podinfo.QoS(granted), Critical: p.e.criticalPod(o)}
		all = append(all, place)
		if !p.going[o.UID] {
			staying = append(staying, place)
		}
	}
	return all, staying
}

// stop tells a pod to make room.
func (p *preempting) stop(victim, critical *v1.Pod) {
	p.going[victim.UID] = true
	if desired, ok := p.e.loop.Store().Get(victim.UID); ok {
		victim = desired
	}
	p.e.config.Observe.Logger.Info("Preempting a pod", "namespace", victim.Namespace, "name", victim.Name, "uid", victim.UID, "for", critical.Namespace+"/"+critical.Name)
	p.e.config.Observe.Events.Eventf(victim, v1.EventTypeWarning, reasonPreempting, "%s", preemptedMessage)
	p.e.workers.UpdatePod(podworkers.UpdateOptions{Type: podworkers.Kill, Pod: victim, Kill: &podworkers.KillOptions{
		Evict: true, StatusFunc: eviction.Amend(reasonPreempting, preemptedMessage),
	}})
}
