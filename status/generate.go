package status

import (
	"cmp"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podwright/podwright/internal/podinfo"
	"github.com/podwright/podwright/internal/proberesult"
	"github.com/podwright/podwright/internal/restarts"
	"github.com/podwright/podwright/runtime"
)

// Input is everything that the status of a pod depends on. [Generate] changes none of it.
type Input struct {
	// Pod is the pod as admitted; Pod.Status is the status that the API (or another source) has.
	// Required.
	Pod *v1.Pod
	// Runtime is what the runtime shows; nil means that nothing of the pod was ever seen.
	Runtime *runtime.PodStatus
	// Old is the engine's own last status of the pod, see [Manager.Get]. Nil
	// means there is none and Pod.Status stands in (spec/status.md 1.2).
	Old *v1.PodStatus
	// Terminal is true only once all containers of a terminating pod were seen stopped: it turns
	// exits into a final phase (1.1).
	Terminal bool
	// Waiting says, per container name, why the last start failed (3.6). A container that started
	// is not in it.
	Waiting map[string]WaitingReason
	// Asked are the runs that are being replaced, whatever the restart policy says about their end
	// (3.10), nil if there are none.
	Asked *AskedRestarts
	// SandboxReady is true if the pod needs no new sandbox (runtime.md 5); it
	// becomes the condition PodReadyToStartContainers (5.4).
	SandboxReady bool
	// NodeIPs are the node's addresses, primary first; at most two are used.
	// Empty means not known yet.
	NodeIPs []string
	// override forces the phase Failed (2.5); nil means no override.
	override *override
	// Amend, if not nil, may change phase, reason, message and DisruptionTarget of the status, at
	// the point where override applies; it is the status function of an eviction (2.5). It must be
	// pure. Container statuses are already set when it is called; other conditions that it sets are
	// dropped.
	Amend func(*v1.PodStatus)
	// Probes returns what probing knows of a container (4.1, 4.2). Nil means that there are no
	// probes: what runs counts as started and ready. For containers that ran before a restart of
	// the engine, the probe package answers even before their first new result (probe.md 8.8).
	Probes func(container string, id runtime.ContainerID) ProbeFacts
	// Actuated is what running containers were last given (spec/runtime.md 21.2), by name. It is
	// used where the runtime reports nothing (6.6). Nil: unknown.
	Actuated map[string]runtime.Resources
	// Resize holds the resize conditions (PodResizePending, PodResizeInProgress)
	// as resize admission set them; other types are ignored (5.6).
	Resize []v1.PodCondition
	// PodResources is what the pod as a whole runs with according to its cgroup, for a pod with
	// pod-level resources (6.7). Zero: unknown, or not limited.
	PodResources runtime.Resources
	// Now is the time stamped on transitions.
	Now time.Time
}

// AskedRestarts are the runs of a pod's containers that are to be replaced. Its fields:
//
//	At      time.Time      // when a restart was last asked for
//	Message string         // why
//	Runs    []Run          // the runs that are still to be replaced because that was asked for
//	Own     []Run          // those that are to be replaced for a reason of the engine's own
//	Counts  map[string]int // by container, how many restarts were made because they were asked for
type AskedRestarts = restarts.Asked

// WaitingReason says why a container is not running although it should be.
type WaitingReason struct {
	// Reason in the words of runtime.md 22.1, for instance CrashLoopBackOff.
	Reason string
	// Message explains it.
	Message string
}

// override is a verdict of an eviction, deadline or shutdown handler: the pod is Failed whatever
// its containers say. A terminal phase that the API already shows still wins (spec/status.md 2.4,
// 2.5).
type override struct {
	// Reason is for instance Evicted, DeadlineExceeded, Preempting or Terminated.
	Reason string
	// Message explains it.
	Message string
	// DisruptionTarget, if not empty, is the message of a DisruptionTarget
	// condition with reason TerminationByKubelet (5.5).
	DisruptionTarget string
}

// ProbeFacts is what probing knows of one container, in the values of package probe.
type ProbeFacts struct {
	Startup, Readiness proberesult.Result
}

// Generate computes the status of a pod. It is pure: it uses no clock and no lock, calls only the
// functions in the input, and changes none of its arguments. The order of Runtime.Containers with
// different names does not matter.
//
// The result may share memory with the input (resource lists, times and states
// that did not change); treat it as read-only or copy it.
func Generate(in Input) v1.PodStatus {
	g := newGenerator(&in)
	g.restart = g.restartAllOf()
	s := v1.PodStatus{
		InitContainerStatuses:      g.containers(initial, g.old.InitContainerStatuses),
		ContainerStatuses:          g.containers(app, g.old.ContainerStatuses),
		EphemeralContainerStatuses: g.containers(ephemeral, g.old.EphemeralContainerStatuses),
	}
	g.probes(&s)
	g.phase(&s, phaseOf(g.pod, &s, g.appCreatedIn(g.readySandbox), in.Terminal, in.Asked))
	g.finish(&s)
	return s
}

// Rejected returns the status of a pod that was refused at admission: Failed with this reason, and
// without container statuses because nothing of the pod ever ran (spec/status.md 2.6). It uses only
// Pod, Old, NodeIPs and Now of the input.
func Rejected(in Input, reason, message string) v1.PodStatus {
	in.Runtime, in.SandboxReady, in.Resize = nil, false, nil
	in.override, in.Amend = &override{Reason: reason, Message: message}, nil
	g := newGenerator(&in)
	var s v1.PodStatus
	g.phase(&s, v1.PodFailed)
	g.finish(&s)
	return s
}

// newGenerator looks up what several steps need.
func newGenerator(in *Input) *generator {
	g := &generator{in: in, pod: in.Pod, old: in.Old}
	if g.old == nil {
		g.old = &in.Pod.Status
	}
	if in.Runtime == nil {
		return g
	}
	if len(in.Runtime.Sandboxes) > 0 {
		g.sandbox = in.Runtime.Sandboxes[0].ID
	}
	for _, s := range in.Runtime.Sandboxes {
		if s.State == runtime.Running {
			g.readySandbox = s.ID
			break
		}
	}
	return g
}

// phase sets phase, reason and message (spec/status.md 2.4, 2.5) and the
// DisruptionTarget condition, which it leaves as the only one in s.
func (g *generator) phase(s *v1.PodStatus, computed v1.PodPhase) {
	api := &g.pod.Status
	s.Phase = computed
	switch {
	case podinfo.Terminal(g.old.Phase): // 7.3: the manager keeps it, and conditions must agree with it
		s.Phase = g.old.Phase
	case !podinfo.Terminal(computed) && podinfo.Terminal(api.Phase):
		s.Phase = api.Phase
	}
	g.keepReason(s)
	if disruption := conditionOf(g.old.Conditions, v1.DisruptionTarget); disruption != nil {
		s.Conditions = []v1.PodCondition{*disruption}
	}
	if o := g.in.override; o != nil {
		s.Phase, s.Reason, s.Message = v1.PodFailed, o.Reason, podinfo.Message(o.Message)
		if o.DisruptionTarget != "" {
			s.Conditions = []v1.PodCondition{{
				Type: v1.DisruptionTarget, Status: v1.ConditionTrue,
				Reason: v1.PodReasonTerminationByKubelet, Message: o.DisruptionTarget,
			}}
		}
	}
	if g.in.Amend != nil {
		amended := *s // a copy, so that s is allocated only for pods that are amended
		g.in.Amend(&amended)
		amended.Message = podinfo.Message(amended.Message)
		if !podinfo.Terminal(g.old.Phase) || amended.Phase == g.old.Phase { // an eviction may come after the pod's own end
			*s = amended
		}
	}
	if podinfo.Terminal(api.Phase) && s.Phase != api.Phase {
		// A pod that the API calls finished stays finished in that same phase.
		s.Phase = api.Phase
		g.keepReason(s)
	}
}

// keepReason takes reason and message from the status that already had this phase, and clears them
// if neither status had it. Those of a pending pod are not kept: they say what blocks it now.
func (g *generator) keepReason(s *v1.PodStatus) {
	s.Reason, s.Message = "", ""
	if s.Phase == v1.PodPending {
		return
	}
	if s.Phase == g.old.Phase {
		s.Reason, s.Message = g.old.Reason, g.old.Message
	}
	if s.Phase == g.pod.Status.Phase && s.Reason == "" && s.Message == "" {
		s.Reason, s.Message = g.pod.Status.Reason, g.pod.Status.Message
	}
}

// firstSeen returns when the pod's oldest sandbox was made, which is the best evidence of its start
// if that is not remembered (after a restart of the engine); now if there is no sandbox.
func firstSeen(view *runtime.PodStatus, now time.Time) time.Time {
	if view == nil {
		return now
	}
	for _, sandbox := range view.Sandboxes {
		if !sandbox.CreatedAt.IsZero() && sandbox.CreatedAt.Before(now) {
			now = sandbox.CreatedAt
		}
	}
	return now
}

// finish adds everything that depends on the phase and the containers.
func (g *generator) finish(s *v1.PodStatus) {
	s.ObservedGeneration = max(g.pod.Generation, g.old.ObservedGeneration)
	s.QOSClass = cmp.Or(g.old.QOSClass, g.pod.Status.QOSClass)
	if s.QOSClass == "" {
		s.QOSClass = podinfo.QoS(g.pod)
	}
	s.StartTime = cmp.Or(g.old.StartTime, g.pod.Status.StartTime)
	if s.StartTime == nil {
		s.StartTime = &metav1.Time{Time: wholeSeconds(firstSeen(g.in.Runtime, g.in.Now))}
	}
	s.Conditions = g.conditions(s, conditionOf(s.Conditions, v1.DisruptionTarget))
	g.addresses(s)
	g.podResources(s)
	g.foreign(s)
	sortByName(s.ContainerStatuses)
	sortByName(s.EphemeralContainerStatuses)
}

// foreign copies what others write (6.8).
func (g *generator) foreign(s *v1.PodStatus) {
	api := &g.pod.Status
	s.NominatedNodeName = api.NominatedNodeName
	s.ResourceClaimStatuses = api.ResourceClaimStatuses
	s.ExtendedResourceClaimStatus = api.ExtendedResourceClaimStatus
	s.NodeAllocatableResourceClaimStatuses = api.NodeAllocatableResourceClaimStatuses
}
