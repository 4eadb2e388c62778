package syncloop

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/podwright/podwright/internal/podinfo"
)

// differ drives desired as the mux does, without a queue or goroutines.
type differ struct {
	desired *desired
	now     time.Time
	reports []string
}

func newDiffer(sources ...*wanted) *differ { return &differ{desired: newDesired(sources), now: start} }

func (d *differ) source(name string) *wanted {
	i := slices.IndexFunc(d.desired.sources, func(w *wanted) bool { return w.name == name })
	return d.desired.sources[i]
}

// set delivers a full set and returns the operations.
func (d *differ) set(source string, pods ...*v1.Pod) []operation {
	c := d.desired.prepare(d.source(source), pods, d.now)
	d.desired.commit(c)
	for _, r := range c.reports {
		d.reports = append(d.reports, fmt.Sprintf("%s loses to %s of %s", r.refusal.uid, r.refusal.winner, r.refusal.by))
	}
	return c.operations
}

// show renders operations as "source OP uid uid".
func show(operations []operation) []string {
	out := []string{}
	for _, o := range operations {
		words := []string{o.source, o.op.String()}
		for _, p := range o.pods {
			words = append(words, string(p.UID))
		}
		out = append(out, strings.Join(words, " "))
	}
	return out
}

func oneSource() *differ { return newDiffer(&wanted{name: "file", precedence: PrecedenceFile}) }

// TestSetAfterSet is the table of M5 with the fields of M6: what the second set
// of a source leads to.
func TestSetAfterSet(t *testing.T) {
	a := func(edits ...func(*v1.Pod)) *v1.Pod { return newPod("a", "web", edits...) }
	tests := []struct {
		name          string
		first, second []*v1.Pod
		want          []string
	}{
		{"M5 unknown UID", nil, []*v1.Pod{a()}, []string{"file ADD a"}},
		{"M5 unknown UID that is deleted already, edge 2", nil, []*v1.Pod{a(deleted)}, []string{"file ADD a"}},
		{"M5 no difference", []*v1.Pod{a()}, []*v1.Pod{a()}, []string{}},
		{"M5 spec changed", []*v1.Pod{a()}, []*v1.Pod{a(image("app:2"))}, []string{"file UPDATE a"}},
		{"M5 deletion began", []*v1.Pod{a()}, []*v1.Pod{a(deleted)}, []string{"file DELETE a"}},
		{"M5 status differs", []*v1.Pod{a()}, []*v1.Pod{a(phase(v1.PodRunning))}, []string{"file RECONCILE a"}},
		{"M5 spec and status differ", []*v1.Pod{a()}, []*v1.Pod{a(image("app:2"), phase(v1.PodRunning))}, []string{"file UPDATE a"}},
		{"M5 missing", []*v1.Pod{a()}, nil, []string{"file REMOVE a"}},
		{"M6 grace shortened while terminating, edge 6", []*v1.Pod{a(deleted, grace(30))}, []*v1.Pod{a(deleted, grace(5))}, []string{"file DELETE a"}},
		{"M6 grace removed", []*v1.Pod{a(deleted, grace(30))}, []*v1.Pod{a(deleted)}, []string{"file DELETE a"}},
		{"M6 deletion taken back", []*v1.Pod{a(deleted)}, []*v1.Pod{a()}, []string{"file UPDATE a"}},
		{"M6 labels", []*v1.Pod{a()}, []*v1.Pod{a(func(p *v1.Pod) { p.Labels = map[string]string{"x": "y"} })}, []string{"file UPDATE a"}},
		{"M6 ordinary annotation, edge 5", []*v1.Pod{a(annotated("x", "1"))}, []*v1.Pod{a(annotated("x", "2"))}, []string{"file UPDATE a"}},
		{"M6 annotation removed", []*v1.Pod{a(annotated("x", "1"))}, []*v1.Pod{a()}, []string{"file UPDATE a"}},
		{"M6 local annotations", []*v1.Pod{a()}, []*v1.Pod{a(annotated(podinfo.AnnotationSource, "x"), annotated(podinfo.AnnotationSeen, "y"))}, []string{}},
		{"M6 mirror hash", []*v1.Pod{a(annotated(podinfo.AnnotationMirror, "1"))}, []*v1.Pod{a(annotated(podinfo.AnnotationMirror, "2"))}, []string{}},
		{"M6 other metadata, edge 5", []*v1.Pod{a()}, []*v1.Pod{a(func(p *v1.Pod) {
			p.ResourceVersion = "7"
			p.OwnerReferences = []metav1.OwnerReference{{Name: "set"}}
			p.Finalizers = []string{"f"}
		})}, []string{}},
		{"M5 name taken by a new UID, edge 3", []*v1.Pod{a()}, []*v1.Pod{newPod("b", "web")}, []string{"file REMOVE a", "file ADD b"}},
		{"M6 the name is not metadata", []*v1.Pod{a()}, []*v1.Pod{newPod("a", "api")}, []string{"file REMOVE a", "file ADD a"}},
		{
			"M7 order of groups",
			[]*v1.Pod{newPod("1", "n1"), newPod("2", "n2"), newPod("3", "n3"), newPod("4", "n4"), newPod("5", "n5")},
			[]*v1.Pod{newPod("2", "n2", phase(v1.PodRunning)), newPod("3", "n3", deleted), newPod("4", "n4", image("app:2")), newPod("5", "n5"), newPod("6", "n6")},
			[]string{"file REMOVE 1", "file ADD 6", "file UPDATE 4", "file DELETE 3", "file RECONCILE 2"},
		},
		{"nil pods and pods without UID are left out", []*v1.Pod{a()}, []*v1.Pod{nil, a(), newPod("", "x")}, []string{}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			d := oneSource()
			d.set("file", test.first...)
			if diff := cmp.Diff(test.want, show(d.set("file", test.second...))); diff != "" {
				t.Errorf("operations (-want +got):\n%s", diff)
			}
			if got := d.set("file", test.second...); len(got) != 0 {
				t.Errorf("the same set again yields %v (SI8)", show(got))
			}
		})
	}
}

func TestFirstSetIsNeverSilent(t *testing.T) { // M8, edge 1
	d := oneSource()
	if diff := cmp.Diff([]string{"file ADD"}, show(d.set("file"))); diff != "" {
		t.Errorf("first, empty set (-want +got):\n%s", diff)
	}
	if got := d.set("file"); len(got) != 0 {
		t.Errorf("second, empty set yields %v", show(got))
	}
}

func TestLocalAnnotations(t *testing.T) { // M5 ADD, M6, SI7
	d := oneSource()
	given := newPod("a", "web", annotated("x", "1"), annotated(podinfo.AnnotationSeen, "forged"))
	added := d.set("file", given)[0].pods[0]
	want := map[string]string{"x": "1", podinfo.AnnotationSource: "file", podinfo.AnnotationSeen: "2026-03-01T12:00:00Z"}
	if diff := cmp.Diff(want, added.Annotations); diff != "" {
		t.Errorf("annotations (-want +got):\n%s", diff)
	}
	d.now = d.now.Add(time.Hour)
	updated := d.set("file", newPod("a", "web", annotated("x", "2"), image("app:2")))[0].pods[0]
	want["x"] = "2"
	if diff := cmp.Diff(want, updated.Annotations); diff != "" {
		t.Errorf("annotations after an update (-want +got):\n%s", diff)
	}
	if added.Annotations["x"] != "1" || added.Spec.Containers[0].Image != "app:1" {
		t.Error("an update changed the pod of an earlier operation")
	}
	if given.Annotations[podinfo.AnnotationSeen] != "forged" || given.Annotations[podinfo.AnnotationSource] != "" {
		t.Error("the source's own object was changed")
	}
}

func TestStoredOnChange(t *testing.T) { // M6
	d := oneSource()
	first := newPod("a", "web", deleted, grace(30), func(p *v1.Pod) { p.Generation, p.ResourceVersion = 1, "1" })
	d.set("file", first)
	second := newPod("a", "web", image("app:2"), phase(v1.PodRunning), func(p *v1.Pod) { p.Generation, p.ResourceVersion = 2, "2" })
	got := d.set("file", second)[0].pods[0]
	if got.Generation != 2 || got.ResourceVersion != "1" || got.DeletionTimestamp != nil || got.DeletionGracePeriodSeconds != nil || got.Status.Phase != v1.PodRunning {
		t.Errorf("stored: generation %d, version %s, deleted %v with grace %v, phase %s", got.Generation, got.ResourceVersion,
			got.DeletionTimestamp, got.DeletionGracePeriodSeconds, got.Status.Phase)
	}
}

func TestRemovedAndAddedAgainIsNew(t *testing.T) { // edge 10, SI7
	d := oneSource()
	first := d.set("file", newPod("a", "web"))[0].pods[0]
	d.set("file")
	d.now = d.now.Add(time.Hour)
	again := d.set("file", newPod("a", "web"))
	if diff := cmp.Diff([]string{"file ADD a"}, show(again)); diff != "" {
		t.Fatalf("(-want +got):\n%s", diff)
	}
	if again[0].pods[0].Annotations[podinfo.AnnotationSeen] == first.Annotations[podinfo.AnnotationSeen] {
		t.Error("the new life was first seen in the old one")
	}
}

// TestGivenUp: a message that was prepared and given up leaves no trace, neither in
// its own source nor in the others.
func TestGivenUp(t *testing.T) {
	d := newDiffer(&wanted{name: "api"}, &wanted{name: "file", precedence: PrecedenceFile})
	d.set("api", newPod("p", "web"))
	d.set("file", newPod("f", "db"))
	d.desired.prepare(d.source("api"), []*v1.Pod{newPod("p", "web", image("app:9")), newPod("q", "x")}, d.now)
	d.desired.prepare(d.source("file"), []*v1.Pod{newPod("f", "web")}, d.now)
	if got := d.set("api", newPod("p", "web")); len(got) != 0 {
		t.Errorf("api: %v", show(got))
	}
	d.desired.prepare(d.source("api"), []*v1.Pod{newPod("p", "web", image("app:9"))}, d.now)
	if diff := cmp.Diff([]string{"api REMOVE p", "file ADD g"}, show(d.set("file", newPod("f", "db"), newPod("g", "web")))); diff != "" {
		t.Errorf("file (-want +got):\n%s", diff)
	}
	d.desired.prepare(d.source("api"), []*v1.Pod{newPod("p", "web", image("app:9"))}, d.now)
	back := d.set("file", newPod("f", "db"))
	if diff := cmp.Diff([]string{"file REMOVE g", "api ADD p"}, show(back)); diff != "" {
		t.Fatalf("file (-want +got):\n%s", diff)
	}
	if got := back[1].pods[0].Spec.Containers[0].Image; got != "app:1" {
		t.Errorf("the version that was given up is out: %s", got)
	}
}

func TestPodsAreCopies(t *testing.T) { // M7, SRC1
	d := oneSource()
	given := newPod("a", "web")
	added := d.set("file", given)[0].pods[0]
	given.Spec.Containers[0].Image = "app:2"
	if added.Spec.Containers[0].Image != "app:1" {
		t.Error("the operation shares memory with the source")
	}
	if diff := cmp.Diff([]string{"file UPDATE a"}, show(d.set("file", given))); diff != "" {
		t.Errorf("a change in place (-want +got):\n%s", diff)
	}
}

func TestDuplicateInOneMessage(t *testing.T) { // M4, edge 7
	d := oneSource()
	if diff := cmp.Diff([]string{"file ADD a"}, show(d.set("file", newPod("a", "web"), newPod("b", "web"), newPod("a", "other")))); diff != "" {
		t.Errorf("two of one name (-want +got):\n%s", diff)
	}
	wantReports := []string{"b loses to a of file", "a loses to a of file"}
	if diff := cmp.Diff(wantReports, d.reports); diff != "" {
		t.Errorf("reports (-want +got):\n%s", diff)
	}
	d.set("file", newPod("a", "web"), newPod("b", "web"), newPod("a", "other"))
	if len(d.reports) != 2 {
		t.Errorf("the same set is reported again: %v", d.reports)
	}
	if diff := cmp.Diff([]string{"file REMOVE a", "file ADD b"}, show(d.set("file", newPod("b", "web")))); diff != "" {
		t.Errorf("the winner goes (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"file REMOVE b", "file ADD c"}, show(d.set("file", newPod("c", "web"), newPod("b", "web")))); diff != "" {
		t.Errorf("a known pod becomes the second of its name (-want +got):\n%s", diff)
	}
}

// TestPrecedence: if two sources use one name, the source with the higher precedence wins, in any
// order of arrival; if they use one UID, the first one wins. The loser takes over when the winner
// goes (M4, PS6, edge 8).
func TestPrecedence(t *testing.T) {
	sources := func() *differ {
		return newDiffer(&wanted{name: "api", precedence: PrecedenceAPI}, &wanted{name: "chan", precedence: PrecedenceInProcess},
			&wanted{name: "file", precedence: PrecedenceFile}, &wanted{name: "http", precedence: PrecedenceHTTP})
	}
	type step struct {
		source string
		pods   []*v1.Pod
		want   []string
	}
	set := func(source string, want []string, pods ...*v1.Pod) step { return step{source, pods, want} }
	tests := []struct {
		name    string
		steps   []step
		reports []string
	}{
		{"winner first", []step{
			set("file", []string{"file ADD f"}, newPod("f", "web")),
			set("api", []string{"api ADD"}, newPod("p", "web")),
			set("api", []string{}, newPod("p", "web", image("app:2"))),
			set("file", []string{"file REMOVE f", "api ADD p"}),
		}, []string{"p loses to f of file"}},
		{"loser first", []step{
			set("api", []string{"api ADD p q"}, newPod("p", "web"), newPod("q", "db")),
			set("file", []string{"api REMOVE p", "file ADD f"}, newPod("f", "web")),
			set("api", []string{"api UPDATE q"}, newPod("p", "web"), newPod("q", "db", image("db:2"))),
			set("api", []string{"api REMOVE q"}),
			set("file", []string{"file REMOVE f"}),
		}, []string{"p loses to f of file"}},
		{"PS6 one UID in two sources", []step{
			set("http", []string{"http ADD x"}, newPod("x", "one")),
			set("chan", []string{"chan ADD"}, newPod("x", "two")),
			set("http", []string{"http REMOVE x", "chan ADD x"}),
			set("http", []string{}, newPod("x", "one")),
		}, []string{"x loses to x of http", "x loses to x of chan"}},
		{"PS6 a UID whose owner loses its name", []step{
			set("http", []string{"http ADD x"}, newPod("x", "one")),
			set("file", []string{"file ADD"}, newPod("x", "two")),
			set("chan", []string{"http REMOVE x", "chan ADD c", "file ADD x"}, newPod("c", "one")),
		}, []string{"x loses to x of http", "x loses to c of chan"}},
		{"one name in three sources", []step{
			set("http", []string{"http ADD h"}, newPod("h", "b")),
			set("file", []string{"http REMOVE h", "file ADD f"}, newPod("f", "b")),
			set("chan", []string{"file REMOVE f", "chan ADD d"}, newPod("d", "b")),
			set("chan", []string{"chan REMOVE d", "file ADD f"}),
		}, []string{"h loses to f of file", "f loses to d of chan", "h loses to d of chan", "h loses to f of file"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			d := sources()
			for i, s := range test.steps {
				got := show(d.set(s.source, s.pods...))
				slices.Sort(got)
				slices.Sort(s.want)
				if diff := cmp.Diff(s.want, got); diff != "" {
					t.Errorf("step %d (-want +got):\n%s", i, diff)
				}
			}
			if diff := cmp.Diff(test.reports, d.reports); diff != "" {
				t.Errorf("reports (-want +got):\n%s", diff)
			}
		})
	}
}

func TestRemovalsComeBeforeAdditions(t *testing.T) { // M7 over all sources of one message
	d := newDiffer(&wanted{name: "api"}, &wanted{name: "file", precedence: PrecedenceFile})
	d.set("api", newPod("p", "web"))
	want := []string{"api REMOVE p", "file ADD f"}
	if diff := cmp.Diff(want, show(d.set("file", newPod("f", "web")))); diff != "" {
		t.Errorf("the name must be free before it is taken (-want +got):\n%s", diff)
	}
}

// TestHistories checks, over random sets of three sources: each source's operations
// are a valid history (SI1), replaying them gives the wanted pods (SI2, SI3), no
// name or UID has two owners at any time (M4), the first owner keeps a UID (PS6), a set delivered twice yields
// nothing (SI8), first-seen stays (SI7), a prepared message that is given up
// changes nothing, and the operations on one UID come in order (SI10).
func TestHistories(t *testing.T) { rapid.Check(t, histories) }

func histories(t *rapid.T) {
	d := newDiffer(&wanted{name: "api", precedence: PrecedenceAPI}, &wanted{name: "file", precedence: PrecedenceFile},
		&wanted{name: "chan", precedence: PrecedenceInProcess})
	m := model{live: map[types.UID]replayed{}, wanted: map[string][]*v1.Pod{}}
	pod := rapid.Custom(func(t *rapid.T) *v1.Pod {
		p := newPod(rapid.StringMatching("[a-f]").Draw(t, "uid"), rapid.SampledFrom([]string{"w", "x", "y", "z"}).Draw(t, "name"))
		p.Spec.Containers[0].Image = rapid.SampledFrom([]string{"1", "2"}).Draw(t, "image")
		if rapid.Bool().Draw(t, "deleted") {
			deleted(p)
		}
		p.Status.Phase = rapid.SampledFrom([]v1.PodPhase{v1.PodPending, v1.PodRunning}).Draw(t, "phase")
		return p
	})
	for range rapid.IntRange(1, 25).Draw(t, "messages") {
		source := rapid.SampledFrom([]string{"api", "file", "chan"}).Draw(t, "source")
		pods := rapid.SliceOfN(pod, 0, 6).Draw(t, "pods")
		if rapid.Bool().Draw(t, "given up") {
			d.desired.prepare(d.source(source), rapid.SliceOfN(pod, 0, 6).Draw(t, "lost"), d.now)
		}
		d.now = d.now.Add(time.Second)
		m.hear(source, pods)
		before := map[types.UID]string{}
		for uid, r := range m.live {
			before[uid] = r.source
		}
		m.apply(t, d.set(source, pods...))
		m.check(t, before)
		if again := d.set(source, pods...); len(again) != 0 {
			t.Fatalf("the same set of %s again: %v", source, show(again))
		}
	}
}

// replayed is a live pod and the source whose operation made it so.
type replayed struct {
	pod    *v1.Pod
	source string
}

// model replays operations.
type model struct {
	live   map[types.UID]replayed
	wanted map[string][]*v1.Pod
}

// hear takes a message. If two pods have one name or UID, the first counts; but if the source named
// one of the pods with a UID before, that one does.
func (m *model) hear(source string, pods []*v1.Pod) {
	named := map[types.UID]string{}
	for _, p := range m.wanted[source] {
		named[p.UID] = p.Name
	}
	for again := true; again; {
		again, m.wanted[source] = false, nil
		var second []*v1.Pod
		for _, p := range pods {
			before, known := named[p.UID]
			switch {
			case known && before != p.Name && slices.ContainsFunc(pods, func(o *v1.Pod) bool { return o.UID == p.UID && o.Name == before }):
				second = append(second, p)
			case !slices.ContainsFunc(m.wanted[source], func(o *v1.Pod) bool { return o.UID == p.UID || o.Name == p.Name }):
				m.wanted[source] = append(m.wanted[source], p)
			}
		}
		for _, p := range second {
			if !slices.ContainsFunc(m.wanted[source], func(o *v1.Pod) bool { return o.UID == p.UID }) {
				delete(named, p.UID) // the pod that had the UID has lost its name
				again = true
			}
		}
	}
}

func (m *model) apply(t *rapid.T, operations []operation) {
	for _, o := range operations {
		for _, p := range o.pods {
			old, known := m.live[p.UID]
			switch o.op {
			case opAdd:
				if known {
					t.Fatalf("ADD of %s, which lives already", p.UID)
				}
			default:
				if !known || old.source != o.source {
					t.Fatalf("%s of %s by %s, which it has not added", o.op, p.UID, o.source)
				}
				if old.pod.Annotations[podinfo.AnnotationSeen] != p.Annotations[podinfo.AnnotationSeen] {
					t.Fatalf("first-seen of %s changed", p.UID)
				}
			}
			if o.op == opRemove {
				delete(m.live, p.UID)
				continue
			}
			for uid, other := range m.live {
				if uid != p.UID && other.pod.Name == p.Name {
					t.Fatalf("%s and %s have one name", uid, p.UID)
				}
			}
			m.live[p.UID] = replayed{p, o.source}
		}
	}
}

// check compares the replayed pods with an independent reading of M4 and PS6. before says which
// source had each UID.
func (m *model) check(t *rapid.T, before map[types.UID]string) {
	want := m.winners(before)
	for again := true; again; {
		again = false
		for uid, source := range before { // a source that lost the name, or no longer wants the pod, loses the UID
			if w, ok := want[uid]; !ok || w.source != source {
				delete(before, uid)
				again = true
			}
		}
		want = m.winners(before)
	}
	for uid, w := range want {
		got, ok := m.live[uid]
		p := w.pod
		if !ok || got.source != w.source || got.pod.Spec.Containers[0].Image != p.Spec.Containers[0].Image ||
			(got.pod.DeletionTimestamp == nil) != (p.DeletionTimestamp == nil) || got.pod.Status.Phase != p.Status.Phase {
			t.Fatalf("replayed %s of %q is not what its source wants", uid, got.source)
		}
	}
	if len(m.live) != len(want) {
		t.Fatalf("%d pods live, want %d", len(m.live), len(want))
	}
}

// winners are the pods that win if these sources have these UIDs.
func (m *model) winners(has map[types.UID]string) map[types.UID]replayed {
	names, want := map[string]bool{}, map[types.UID]replayed{}
	for _, source := range []string{"chan", "file", "api"} { // by precedence
		inMessage, inUIDs := map[string]bool{}, map[types.UID]bool{}
		for _, p := range m.wanted[source] {
			if inMessage[p.Name] || inUIDs[p.UID] {
				continue
			}
			inMessage[p.Name], inUIDs[p.UID] = true, true
			if _, taken := want[p.UID]; taken || names[p.Name] || has[p.UID] != "" && has[p.UID] != source {
				continue
			}
			names[p.Name], want[p.UID] = true, replayed{p, source}
		}
	}
	return want
}
