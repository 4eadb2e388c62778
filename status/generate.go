package status

import (
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/runtime"
)

// Input is everything the status of a pod depends on. [Generate] changes none
// of it.
type Input struct {
	// Pod is the pod as admitted; Pod.Status is the status the API (or whatever
	// source) has. Required.
	Pod *v1.Pod
	// Runtime is what the runtime shows; nil means nothing was ever seen of the
	// pod.
	Runtime *runtime.PodStatus
	// Old is the engine's own last status of the pod, see [Manager.Get]. Nil
	// means there is none and Pod.Status stands in (spec/status.md 1.2).
	Old *v1.PodStatus
	// Terminal is true once all containers of a terminating pod were seen
	// stopped, and only then: it turns exits into a final phase (1.1).
	Terminal bool
	// Waiting gives, per container name, why the last start failed (3.6). A
	// container that started is not in it.
	Waiting map[string]WaitingReason
	// SandboxReady is true if the pod needs no new sandbox (runtime.md 5); it
	// becomes the condition PodReadyToStartContainers (5.4).
	SandboxReady bool
	// NodeIPs are the node's addresses, primary first; at most two are used.
	// Empty means not known yet.
	NodeIPs []string
	// Override forces the phase Failed (2.5); nil means no.
	Override *Override
	// Amend, if not nil, may change phase, reason, message and DisruptionTarget
	// of the status being made, at the point where Override applies; it is the
	// status function of an eviction (2.5). It must be pure. Container statuses
	// are already set when it is called, and other conditions it sets are
	// dropped.
	Amend func(*v1.PodStatus)
	// Probes says what probing knows of a container (4.1, 4.2). Nil means nobody
	// probes: what runs counts as started and ready. The probe package answers
	// for containers that ran before a restart of the engine too, before their
	// first new result (probe.md 8.8).
	Probes func(container string, id runtime.ContainerID) ProbeFacts
	// Resize holds the resize conditions (PodResizePending, PodResizeInProgress)
	// as resize admission set them; other types are ignored (5.6).
	Resize []v1.PodCondition
	// RecursiveReadOnly is true if the pod's runtime handler makes read-only
	// mounts recursive; it decides what became of IfPossible (3.9).
	RecursiveReadOnly bool
	// Now is the time transitions are stamped with.
	Now time.Time
}

// WaitingReason says why a container is not running although it should.
type WaitingReason struct {
	// Reason in the words of runtime.md 22.1, such as CrashLoopBackOff.
	Reason string
	// Message for people.
	Message string
}

// Override is a verdict of an eviction, deadline or shutdown handler: the pod is
// Failed whatever its containers say. A terminal phase the API already shows
// still wins (spec/status.md 2.4, 2.5).
type Override struct {
	// Reason such as Evicted, DeadlineExceeded, Preempting or Terminated.
	Reason string
	// Message for people.
	Message string
	// DisruptionTarget, if not empty, is the message of a DisruptionTarget
	// condition with reason TerminationByKubelet (5.5).
	DisruptionTarget string
}

// ProbeState is what probing knows of one container for one kind of probe.
type ProbeState uint8

// Probe states. The zero value means that nobody probes the container.
const (
	// ProbeNone: no probe of this kind runs against the container.
	ProbeNone ProbeState = iota
	// ProbePending: a probe is set up and has no result for this container yet.
	ProbePending
	// ProbeSuccess: the last decided result was success.
	ProbeSuccess
	// ProbeFailure: the last decided result was failure.
	ProbeFailure
)

// ProbeFacts is what probing knows of one container.
type ProbeFacts struct {
	Startup   ProbeState
	Readiness ProbeState
}
