package syncloop

import (
	"cmp"
	"iter"
	"maps"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/podwright/podwright/internal/podinfo"
)

// op is the kind of an operation (section 3). Sources only ever send full sets,
// so the loop never sees a SET.
type op uint8

const (
	opAdd op = iota
	opUpdate
	opDelete
	opRemove
	opReconcile
)

// outputOrder is the order of the operations one message leads to (M7).
var outputOrder = [...]op{opRemove, opAdd, opUpdate, opDelete, opReconcile}

func (o op) String() string {
	switch o {
	case opAdd:
		return "ADD"
	case opUpdate:
		return "UPDATE"
	case opDelete:
		return "DELETE"
	case opRemove:
		return "REMOVE"
	case opReconcile:
		return "RECONCILE"
	default:
		return "UNKNOWN"
	}
}

// operation is one step of the stream the loop handles. Its pods are immutable.
type operation struct {
	op     op
	source string
	pods   []*v1.Pod
}

// desired is everything the sources want and what the operations have emitted so far
// (M3). Only prepare and commit change it: prepare works out what a message means,
// commit applies it.
type desired struct {
	sources []*wanted // highest precedence first, then by name
	// generation numbers the messages; entries of the message being prepared
	// carry it as their mark.
	generation uint64
	suppressed int
	// review, owner, lower and admitted are those of the Options.
	lower    func(pod *v1.Pod) (lowered *v1.Pod, why string)
	review   func(known, pod *v1.Pod) error
	owner    func(uid types.UID) (pod *v1.Pod, source string)
	admitted func(pod *v1.Pod) bool
	// dropped are pods that this process named and dropped.
	dropped map[types.UID]struct{}
}

// wanted is what one source wants.
type wanted struct {
	name       string
	precedence Precedence
	seen       bool
	entries    map[types.UID]*entry
	claims     map[claim]types.UID
	order      []*entry
	suppressed int
	// reported holds the pods whose refusal was reported and stays true.
	reported map[refusal]struct{}
}

// refusal says that a pod was left out because of another one, or because its UID is none (M9).
type refusal struct {
	uid    types.UID
	name   podName
	winner types.UID
	by     string
	noUID  bool
	// why is set if the pod stays, but a change of it was refused, or its priority was lowered.
	why     string
	lowered bool
}

// report is a refusal seen for the first time.
type report struct {
	pod     *v1.Pod
	source  string // the pod's, which need not be the one that delivered
	refusal refusal
	// winner is the name of the pod that has its UID, if that is the reason.
	winner podName
}

// change is what one message means, or without a source, that all sources were judged again.
type change struct {
	source     *wanted
	order      []*entry
	added      []*entry
	operations []operation
	emits      []emit
	reports    []report

	// rejudged: all sources were judged again, so that suppressed and refusals are
	// about all of them, not only about source.
	rejudged   bool
	suppressed map[*wanted]int
	refusals   map[*wanted]map[refusal]struct{}
}

// emit is the new value of an entry's emitted.
type emit struct {
	entry *entry
	pod   *v1.Pod
}

func newDesired(sources []*wanted) *desired {
	d := &desired{dropped: map[types.UID]struct{}{}}
	for _, s := range sources {
		d.add(s)
	}
	return d
}

// add puts a source in its place: the highest precedence first.
func (d *desired) add(s *wanted) {
	s.entries = map[types.UID]*entry{}
	s.claims = map[claim]types.UID{}
	d.sources = append(d.sources, s)
	slices.SortFunc(d.sources, func(a, b *wanted) int {
		return cmp.Or(cmp.Compare(b.precedence, a.precedence), cmp.Compare(a.name, b.name))
	})
}

// prepare compares a full set of src with the last one. It copies only pods that
// are new or changed.
func (d *desired) prepare(src *wanted, pods []*v1.Pod, now time.Time) *change {
	d.generation++
	c := &change{
		source:     src,
		order:      make([]*entry, 0, len(pods)),
		suppressed: map[*wanted]int{},
		refusals:   map[*wanted]map[refusal]struct{}{},
	}
	conflict := d.read(c, pods, now)
	if c.rejudged = conflict || d.suppressed > 0; c.rejudged {
		d.rejudge(c)
	} else {
		for _, e := range c.order {
			e.wins = true
		}
		d.compare(c, src)
	}
	c.sort()
	// A first set knows no pod that could be updated or deleted.
	if !src.seen && !slices.ContainsFunc(c.operations, func(o operation) bool {
		return o.source == src.name && o.op == opAdd
	}) {
		c.operations = append(c.operations, operation{op: opAdd, source: src.name}) // M8
	}
	d.nameWinners(c)
	return c
}

// sort brings the operations into their order.
func (c *change) sort() {
	slices.SortStableFunc(c.operations, func(a, b operation) int {
		return cmp.Compare(slices.Index(outputOrder[:], a.op), slices.Index(outputOrder[:], b.op))
	})
}

// contested reports whether another source wants a new pod's name or UID. A pod that
// is kept needs no such look: if it is contested, some pod is suppressed already, and
// everything is judged again anyway.
func (d *desired) contested(c *change, uid types.UID, wants claim) bool {
	src, owner := c.source, d.ownerOf(c, uid)
	return owner != "" && owner != src.name || slices.ContainsFunc(d.sources, func(other *wanted) bool {
		_, sameName := other.claims[wants]
		_, sameUID := other.entries[uid]
		return other != src && (sameName || sameUID)
	})
}

// rejudge decides over all sources which pod has a full name and a UID (M4, PS6), and
// compares every source with what was emitted of it.
func (d *desired) rejudge(c *change) {
	for _, s := range d.sources {
		for _, e := range d.orderOf(c, s) {
			if s != c.source {
				e.next = e.pod
			}
			// Asked each time: the next life of an admitted pod may be refused.
			e.yields = e.forbidden && (d.admitted == nil || !d.admitted(e.next))
		}
	}
	first := d.firstOwners(c)
	lost := d.judge(c, first)
	for first.drop(lost) {
		lost = d.judge(c, first)
	}
	for _, l := range lost {
		c.suppressed[l.source]++
		c.refuse(l.source, l.entry.next, refusal{uid: l.entry.next.UID, name: nameOf(l.entry.next), winner: l.to.uid, by: l.to.source})
	}
	for _, s := range d.sources {
		d.compare(c, s)
	}
}

// owner has a full name or a UID.
type owner struct {
	uid    types.UID
	source string
}

// loser is a pod that another one keeps from its name or UID.
type loser struct {
	entry  *entry
	source *wanted
	to     owner
}

// judge says which pods win: in the order of the sources, but for the UIDs of first owners.
func (d *desired) judge(c *change, first firstOwners) (lost []loser) {
	claims, uids := map[claim]owner{}, map[types.UID]owner{}
	for s, e := range d.inTurn(c) {
		uid := e.next.UID
		by, taken := claims[e.claim]
		if !taken {
			by, taken = uids[uid]
		}
		if other := first[uid]; !taken && other != "" && other != s.name {
			by, taken = owner{uid, other}, true
		}
		e.wins = !taken
		if taken {
			lost = append(lost, loser{e, s, by})
			continue
		}
		claims[e.claim] = owner{uid, s.name}
		uids[uid] = owner{uid, s.name}
	}
	return lost
}

// inTurn yields what all sources want in the order of the sources, what may not run at the
// end: it keeps no other pod from its name (PS4). Of sources of one precedence
// the one that has a name goes first (M4).
func (d *desired) inTurn(c *change) iter.Seq2[*wanted, *entry] {
	holders := d.holders()
	return func(yield func(*wanted, *entry) bool) {
		for _, yields := range []bool{false, true} {
			for level := range d.levels() {
				for turn := range turnsOfName {
					for _, s := range level {
						for _, e := range d.orderOf(c, s) {
							if e.yields == yields && d.turnOf(s, e, len(level), holders) == turn && !yield(s, e) {
								return
							}
						}
					}
				}
			}
		}
	}
}

// orderOf returns what s wants once c is committed.
func (d *desired) orderOf(c *change, s *wanted) []*entry {
	if s == c.source {
		return c.order
	}
	return s.order
}

// compare derives the operations of one source: the table of M5.
func (d *desired) compare(c *change, s *wanted) {
	var groups [len(outputOrder)][]*v1.Pod
	note := func(o op, e *entry, emitted, shown *v1.Pod) {
		groups[o] = append(groups[o], shown)
		c.emits = append(c.emits, emit{e, emitted})
	}
	for _, e := range s.order {
		gone := s == c.source && e.mark != d.generation
		if e.emitted != nil && (gone || !e.wins) {
			note(opRemove, e, nil, e.emitted)
		}
	}
	for _, e := range d.orderOf(c, s) {
		switch {
		case !e.wins || e.emitted == e.next:
		case e.emitted == nil:
			note(opAdd, e, e.next, e.next)
		default:
			note(kindOfChange(e.emitted, e.next), e, e.next, e.next)
		}
	}
	for _, o := range outputOrder {
		if len(groups[o]) > 0 {
			c.operations = append(c.operations, operation{op: o, source: s.name, pods: groups[o]})
		}
	}
}

// refuse notes that a pod of s was left out, and that it must be reported if that
// is new.
func (c *change) refuse(s *wanted, pod *v1.Pod, r refusal) {
	if c.refusals[s] == nil {
		c.refusals[s] = map[refusal]struct{}{}
	}
	if _, twice := c.refusals[s][r]; twice {
		return
	}
	c.refusals[s][r] = struct{}{}
	if _, known := s.reported[r]; !known {
		c.reports = append(c.reports, report{pod: pod, source: s.name, refusal: r})
	}
}

// commit applies a prepared change. No other change may have been prepared in between.
func (d *desired) commit(c *change) {
	if c.source != nil {
		d.replace(c)
	}
	d.noteDropped(c)
	for _, x := range c.emits {
		x.entry.emitted = x.pod
		x.entry.earlier = x.entry.earlier && x.pod != nil
	}
	d.suppressed = 0
	for _, s := range d.sources {
		if c.rejudged {
			s.suppressed = c.suppressed[s]
		}
		d.suppressed += s.suppressed
		switch {
		case s == c.source:
			s.reported = c.refusals[s]
		case c.rejudged:
			// Refusals within its own last message still hold.
			maps.DeleteFunc(s.reported, func(r refusal, _ struct{}) bool { return r.by != s.name })
			if s.reported == nil {
				s.reported = map[refusal]struct{}{}
			}
			maps.Copy(s.reported, c.refusals[s])
		}
	}
}

// replace makes the pods of a message those of its source.
func (d *desired) replace(c *change) {
	src := c.source
	for _, e := range src.order {
		if e.mark != d.generation {
			delete(src.entries, e.pod.UID)
			if src.claims[e.claim] == e.pod.UID {
				delete(src.claims, e.claim)
			}
		}
	}
	for _, e := range c.order {
		e.keep(e.next)
	}
	for _, e := range c.added {
		src.entries[e.pod.UID] = e
		src.claims[e.claim] = e.pod.UID
	}
	src.order, src.seen = c.order, true
}

// adopt returns a private copy of a new pod with the local annotations.
func adopt(pod *v1.Pod, source string, now time.Time) *v1.Pod {
	pod = pod.DeepCopy()
	if pod.Annotations == nil {
		pod.Annotations = map[string]string{}
	}
	pod.Annotations[podinfo.AnnotationSource] = source
	pod.Annotations[podinfo.AnnotationSeen] = now.Format(time.RFC3339Nano)
	return pod
}

// merge returns what a known pod becomes when its source says said: known itself
// if nothing differs, otherwise a copy (M6).
func merge(known, said *v1.Pod) *v1.Pod {
	if changedSemantically(known, said) {
		next := *known
		next.Spec = *said.Spec.DeepCopy()
		next.Status = *said.Status.DeepCopy()
		next.Labels = maps.Clone(said.Labels)
		next.DeletionTimestamp = said.DeletionTimestamp.DeepCopy()
		next.DeletionGracePeriodSeconds = nil
		if said.DeletionGracePeriodSeconds != nil {
			next.DeletionGracePeriodSeconds = ptr.To(*said.DeletionGracePeriodSeconds)
		}
		next.Generation = said.Generation
		next.Annotations = map[string]string{}
		for k, v := range said.Annotations {
			if !localAnnotation(k) {
				next.Annotations[k] = v
			}
		}
		for k, v := range known.Annotations {
			if localAnnotation(k) {
				next.Annotations[k] = v
			}
		}
		return &next
	}
	if !sameStatus(&known.Status, &said.Status) {
		next := *known
		next.Status = *said.Status.DeepCopy()
		return &next
	}
	return known
}

// kindOfChange returns the operation that leads from one version to another (M5).
func kindOfChange(from, to *v1.Pod) op {
	switch {
	case !changedSemantically(from, to):
		return opReconcile
	case to.DeletionTimestamp != nil:
		return opDelete
	default:
		return opUpdate
	}
}

// changedSemantically reports whether a pod differs in what M6 lists.
func changedSemantically(a, b *v1.Pod) bool {
	return changedMetadata(a, b) || !sameSpec(&a.Spec, &b.Spec)
}

func changedMetadata(a, b *v1.Pod) bool {
	return !a.DeletionTimestamp.Equal(b.DeletionTimestamp) ||
		!ptr.Equal(a.DeletionGracePeriodSeconds, b.DeletionGracePeriodSeconds) ||
		!maps.Equal(a.Labels, b.Labels) ||
		!equalAnnotations(a.Annotations, b.Annotations)
}

// equalAnnotations compares annotations without the local ones. It is quick if a is
// ours and b what a source said: that has no local ones.
func equalAnnotations(a, b map[string]string) bool {
	count := 0
	for k, v := range a {
		if localAnnotation(k) {
			continue
		}
		if w, ok := b[k]; !ok || v != w {
			return false
		}
		count++
	}
	if count == len(b) {
		return true
	}
	for k := range b {
		if !localAnnotation(k) {
			count--
		}
	}
	return count == 0
}

// localAnnotation reports whether a is ours and not the source's (section 3).
func localAnnotation(a string) bool {
	return a == podinfo.AnnotationSource || a == podinfo.AnnotationSeen || a == podinfo.AnnotationMirror
}
