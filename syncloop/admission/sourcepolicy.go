package admission

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/podinfo"
)

// ReasonSourcePolicy is the reason of a pod that its source may not run.
const ReasonSourcePolicy = "SourcePolicy"

// SourcePolicy limits the pods of one source. The zero value allows everything.
type SourcePolicy struct {
	// Namespaces are those that pods may be in. Empty: any.
	Namespaces []string
	// HighestPriority is the highest that pods may claim, by spec.priority or by the name
	// of a system-critical class. Nil: any.
	HighestPriority *int32
	// MaxPods bounds the number of running pods, including those being stopped. 0 or less means
	// no bound.
	MaxPods int
	// Requests bounds the sum of the pods' requests. Each container must request every
	// resource in it, unless the pod as a whole does; no change may make a pod request more
	// of it. Nil means no bound.
	Requests v1.ResourceList
	// Security is the level that pods must keep to, with Exemptions from it; see
	// [PodSecurity]. An empty level is [SecurityPrivileged].
	Security   SecurityLevel
	Exemptions SecurityExemptions
	// OwnUIDs gives the pods UIDs that the node makes with a secret key from their name and
	// original UID, so that the source can neither choose nor predict them (PS8). The source of
	// an API cannot have it, because the API knows its pods by their UIDs.
	OwnUIDs bool
}

// Reviewer is a [Handler] that an engine also asks about a change of a pod, because its verdict
// depends on the pod alone; a refused change does not take effect (PS5). Only handlers of this
// package are reviewers: sources wait while they are asked, and they do not block.
type Reviewer interface {
	Handler
	// Review returns the verdict on a pod. It may be called from any goroutine.
	Review(pod *v1.Pod) Verdict
	ofThisPackage()
}

// Reviews returns a function that asks the reviewers among the handlers about pod, which is the
// changed version of known, or a new pod if known is nil. The first [Refusal] wins.
func Reviews(handlers ...Handler) func(known, pod *v1.Pod) error {
	return func(known, pod *v1.Pod) error {
		for _, h := range handlers {
			r, ok := h.(Reviewer)
			if !ok {
				continue
			}
			v := r.Review(pod)
			if policies, ok := h.(*SourcePolicies); ok && v.Admitted() && known != nil {
				v = policies.grown(known, pod)
			}
			if !v.Admitted() {
				return &Refusal{v}
			}
		}
		return nil
	}
}

// reviewed is a handler that judges by the pod alone.
type reviewed func(pod *v1.Pod) Verdict

func (f reviewed) Admit(r Request) Verdict    { return f(r.Pod) }
func (f reviewed) Review(pod *v1.Pod) Verdict { return f(pod) }
func (reviewed) ofThisPackage()               {}

// Lower returns a pod that was admitted under another policy with the highest priority that its
// source may claim now, and the reason for the pod's event. It returns the pod itself and "" if the
// pod claims no more than that. The result may share parts with the pod (PS7).
func (h *SourcePolicies) Lower(pod *v1.Pod) (lowered *v1.Pod, why string) {
	p, found := h.policyOf(pod)
	claimed, highest := podinfo.ClaimedPriority(pod), p.HighestPriority
	if !found || highest == nil || claimed <= *highest {
		return pod, ""
	}
	out := *pod
	out.Spec.Priority, out.Spec.PriorityClassName = highest, ""
	return &out, fmt.Sprintf("it claims priority %d%s, and has %d: that is the highest of source %q now",
		claimed, classOf(pod), *highest, pod.Annotations[podinfo.AnnotationSource])
}

// Review checks everything that does not depend on other pods.
func (h *SourcePolicies) Review(pod *v1.Pod) Verdict {
	p, found := h.policyOf(pod)
	if !found {
		return Verdict{}
	}
	source := pod.Annotations[podinfo.AnnotationSource]
	if len(p.Namespaces) > 0 && !slices.Contains(p.Namespaces, pod.Namespace) {
		return Refuse(ReasonSourcePolicy, "source %q may not run pods in namespace %q, only in %q", source, pod.Namespace, p.Namespaces)
	}
	if claimed := podinfo.ClaimedPriority(pod); p.HighestPriority != nil && claimed > *p.HighestPriority {
		return Refuse(ReasonSourcePolicy, "source %q may not run pods of priority %d%s, the highest is %d", source, claimed, classOf(pod), *p.HighestPriority)
	}
	for _, resource := range slices.Sorted(maps.Keys(p.Requests)) {
		if !podinfo.RequestedThroughout(pod, resource) {
			return Refuse(ReasonSourcePolicy, "every container of a pod of source %q must request %s", source, resource)
		}
	}
	return p.security.Review(pod)
}

// grown refuses a change that makes a pod request more of a resource that the policy bounds: the
// sum of the source's requests is known when a pod comes, but not here.
func (h *SourcePolicies) grown(known, pod *v1.Pod) Verdict {
	p, _ := h.policyOf(pod)
	before, after := podinfo.Claims(known), podinfo.Claims(pod)
	for _, resource := range slices.Sorted(maps.Keys(p.Requests)) {
		if q := after[resource]; q.Cmp(before[resource]) > 0 {
			return Refuse(ReasonSourcePolicy, "a pod of source %q may not request more %s than before (%s instead of %s): create a new pod",
				pod.Annotations[podinfo.AnnotationSource], resource, text(q), text(before[resource]))
		}
	}
	return Verdict{}
}

func classOf(pod *v1.Pod) string {
	if pod.Spec.PriorityClassName == "" {
		return ""
	}
	return fmt.Sprintf(" (class %q)", pod.Spec.PriorityClassName)
}

// Admit is Ask for callers that cannot wait: it refuses a pod that would have to wait.
func (h *SourcePolicies) Admit(r Request) Verdict {
	v, err := h.Ask(r)
	if err != nil {
		return Refuse(reasonPods, "%v", err)
	}
	return v
}

// Ask also counts the pods that the source already has. An error means that the pod has room as
// soon as other pods of its source have stopped, or that earlier pods wait for that.
func (h *SourcePolicies) Ask(r Request) (Verdict, error) {
	if v := h.Review(r.Pod); !v.Admitted() {
		return v, nil
	}
	p, found := h.policyOf(r.Pod)
	source := r.Pod.Annotations[podinfo.AnnotationSource]
	if !found || p.MaxPods <= 0 && len(p.Requests) == 0 {
		return Verdict{}, nil
	}
	leaving, replaces := h.leaving(r.Pod, source)
	used := use{requests: v1.ResourceList{}}
	for other := range r.others() {
		if other.Annotations[podinfo.AnnotationSource] == source && leaving[other.UID] == nil {
			used.count(other)
		}
	}
	if v := p.fit(source, r.Pod, used); !v.Admitted() {
		return v, nil
	}
	later := use{used.pods, maps.Clone(used.requests)} // when those that leave have gone, and those that wait have come
	patience := time.Duration(0)
	for _, other := range leaving {
		used.count(other)
		patience = max(patience, podinfo.StopWait(podinfo.Grace(other)))
	}
	if v := p.fit(source, r.Pod, used); !v.Admitted() {
		return Verdict{}, &stoppingError{source: source, pods: len(leaving), lacks: v.Message, patience: patience}
	}
	if replaces {
		return Verdict{}, nil
	}
	waiting := h.waiting(r.Pod, source)
	for _, other := range waiting {
		later.count(other)
	}
	if v := p.fit(source, r.Pod, later); !v.Admitted() {
		return Verdict{}, &stoppingError{source: source, waiting: len(waiting), lacks: v.Message, patience: patience}
	}
	return Verdict{}, nil
}

// leaving returns the pods of a source that are about to go, except those that go before the pod
// starts anyway: its earlier life and, if it is static, the pod of its name. It reports whether there
// is such a one, which the pod replaces.
func (h *SourcePolicies) leaving(pod *v1.Pod, source string) (out map[types.UID]*v1.Pod, replaces bool) {
	out = map[types.UID]*v1.Pod{}
	if h.departing == nil {
		return out, false
	}
	for _, other := range h.departing() {
		if other.Annotations[podinfo.AnnotationSource] != source {
			continue
		}
		if other.UID == pod.UID || podinfo.Static(pod) && other.Namespace == pod.Namespace && other.Name == pod.Name {
			replaces = true
		} else {
			out[other.UID] = other
		}
	}
	return out, replaces
}

// waiting returns the pods of a source that came before a pod and wait for others to stop.
func (h *SourcePolicies) waiting(pod *v1.Pod, source string) (out []*v1.Pod) {
	if h.ahead == nil {
		return nil
	}
	for other, err := range h.ahead(pod.UID) {
		var wait *stoppingError
		if errors.As(err, &wait) && wait.source == source {
			out = append(out, other)
		}
	}
	return out
}

// stoppingError says that a pod waits for others of its source to stop, or for earlier pods that do.
type stoppingError struct {
	source, lacks string
	pods, waiting int
	patience      time.Duration
}

func (e *stoppingError) Error() string {
	if e.waiting > 0 {
		return fmt.Sprintf("it waits for earlier pods of source %q that wait for others to be stopped (%d); with them: %s", e.source, e.waiting, e.lacks)
	}
	return fmt.Sprintf("it waits for pods of source %q that are being stopped (%d); with them: %s", e.source, e.pods, e.lacks)
}

// Patience returns how long the wait may last before it counts as a problem.
func (e *stoppingError) Patience() time.Duration { return e.patience }

// Line: the pods of a source get their places in the order they came.
func (e *stoppingError) Line() string { return e.source }

// Yields reports that the pods of other sources do not leave it room while it waits.
func (e *stoppingError) Yields() bool { return true }

// use is the sum of what pods use.
type use struct {
	pods     int
	requests v1.ResourceList
}

func (u *use) count(pod *v1.Pod) {
	u.pods++
	add(u.requests, podinfo.Claims(pod))
}

// fit checks whether a pod has room beside what its source uses.
func (p SourcePolicy) fit(source string, pod *v1.Pod, used use) Verdict {
	if p.MaxPods > 0 && used.pods >= p.MaxPods {
		return Refuse(reasonPods, "Source %q has its %d pods already", source, p.MaxPods)
	}
	wanted := podinfo.Claims(pod)
	for _, name := range slices.Sorted(maps.Keys(p.Requests)) {
		sum, want, limit := used.requests[name].DeepCopy(), wanted[name], p.Requests[name]
		sum.Add(want)
		if sum.Cmp(limit) > 0 {
			return Refuse(outOf+string(name), "Source %q may not request that much: %s, requested: %s, used: %s, limit: %s",
				source, name, text(want), text(used.requests[name]), text(limit))
		}
	}
	return Verdict{}
}

func text(q resource.Quantity) string { return q.String() }
