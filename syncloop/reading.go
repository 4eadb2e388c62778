package syncloop

import (
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/podinfo"
)

// read takes the pods of a message over into c, without what the message itself
// contradicts (M4, PS6), and reports whether another source wants one of the same name
// or UID.
func (d *desired) read(c *change, pods []*v1.Pod, now time.Time) (conflict bool) {
	free := map[types.UID]bool{} // UIDs whose owners lose their name
	for {
		m := reading{desired: d, change: c, now: now, claims: map[claim]types.UID{}, uids: map[types.UID]bool{}}
		if m.takeAll(pods, free) {
			return m.conflict
		}
		d.generation++
		c.order, c.added, c.reports, c.refusals = c.order[:0], nil, nil, map[*wanted]map[refusal]struct{}{}
	}
}

// reading is a message that is being read.
type reading struct {
	*desired
	*change
	now      time.Time
	claims   map[claim]types.UID // of the new pods
	uids     map[types.UID]bool  // of the new pods
	conflict bool
}

// takeAll takes the pods over; pods that want the UID of another pod of the message come last. It
// reports false if that other pod has lost its name: its UID is then free.
func (m *reading) takeAll(pods []*v1.Pod, free map[types.UID]bool) bool {
	var late []*v1.Pod
	for _, p := range pods {
		switch {
		case p == nil:
		case podinfo.CheckName("", string(p.UID)) != nil: // it is the name of the pod's folder (M9)
			m.refuse(m.source, p, refusal{uid: p.UID, name: nameOf(p), by: m.source.name, noUID: true})
		case !free[p.UID] && m.ownedBeside(m.source, p, pods):
			late = append(late, p)
		default:
			m.take(p)
		}
	}
	done := true
	for _, p := range late {
		if m.has(p.UID) {
			m.take(p) // it is refused
		} else {
			free[p.UID], done = true, false
		}
	}
	return done
}

// ownedBeside reports whether another pod of a message has the UID of this one: the order in
// which a source names its pods, such as that of its files, moves no UID.
func (d *desired) ownedBeside(src *wanted, pod *v1.Pod, message []*v1.Pod) bool {
	wants := claimOf(pod)
	var has claim
	if e := src.entries[pod.UID]; e != nil {
		has = e.claim
	} else if d.owner != nil {
		if known, source := d.owner(pod.UID); known != nil && source == src.name {
			has = claimOf(known)
		}
	}
	return has != claim{} && has != wants && slices.ContainsFunc(message, func(other *v1.Pod) bool {
		return other != nil && other.UID == pod.UID && claimOf(other) == has
	})
}

// has reports whether a pod with this UID was taken over.
func (m *reading) has(uid types.UID) bool {
	e := m.source.entries[uid]
	return m.uids[uid] || e != nil && e.mark == m.generation
}

// take takes one pod over, unless another of the message has its name or UID.
func (m *reading) take(p *v1.Pod) {
	src := m.source
	e, wants := src.entries[p.UID], claimOf(p)
	if m.has(p.UID) {
		m.refuse(src, p, refusal{uid: p.UID, name: nameOf(p), winner: p.UID, by: src.name})
		return
	}
	kept := e != nil && e.claim == wants
	if winner, taken := m.taken(src, m.claims, wants, kept); taken {
		m.refuse(src, p, refusal{uid: p.UID, name: nameOf(p), winner: winner, by: src.name})
		return
	}
	if kept {
		e.next = e.pod
		if !e.says(p) {
			e.next = m.changed(m.change, e.pod, p)
		}
	} else {
		// Unknown, or known under another name: the name is part of a pod's
		// identity, so the old pod goes and this one is added.
		arriving := adopt(p, src.name, m.now)
		if m.renamed(m.change, e, arriving) {
			return
		}
		e = &entry{next: m.arrived(m.change, arriving), claim: wants, earlier: m.hadName(src, arriving)}
		e.forbidden = m.review != nil && m.review(nil, e.next) != nil
		m.uids[p.UID], m.claims[wants] = true, p.UID
		m.added = append(m.added, e)
		m.conflict = m.conflict || m.contested(m.change, p.UID, wants)
	}
	e.mark = m.generation
	m.order = append(m.order, e)
}

// taken reports whether a pod earlier in the message has this claim. The claim of a pod
// that is kept can only be taken by a new one.
func (d *desired) taken(src *wanted, newClaims map[claim]types.UID, wants claim, kept bool) (types.UID, bool) {
	uid, ok := newClaims[wants]
	if ok || kept {
		return uid, ok
	}
	if uid, ok := src.claims[wants]; ok && src.entries[uid].mark == d.generation {
		return uid, true
	}
	return "", false
}
