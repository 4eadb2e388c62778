package cleanup

import (
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// met are the pods that were desired or known to the workers since the housekeeper
// was made, as long as anything is left of them. What happens to them was decided by
// somebody who knew them; only other pods can be those a source cannot name.
type met map[types.UID]bool

func (m met) meet(desired []*v1.Pod, workers ...map[types.UID]Worker) {
	for _, pod := range desired {
		m[pod.UID] = true
	}
	for _, known := range workers {
		for uid := range known {
			m[uid] = true
		}
	}
}

// prune forgets the pods of which a complete look found nothing.
func (m met) prune(in *Input) {
	left := met{}
	left.meet(in.Desired, in.Workers)
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

// doubt returns why the sources may want pods they have not named.
func (h *Housekeeper) doubt() error {
	if h.options.Undecided == nil {
		return nil
	}
	return h.options.Undecided()
}

// complain says that pods are left alone because of an undecided source, and when
// that is over. A source that is undecided while nothing depends on it is no news.
func (h *Housekeeper) complain(plan Plan, undecided error, now time.Time) {
	held := false
	for _, a := range plan.Actions {
		held = held || strings.HasPrefix(a.Forbidden, ruleUndecided)
	}
	if held || undecided == nil {
		h.undecided.Note(h.options.Logger, now, undecided,
			"Pods nobody knows are left alone: a source may want them", "Every source can name its pods again")
	}
}
