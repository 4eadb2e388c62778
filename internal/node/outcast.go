package node

import (
	"cmp"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/cleanup/eviction"
	"github.com/podwright/podwright/internal/podinfo"
	"github.com/podwright/podwright/internal/recovery"
	"github.com/podwright/podwright/syncloop/admission"
	"github.com/podwright/podwright/syncloop/shutdown"
)

// outcast is a desired static pod that is not running because the node was short of something, or
// was about to stop.
type outcast struct {
	pod *v1.Pod
	// cause in words, for events and explanations.
	cause string
	// since is the start of the period after which the pod is tried again.
	since time.Time
	// evicted: it waits until the node has no pressure at all. atOnce: it does not wait for a
	// period.
	evicted, atOnce bool
	// leaving: its last life is not over.
	leaving bool
}

// outcastOf returns the pod as an outcast, false if it is not one: other ends are final, and a pod
// of an API is created again by its owner, perhaps elsewhere. For a pod that was stopped for
// others, the period counts from its last admission, which was its last attempt.
func outcastOf(pod *v1.Pod, p recovery.Past) (outcast, bool) {
	o := outcast{pod: pod, since: p.JudgedAt, leaving: !p.Refused && !p.Finished}
	if !podinfo.Static(pod) || pod.DeletionTimestamp != nil {
		return o, false
	}
	switch {
	case p.Refused && p.Reason == admission.ReasonShutdown:
		o.cause, o.atOnce = "refused because the node was shutting down", true
	case p.Refused && p.Reason == eviction.Reason:
		o.cause = "refused under pressure"
	case p.Refused && admission.Verdict{Reason: p.Reason}.LacksRoom():
		o.cause = "refused for lack of room (" + p.Reason + ")"
	case p.Refused:
		return o, false
	case p.Reason == shutdown.Reason:
		o.cause, o.atOnce = "stopped by a shutdown of the node", true
	case p.Reason == reasonPreempting:
		o.cause = "preempted"
	case p.Reason == eviction.Reason || p.Evicted:
		o.cause, o.since, o.evicted = "evicted", p.StoppedAt, true
	default:
		return o, false
	}
	return o, true
}

// due returns when the outcast may be tried again: a period after since, but no later than a period
// from now, in case the wall clock was set back.
func (o *outcast) due(now time.Time, period time.Duration) time.Time {
	if o.atOnce {
		return now
	}
	return now.Add(min(max(o.since.Add(period).Sub(now), 0), period))
}

// inOrder sorts outcasts: higher priority first, then those that have waited longest.
func inOrder(list []outcast) {
	slices.SortFunc(list, func(a, b outcast) int {
		return cmp.Or(
			cmp.Compare(podinfo.ClaimedPriority(b.pod), podinfo.ClaimedPriority(a.pod)),
			a.since.Compare(b.since), cmp.Compare(a.pod.UID, b.pod.UID),
		)
	})
}

// choose returns the outcasts for which there is room, beside those chosen before.
func choose(list []outcast, fits func(pod *v1.Pod) bool) []outcast {
	inOrder(list)
	var out []outcast
	for _, o := range list {
		if fits(o.pod) {
			out = append(out, o)
		}
	}
	return out
}
