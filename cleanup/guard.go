package cleanup

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/rule"
)

// guard returns the rule that protects what is left of a pod, zero if there is none. Every
// destructive action asks it right before acting, because the pod may have come back since the plan
// was made (SG3, DR1).
func (h *Housekeeper) guard(uid types.UID) Denial {
	if !h.sourcesReady() {
		return sourcesUnseen()
	}
	if _, desired := h.pods.Get(uid); desired {
		return podDesired()
	}
	if h.workers.Knows(uid) {
		return rule.InUse.Because("the pod has a worker")
	}
	return h.MaybeWanted(uid)
}

// allows reports whether no guard protects what is left of a pod.
func (h *Housekeeper) allows(uid types.UID) bool { return h.guard(uid).IsZero() }

func (h *Housekeeper) withheld(uid types.UID) bool {
	return h.options.Withheld != nil && h.options.Withheld(uid)
}

// permits asks the host and the rate limits, and logs what is about to be done. A later pass
// retries what is held back (DR5, DR6).
func (h *Housekeeper) permits(a Action) bool {
	switch denial := h.objection(a); denial.Rule {
	case "":
		h.options.Logger.Info("Housekeeping", "action", a.Step.String(), "object", a.Object.String(), "uid", a.PodUID, "reason", a.Reason)
		return true
	case rule.RateLimited:
		// There may be thousands, so they are not logged.
		h.outcomes = append(h.outcomes, outcome{Action: a, Result: skipped, Why: denial})
	default:
		h.skip(a, denial)
	}
	return false
}

// skip records that an allowed action was not done, and why.
func (h *Housekeeper) skip(a Action, why Denial) {
	h.options.Logger.V(1).Info("Housekeeping held back", "action", a.Step.String(), "object", a.Object.String(), "uid", a.PodUID, "rule", why.String())
	h.outcomes = append(h.outcomes, outcome{Action: a, Result: skipped, Why: why})
}

// done records the result of an action.
func (h *Housekeeper) done(a Action, err error) {
	o := outcome{Action: a, Result: done}
	if err != nil {
		o.Result, o.Why = failed, Denial{Why: err.Error()}
	}
	h.outcomes = append(h.outcomes, o)
}

// describe adds ages where they are known.
func (h *Housekeeper) describe(plan *Plan, now time.Time) {
	dated, ok := h.options.Content.(Dated)
	if !ok {
		return
	}
	for i := range plan.Actions {
		a := &plan.Actions[i]
		if a.Step != StepDirectories && a.Step != StepLogs {
			continue
		}
		if at := dated.Changed(a.Step, a.PodUID); !at.IsZero() {
			a.Age = metav1.Duration{Duration: now.Sub(at).Truncate(time.Second)}
		}
	}
}

// gate returns why no pod should be set up now.
func (h *Housekeeper) gate() error {
	if h.options.Gate == nil {
		return nil
	}
	return h.options.Gate()
}
