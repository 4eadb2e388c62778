package cleanup

import (
	"errors"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/foreign"
	"github.com/podwright/podwright/internal/rule"
)

// MaybeWanted returns the rule that protects a pod that an undecided source may want but could not name yet
// (ND2). It returns zero if that cannot be: the pod is or was desired or known in this process, or the
// source that had it has since answered without it. It may be called at any time and does not block.
func (h *Housekeeper) MaybeWanted(uid types.UID) Denial {
	err := h.undecidedSources()
	if err == nil || h.sawPod(uid) || h.dropped(uid) {
		return Denial{}
	}
	if _, desired := h.pods.Get(uid); desired || h.workers.Knows(uid) {
		return Denial{}
	}
	return maybeWanted(err)
}

func (h *Housekeeper) dropped(uid types.UID) bool {
	return h.options.Dropped != nil && h.options.Dropped(uid)
}

func (h *Housekeeper) sawPod(uid types.UID) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.seen[uid]
}

// Permit decides about removals outside of passes (IN11): of dead containers and images because the
// disk is full, of images that are old, and of everything by a drain. It asks the guards, the host
// and the rates, as a pass does for each pod, and returns the rule that forbids the action now. It
// may be called at any time; it blocks only as long as Options.Veto does.
func (h *Housekeeper) Permit(a Action) Denial {
	a.Kind = a.Step.kind()
	if a.PodUID != "" {
		if denial := h.MaybeWanted(a.PodUID); !denial.IsZero() {
			return denial
		}
	}
	denial := h.objection(a)
	if denial.IsZero() {
		h.options.Logger.Info("Removal", "action", a.Step.String(), "object", a.Object.String(), "uid", a.PodUID, "reason", a.Reason)
	}
	return denial
}

// objection asks the rate limits and the host about an action (DR5, DR6).
func (h *Housekeeper) objection(a Action) Denial {
	bucket := h.buckets[a.Step]
	if !h.hasRoom(bucket) {
		return rule.RateLimited.Because("the rate of removals is used up for now")
	}
	if h.options.Veto != nil {
		var unanswered *foreign.UnansweredError
		switch err := h.options.Veto(a); {
		case errors.As(err, &unanswered):
			return rule.TryLater.Because(err.Error())
		case err != nil:
			h.options.Logger.Info("Housekeeping vetoed", "action", a.Step.String(), "object", a.Object.String(), "uid", a.PodUID, "veto", err.Error())
			return rule.Vetoed.Because("vetoed: " + err.Error())
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	bucket.take()
	return Denial{}
}

func (h *Housekeeper) hasRoom(b *bucket) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return b.has(h.options.Clock.Now())
}
