package podsync

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/internal/podinfo"
	"github.com/podwright/podwright/podworkers"
	"github.com/podwright/podwright/probe"
	"github.com/podwright/podwright/runtime"
	"github.com/podwright/podwright/runtime/pods"
	"github.com/podwright/podwright/status"
)

// PublishEnd publishes the status of a pod and makes it final. It is for a pod that ended while
// no agent was running: nothing of it runs, and no worker would publish its end.
func (s *Syncer) PublishEnd(pod *v1.Pod, view *runtime.PodStatus) error {
	_, err := s.publish(pod, view, true, nil)
	return errors.Join(err, s.statuses.TerminatePod(pod))
}

// publish generates the pod's status from a view and stores it.
func (s *Syncer) publish(pod *v1.Pod, view *runtime.PodStatus, ended bool, amend podworkers.PodStatusFunc) (v1.PodStatus, error) {
	return s.store(pod, s.input(pod, view, ended, amend))
}

// input returns what the status of a pod is generated from.
func (s *Syncer) input(pod *v1.Pod, view *runtime.PodStatus, ended bool, amend podworkers.PodStatusFunc) status.Input {
	view = s.withKnownEnds(pod, view)
	in := status.Input{
		Pod: pod, Runtime: s.withMessages(abortedAsCreated(view)), Terminal: ended,
		Waiting:      map[string]status.WaitingReason{},
		Asked:        s.o.Restarts.Asked(pod.UID),
		SandboxReady: !pods.NeedsSandbox(pod, view),
		NodeIPs:      s.o.NodeIPs(),
		Resize:       s.o.Allocations.Conditions(pod.UID),
		Actuated:     s.o.Allocations.Actuated(pod.UID),
		PodResources: s.pods.PodResources(pod),
		Amend:        amend,
		Probes:       s.probeFacts(pod),
		Now:          s.o.Clock.Now(),
	}
	if old, ok := s.statuses.Get(pod.UID); ok {
		in.Old = &old
	}
	in.Old = s.o.Records.Previous(pod, view, in.Old)
	for name, w := range s.pods.WaitingReasons(pod.UID) {
		in.Waiting[name] = status.WaitingReason{Reason: w.Reason, Message: w.Message}
	}
	return in
}

// asObserved makes the status of a pod one of the generation observed before, as long as what the
// desired pod asks for is not decided: a client takes a newer generation without a condition for a
// resize that is done (spec/status.md 5.8). It reports whether it did.
func asObserved(in status.Input, desired *v1.Pod) (status.Input, bool) {
	observed := in.Pod.Status.ObservedGeneration // after a restart it may be newer than what is remembered
	if in.Old != nil {
		observed = max(observed, in.Old.ObservedGeneration)
	}
	if desired.Generation <= observed || decided(in, desired) {
		return in, false
	}
	older := *in.Pod
	older.Generation = observed
	in.Pod = &older
	return in, true
}

// decided reports whether the conditions, or what was allocated, are the answer to what the pod asks
// for in this generation.
func decided(in status.Input, desired *v1.Pod) bool {
	for i := range in.Resize {
		if in.Resize[i].Type == v1.PodResizePending {
			return in.Resize[i].ObservedGeneration == desired.Generation
		}
	}
	return in.Pod == desired
}

// store generates the pod's status and hands it on. It returns the status even if that was
// dropped, because the steps still follow it. An end imposed on the pod, such as an eviction,
// stays part of its statuses until one of them is accepted.
func (s *Syncer) store(pod *v1.Pod, in status.Input) (v1.PodStatus, error) {
	if in.Amend == nil {
		in.Amend = s.stopping.untold(pod.UID)
	}
	generated := status.Generate(in)
	err := s.statuses.SetPodStatus(in.Pod, generated)
	if err != nil {
		err = fmt.Errorf("store the status: %w", err)
	}
	if err == nil {
		s.tellOtherFamily(pod, in.Old, generated.HostIP)
	}
	s.stopping.setUntold(pod.UID, in.Amend, err != nil && podinfo.Terminal(generated.Phase))
	s.o.Probes.Observed(pod, &generated)
	return generated, err
}

// tellOtherFamily emits an event when a status is the first with a host address of another family than the
// one that others gave the pod (spec/status.md 6.2): what reaches the pod by that address may no longer.
func (s *Syncer) tellOtherFamily(pod *v1.Pod, old *v1.PodStatus, hostIP string) {
	given := pod.Status.HostIP
	if given == hostIP || old != nil && old.HostIP == hostIP {
		return
	}
	before, problem := netip.ParseAddr(given)
	now, err := netip.ParseAddr(hostIP)
	if problem != nil || err != nil || before.Unmap().Is4() == now.Unmap().Is4() {
		return
	}
	s.o.Events.Eventf(pod, v1.EventTypeWarning, "HostIPsIPFamilyMismatch", "the node's address is %s, and the pod had the host address %s, of another IP family", hostIP, given)
}

// probeFacts returns what tells the status generator the probe results of a pod's containers.
func (s *Syncer) probeFacts(pod *v1.Pod) func(container string, id runtime.ContainerID) status.ProbeFacts {
	fact := func(k probe.Kind, container string, id runtime.ContainerID) probe.Result {
		r := s.o.Probes.Status(k, pod, container, id)
		if r == probe.Success && s.o.Records.ProbeUnwritten(k, id) {
			return probe.Unknown
		}
		return r
	}
	return func(container string, id runtime.ContainerID) status.ProbeFacts {
		return status.ProbeFacts{
			Startup:   fact(probe.Startup, container, id),
			Readiness: fact(probe.Readiness, container, id),
		}
	}
}

// withMessages returns the view with the termination messages of its exited
// containers filled in, as far as a status shows them: the newest two of each name. The
// view is shared, so changed parts are copied.
func (s *Syncer) withMessages(view *runtime.PodStatus) *runtime.PodStatus {
	if view == nil {
		return nil
	}
	out := view
	for i, c := range view.Containers {
		if c.State != runtime.Exited || named(c.Name, view.Containers[:i]) >= 2 {
			continue
		}
		text := s.pods.TerminationMessage(c)
		if text == "" || text == c.Message {
			continue
		}
		if out == view {
			shallow := *view
			shallow.Containers = slices.Clone(view.Containers)
			out = &shallow
		}
		changed := *c
		changed.Message = text
		out.Containers[i] = &changed
	}
	return out
}

// named counts the containers with a name.
func named(name string, containers []*runtime.ContainerStatus) (n int) {
	for _, c := range containers {
		if c.Name == name {
			n++
		}
	}
	return n
}

// keepIPs gives a view of a stopped pod the addresses known before the stop
// (spec/runtime.md 1.7).
func keepIPs(fresh, before *runtime.PodStatus) *runtime.PodStatus {
	if len(fresh.IPs) > 0 || before == nil || len(before.IPs) == 0 {
		return fresh
	}
	out := *fresh
	out.IPs = before.IPs
	return &out
}
