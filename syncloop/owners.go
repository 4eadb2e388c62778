package syncloop

import (
	"iter"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/podinfo"
)

// A UID belongs to the source that had it first, until nothing is left of the pod: otherwise another
// source could take over the pod's verdicts, records and folder (PS6). A change of a pod is judged
// like a new pod, by the rules that concern the pod alone: otherwise an admitted pod could turn into
// one that would be refused (PS5).

// ownerOf returns the source that a UID belonged to before it was named in this process, "" if
// none of the sources has it. One that is not there may be added yet, until every source has
// spoken: then its pods are given up.
func (d *desired) ownerOf(c *change, uid types.UID) string {
	if d.owner == nil {
		return ""
	}
	_, source := d.owner(uid)
	there := slices.ContainsFunc(d.sources, func(s *wanted) bool { return s.name == source })
	silent := slices.ContainsFunc(d.sources, func(s *wanted) bool { return !s.seen && s != c.source })
	if there || silent {
		return source
	}
	return ""
}

// awaitsUID reports whether a pod waits for the UID of a pod of another source. No message says when nothing of that
// pod is left.
func (d *desired) awaitsUID() bool {
	for _, s := range d.sources {
		for r := range s.reported {
			if r.winner == r.uid && r.by != s.name {
				return true
			}
		}
	}
	return false
}

// prepareAgain judges what all sources want once more, without a message.
func (d *desired) prepareAgain() *change {
	c := &change{rejudged: true, suppressed: map[*wanted]int{}, refusals: map[*wanted]map[refusal]struct{}{}}
	d.rejudge(c)
	c.sort()
	d.nameWinners(c)
	return c
}

// firstOwners are the sources that contested UIDs belong to.
type firstOwners map[types.UID]string

func (d *desired) firstOwners(c *change) firstOwners {
	first, named := firstOwners{}, map[types.UID]bool{}
	for _, e := range c.order {
		named[e.next.UID] = true
	}
	for _, s := range d.sources {
		for _, e := range s.order {
			if e.emitted != nil && (s != c.source || named[e.emitted.UID]) {
				first[e.emitted.UID] = s.name
			}
		}
	}
	for _, s := range d.sources {
		for _, e := range d.orderOf(c, s) {
			if uid := e.next.UID; first[uid] == "" {
				first[uid] = d.ownerOf(c, uid)
			}
		}
	}
	return first
}

// drop takes UIDs from owners that lost the pod because of its name, and reports whether there
// are any: it is being removed.
func (first firstOwners) drop(lost []loser) (dropped bool) {
	for _, l := range lost {
		if uid := l.entry.next.UID; first[uid] == l.source.name {
			delete(first, uid)
			dropped = true
		}
	}
	return dropped
}

// nameWinners adds the holders of the UIDs to a message's reports about them.
func (d *desired) nameWinners(c *change) {
	for i := range c.reports {
		if r := &c.reports[i]; r.refusal.winner == r.refusal.uid && r.refusal.why == "" && !r.refusal.noUID {
			r.winner = d.holderOf(c, r.refusal.by, r.refusal.uid)
		}
	}
}

// holderOf returns the name of the pod with which a source has a UID.
func (d *desired) holderOf(c *change, source string, uid types.UID) podName {
	for _, s := range d.sources {
		if s.name != source {
			continue
		}
		for _, e := range d.orderOf(c, s) {
			if e.next.UID == uid {
				return e.claim.name
			}
		}
	}
	if d.owner != nil {
		if known, _ := d.owner(uid); known != nil {
			return nameOf(known)
		}
	}
	return podName{}
}

// changed returns what a known pod becomes when its source says said: what was reviewed and
// refused stays as it is.
func (d *desired) changed(c *change, known, said *v1.Pod) *v1.Pod {
	next := merge(known, said)
	if !d.refused(c, known, next) {
		return next
	}
	rest := said.DeepCopy() // its deletion and its status are not the pod's own
	rest.Spec, rest.Labels, rest.Annotations = known.Spec, known.Labels, known.Annotations
	return merge(known, rest)
}

// arrived returns a pod that is new to this process as it may be. If an earlier process knew it
// differently, it has changed.
func (d *desired) arrived(c *change, pod *v1.Pod) *v1.Pod {
	if d.owner == nil || podinfo.Mirror(pod) {
		return pod
	}
	known, source := d.owner(pod.UID)
	if known == nil || source != c.source.name || nameOf(known) != nameOf(pod) {
		return pod
	}
	if d.refused(c, known, pod) {
		pod = asKnown(known, pod)
	}
	return d.lowered(c, pod)
}

// renamed reports a pod that would take over the UID, and with it the verdict, of another pod of its
// source without being permitted what it is (PS5): it is left out. e is the other one, nil if it is
// only known from before the start.
func (d *desired) renamed(c *change, e *entry, pod *v1.Pod) bool {
	if d.review == nil || podinfo.Mirror(pod) {
		return false
	}
	var known *v1.Pod
	if e != nil {
		known = e.pod
	} else if d.owner != nil {
		if before, source := d.owner(pod.UID); source == c.source.name {
			known = before
		}
	}
	if known == nil || claimOf(known) == claimOf(pod) {
		return false
	}
	err := d.review(known, pod)
	if err != nil {
		c.refuse(c.source, pod, refusal{uid: pod.UID, name: nameOf(pod), winner: pod.UID, by: c.source.name, why: err.Error()})
	}
	return err != nil
}

// lowered returns a pod from before the start as its source may have it now: it was admitted
// under another policy perhaps (PS7).
func (d *desired) lowered(c *change, pod *v1.Pod) *v1.Pod {
	if d.lower == nil {
		return pod
	}
	lowered, why := d.lower(pod)
	if why != "" {
		c.refuse(c.source, pod, refusal{uid: pod.UID, name: nameOf(pod), winner: pod.UID, by: c.source.name, why: why, lowered: true})
	}
	return lowered
}

// asKnown returns a pod in its known form.
func asKnown(known, pod *v1.Pod) *v1.Pod {
	kept := pod.DeepCopy()
	kept.Spec, kept.Labels = *known.Spec.DeepCopy(), known.Labels
	for k, v := range known.Annotations {
		if !localAnnotation(k) {
			kept.Annotations[k] = v
		}
	}
	for k := range pod.Annotations {
		if _, ok := known.Annotations[k]; !ok && !localAnnotation(k) {
			delete(kept.Annotations, k)
		}
	}
	return kept
}

// refused reports a change that is not allowed.
func (d *desired) refused(c *change, known, next *v1.Pod) bool {
	if d.review == nil || podinfo.Mirror(next) || sameSpec(&known.Spec, &next.Spec) && equalAnnotations(known.Annotations, next.Annotations) {
		return false
	}
	err := d.review(known, next)
	if err != nil {
		c.refuse(c.source, next, refusal{uid: next.UID, name: nameOf(next), winner: next.UID, by: c.source.name, why: err.Error()})
	}
	return err != nil
}

// levels yields the sources of each precedence, the highest first.
func (d *desired) levels() iter.Seq[[]*wanted] {
	return func(yield func([]*wanted) bool) {
		for rest := d.sources; len(rest) > 0; {
			n := 1
			for n < len(rest) && rest[n].precedence == rest[0].precedence {
				n++
			}
			if !yield(rest[:n]) {
				return
			}
			rest = rest[n:]
		}
	}
}

// holders are the sources that have each name, before the message that is prepared.
func (d *desired) holders() map[claim]*wanted {
	out := map[claim]*wanted{}
	for _, s := range d.sources {
		for _, e := range s.order {
			if e.emitted != nil {
				out[claimOf(e.emitted)] = s
			}
		}
	}
	return out
}

// turnsOfName is how many kinds of claims to a name there are, see turnOf.
const turnsOfName = 3

// turnOf says when a pod claims its name among those of its precedence: first the pod
// that had it before this process, then the pod that has it, then all others.
func (d *desired) turnOf(s *wanted, e *entry, sources int, holders map[claim]*wanted) int {
	switch {
	case sources == 1 || e.earlier:
		return 0
	case holders[e.claim] == s:
		return 1
	}
	return 2
}

// hadName reports whether a pod that a source names first in this process had its name in an earlier one, and
// lives on. Records say so, but those that this process made since, also of a next life, do not count: the
// first source that is heard would keep a name that another one had.
func (d *desired) hadName(s *wanted, pod *v1.Pod) bool {
	if _, again := d.dropped[pod.UID]; again || d.owner == nil {
		return false
	}
	known, source := d.owner(pod.UID)
	return known != nil && source == s.name && nameOf(known) == nameOf(pod) && (d.admitted == nil || d.admitted(pod))
}

// noteDropped remembers which pods this process has named and dropped, as long as they have records.
func (d *desired) noteDropped(c *change) {
	if d.owner == nil || !slices.ContainsFunc(c.emits, func(x emit) bool { return x.pod == nil }) {
		return
	}
	maps.DeleteFunc(d.dropped, func(uid types.UID, _ struct{}) bool {
		known, _ := d.owner(uid)
		return known == nil
	})
	for _, x := range c.emits {
		if x.pod == nil {
			d.dropped[x.entry.pod.UID] = struct{}{}
		}
	}
}
