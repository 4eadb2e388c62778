package decide

import (
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/internal/proberesult"
	"github.com/podwright/podwright/runtime"
)

// Fact is what was recorded about one kind of probe of a container.
type Fact = proberesult.Fact

// Record is what was known about a container before the engine was restarted (8.3).
type Record struct {
	// Started and Ready are the flags of the container's status. Ready counts only if Status is
	// set; otherwise the readiness fact does.
	Started, Ready bool
	// Facts by kind.
	Facts [Kinds]Fact
	// Status: the record comes from a status that an API keeps, which knows only started and ready
	// (8.5).
	Status bool
}

// Rules are what [Restore] needs of a probe.
type Rules struct {
	Kind    Kind
	Period  time.Duration
	Failure int32 // the failure threshold
	// MaxAge is how old a fact may be, if that is more than two periods (8.6); that a container has
	// started stays true.
	MaxAge time.Duration
	// Lost: the pod's node was declared lost; see [DeclaredLost].
	Lost bool
}

// Before is what a worker begins with.
type Before struct {
	Result Result
	Last   Result
	Run    int32
	Hold   bool
}

// Restore is 8.3 to 8.6 for a container that still runs under the recorded ID.
func Restore(r Rules, rec *Record, now time.Time) Before {
	fact := rec.Facts[r.Kind]
	ready := fact.Stored == Success
	if rec.Status {
		fact, ready = Fact{}, rec.Ready
	} else if age(now, fact.At) > max(r.MaxAge, 2*r.Period) {
		fact, ready = Fact{}, false
	}
	b := Before{Result: Initial(r.Kind)}
	if fact.Run > 0 && fact.Last == Failure && age(now, fact.At) < 2*r.Period {
		b.Last, b.Run = Failure, fact.Run
	}
	switch {
	case r.Kind == Startup && rec.Started:
		return Before{Result: Success, Hold: true}
	case r.Kind == Readiness && ready && !r.Lost:
		b.Result = Success
	case r.Kind != Readiness && fact.Stored == Failure:
		b.Last, b.Run = Failure, r.Failure-1 // 8.4
	}
	return b
}

// FromStatus returns what a status from an API says about a container (8.5), or nil if it does not
// know exactly this one.
func FromStatus(status *v1.PodStatus, container string, id runtime.ContainerID) *Record {
	for _, list := range [...][]v1.ContainerStatus{status.ContainerStatuses, status.InitContainerStatuses} {
		for i := range list {
			c := &list[i]
			if c.Name != container || c.State.Running == nil {
				continue
			}
			if known, err := runtime.ParseContainerID(c.ContainerID); err == nil && known == id && !id.IsZero() {
				return &Record{Status: true, Started: c.Started != nil && *c.Started, Ready: c.Ready}
			}
		}
	}
	return nil
}

// DeclaredLost reports whether something else made the pod not ready at the API, as happens to the
// pods of a node that is no longer heard from (8.5, 8.6).
func DeclaredLost(status *v1.PodStatus) bool {
	var ready, containers *v1.PodCondition
	for i := range status.Conditions {
		switch c := &status.Conditions[i]; c.Type {
		case v1.PodReady:
			ready = c
		case v1.ContainersReady:
			containers = c
		}
	}
	return ready != nil && containers != nil && ready.Status == v1.ConditionFalse &&
		containers.Status == v1.ConditionTrue && ready.Reason != "ReadinessGatesNotReady"
}
