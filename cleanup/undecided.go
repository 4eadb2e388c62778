package cleanup

import (
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/problem"
)

// seen holds the pods that were desired or known to the workers since the housekeeper was created,
// as long as anything is left of them. Only other pods can be those that an undecided source cannot
// name.
type seen map[types.UID]bool

func (m seen) add(desired []*v1.Pod, workers ...map[types.UID]Worker) {
	for _, pod := range desired {
		m[pod.UID] = true
	}
	for _, known := range workers {
		for uid := range known {
			m[uid] = true
		}
	}
}

// prune forgets the pods for which a complete look found nothing.
func (m seen) prune(in *input) {
	left := seen{}
	left.add(in.Desired, in.Workers)
	for _, pod := range in.Running {
		left[pod.UID] = true
	}
	for _, uids := range [][]types.UID{in.Content, in.LogDirs, in.PodDirs} {
		for _, uid := range uids {
			left[uid] = true
		}
	}
	for uid := range m {
		if !left[uid] {
			delete(m, uid)
		}
	}
}

// noteDropped records which of the pods found were left out by their source when it answered.
func (h *Housekeeper) noteDropped(in *input) {
	if in.Undecided == nil {
		return
	}
	found := slices.Concat(in.Content, in.LogDirs, in.PodDirs, in.UserRanges, in.Cgroups)
	for _, pod := range in.Running {
		found = append(found, pod.UID)
	}
	for _, uid := range found {
		if !h.seen[uid] && h.dropped(uid) {
			h.mu.Lock()
			h.seen[uid] = true
			h.mu.Unlock()
		}
	}
}

// undecidedSources returns why the sources may want pods that they have not named.
func (h *Housekeeper) undecidedSources() error {
	if h.options.Undecided == nil {
		return nil
	}
	return h.options.Undecided()
}

// complain logs that pods are left alone because of an undecided source, and when that is over, and keeps those that run. An
// undecided source that nothing depends on is not logged.
func (h *Housekeeper) complain(plan Plan, undecided error, now time.Time) {
	any, held := false, map[types.UID]heldPod{}
	for _, a := range plan.Actions {
		if undecided == nil || a.Forbidden != maybeWanted(undecided) {
			continue
		}
		any = true
		if a.Step == StepKillOrphan {
			held[a.PodUID] = heldPod{problem.Of(a.Object.Namespace, a.Object.Name, a.PodUID), now, undecided}
		}
	}
	if any || undecided == nil {
		h.undecided.Note(h.options.Logger, now, undecided,
			"Unknown pods are left alone: a source may want them", "Every source can name its pods again")
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for uid, pod := range held {
		if before, known := h.held[uid]; known {
			pod.since = before.since
			held[uid] = pod
		}
	}
	h.held = held
}

// heldPod is a running pod that no source has named, and that is not stopped because one may want it.
type heldPod struct {
	name  string
	since time.Time
	why   error
}

// problem says what the pod waits for. Statuses do not show the pod, because no source has named it.
func (p heldPod) problem(uid types.UID) problem.Problem {
	return problem.Problem{
		Kind: problem.Pod, Severity: problem.Listed, Name: p.name, UID: uid, Since: p.since,
		Waits:  "a source to say whether it wants the pod, which runs on meanwhile",
		Advice: "mend what the source reads: then the pod continues as the source wants it, or is stopped",
	}.Because(p.why)
}
