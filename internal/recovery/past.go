package recovery

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/status/checkpoint"
)

// Past is what is remembered of a pod that was refused, or whose end was decided.
type Past struct {
	// Reason is that of the refusal or of the end.
	Reason string
	// Refused: the pod was refused; otherwise it had to stop at StoppedAt.
	Refused   bool
	StoppedAt time.Time
	// Evicted: its end is an eviction, whatever the Reason.
	Evicted bool
	// JudgedAt is when the pod was last admitted or refused.
	JudgedAt time.Time
	// Finished: nothing of its life is left to do.
	Finished bool
}

// Past returns the past of a pod, false if it was neither refused nor had its end decided.
func (j *Journal) Past(uid types.UID) (Past, bool) {
	r := j.keeper.Get(uid)
	if r == nil || r.Admission == nil {
		return Past{}, false
	}
	return pastOf(r)
}

func pastOf(r *checkpoint.Record) (Past, bool) {
	p := Past{JudgedAt: r.Admission.At, Finished: r.Finished}
	switch {
	case r.Admission.Refused:
		p.Refused, p.Reason = true, r.Admission.Reason
		return p, true
	case r.Termination == nil || r.Termination.Decision == nil && !r.Terminal():
		return Past{}, false
	case r.Terminal():
		p.Reason = r.Status.Reason
	default: // its status could not be shown (IN5)
		p.Reason = r.Termination.Decision.Reason
	}
	p.StoppedAt = r.Termination.RequestedAt
	d := r.Termination.Decision
	p.Evicted = r.Termination.Evicted && d != nil && d.Disrupted && d.Reason == p.Reason
	return p, true
}
