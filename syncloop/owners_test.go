package syncloop

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/podwright/podwright/internal/podinfo"
)

var errForbidden = errors.New("privileged")

// review forbids one image.
func review(_, p *v1.Pod) error {
	if p.Spec.Containers[0].Image == "forbidden" {
		return errForbidden
	}
	return nil
}

func labelled(p *v1.Pod) { p.Labels = map[string]string{"new": "yes"} }

// TestRefusedChangeIsNotMade (PS5): a pod whose change is refused stays as it is, with one report per change, until
// its source says something different. Its deletion and its status still change, because they are not the pod's own.
func TestRefusedChangeIsNotMade(t *testing.T) {
	d := oneSource()
	d.desired.review = review
	d.set("file", newPod("a", "web"), newPod("b", "db", image("forbidden"))) // the gate judges new pods
	if got := show(d.set("file", newPod("a", "web", image("forbidden"), labelled), newPod("b", "db", image("forbidden")))); len(got) != 0 {
		t.Errorf("a refused change: %v", got)
	}
	d.set("file", newPod("a", "web", image("forbidden"), labelled), newPod("b", "db", image("forbidden")))
	if diff := cmp.Diff([]string{"a loses to a of file"}, d.reports); diff != "" {
		t.Errorf("reports (-want +got):\n%s", diff)
	}
	deletion := d.set("file", newPod("a", "web", image("forbidden"), deleted), newPod("b", "db", image("forbidden")))
	if diff := cmp.Diff([]string{"file DELETE a"}, show(deletion)); diff != "" || deletion[0].pods[0].Spec.Containers[0].Image != "app:1" {
		t.Errorf("its deletion (-want +got):\n%s", diff)
	}
	got := d.set("file", newPod("a", "web", image("app:2")), newPod("b", "db", image("forbidden"), labelled))
	if diff := cmp.Diff([]string{"file UPDATE a b"}, show(got)); diff != "" {
		t.Errorf("allowed changes, and labels of a pod that is not reviewed for them (-want +got):\n%s", diff)
	}
}

// TestMirrorPodIsNotReviewed (PS5): a mirror pod shows a static pod and runs nothing itself.
func TestMirrorPodIsNotReviewed(t *testing.T) {
	d, mirrorOf := oneSource(), annotated(podinfo.AnnotationMirror, "hash")
	d.desired.review = review
	d.desired.lower = func(*v1.Pod) (*v1.Pod, string) { t.Error("lowered"); return nil, "" }
	d.desired.owner = func(types.UID) (*v1.Pod, string) { return newPod("m", "web", mirrorOf), "file" }
	d.set("file", newPod("m", "web", mirrorOf))
	got := d.set("file", newPod("m", "web", mirrorOf, image("forbidden")))
	if diff := cmp.Diff([]string{"file UPDATE m"}, show(got)); diff != "" || len(d.reports) > 0 {
		t.Errorf("its change (-want +got):\n%s%v", diff, d.reports)
	}
}

// TestChangeWhileDownIsReviewed (PS5): a pod that was changed while no process ran stays as it was,
// unless the change is allowed.
func TestChangeWhileDownIsReviewed(t *testing.T) {
	for _, tc := range []struct{ image, source, name, want string }{
		{"forbidden", "file", "web", "app:1"},
		{"app:2", "file", "web", "app:2"},
		{"forbidden", "other", "web", "forbidden"}, // not the source's pod: the gate judges it
		{"app:2", "file", "db", "app:2"},           // another pod
	} {
		d := oneSource()
		d.desired.review = review
		d.desired.owner = func(types.UID) (*v1.Pod, string) { return newPod("a", tc.name), tc.source }
		p := d.set("file", newPod("a", "web", image(tc.image), labelled))[0].pods[0]
		if got := p.Spec.Containers[0].Image; got != tc.want || p.Annotations["kubernetes.io/config.source"] != "file" {
			t.Errorf("%+v: it runs %s", tc, got)
		}
		if again := show(d.set("file", newPod("a", "web", image(tc.image), labelled))); len(again) != 0 {
			t.Errorf("%+v: the same set again: %v", tc, again)
		}
	}
}

// TestUIDBelongsToItsFirstOwner (PS6) until nothing is left of the pod, also over a restart and
// whichever source is heard first. A source that is gone owns nothing.
func TestUIDBelongsToItsFirstOwner(t *testing.T) {
	record := "file"
	owner := func(types.UID) (*v1.Pod, string) {
		if record == "" {
			return nil, ""
		}
		return newPod("x", "own"), record
	}
	fresh := func() *differ {
		d := newDiffer(&wanted{name: "chan", precedence: PrecedenceInProcess}, &wanted{name: "file", precedence: PrecedenceFile})
		d.desired.owner = owner
		return d
	}
	d := fresh()
	for i, s := range []struct {
		source string
		pods   []*v1.Pod
		record string
		want   []string
	}{
		{"chan", []*v1.Pod{newPod("x", "theft")}, "file", []string{"chan ADD"}},
		{"file", []*v1.Pod{newPod("x", "own")}, "file", []string{"file ADD x"}},
		{"chan", []*v1.Pod{newPod("x", "theft")}, "file", []string{}},
		{"file", nil, "file", []string{"file REMOVE x"}}, // its containers still stop
		{"chan", []*v1.Pod{newPod("x", "theft")}, "file", []string{}},
		{"chan", []*v1.Pod{newPod("x", "theft")}, "", []string{"chan ADD x"}}, // gone
		{"file", []*v1.Pod{newPod("x", "own")}, "chan", []string{}},
	} {
		record = s.record
		if diff := cmp.Diff(s.want, show(d.set(s.source, s.pods...))); diff != "" {
			t.Errorf("step %d (-want +got):\n%s", i, diff)
		}
	}
	if want := []string{"x loses to x of file", "x loses to x of chan"}; !slices.Equal(d.reports, want) {
		t.Errorf("reports %q", d.reports)
	}
	record = "former"
	d = fresh()
	if got := show(d.set("chan", newPod("x", "web"))); !slices.Equal(got, []string{"chan ADD"}) {
		t.Errorf("a UID of a source that may be added yet: %v", got)
	}
	if got := show(d.set("file")); !slices.Equal(got, []string{"chan ADD x", "file ADD"}) {
		t.Errorf("a UID of a source that is gone, once all have spoken: %v", got)
	}
}

// TestUIDBecomesFree (PS6): no message says that nothing is left of a pod. Its UID goes to the pod that waits for it
// after the next housekeeping pass, whether that one was named before the end or came too early, also across a restart.
func TestUIDBecomesFree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var gone atomic.Bool
		var passes atomic.Int64
		a, b, l := newScripted("a"), newScripted("b"), &log{}
		loop, stop := run(t, l, Options{
			Sources: []Source{a, b}, Recorder: l,
			Owner: func(uid types.UID) (*v1.Pod, string) {
				if uid != "x" || gone.Load() {
					return nil, ""
				}
				return newPod("x", "web"), "a"
			},
			Housekeeper: housekeeperFunc(func(context.Context, func(func())) error { passes.Add(1); return nil }),
		})
		defer stop()
		named := newPod("n", "name")
		a.set(newPod("x", "web"), named)
		l.want(t, "its first source", "create n", "create x")
		b.set()
		a.set(named)
		l.want(t, "dropped", "kill x")
		b.set(newPod("x", "web"), newPod("m", "name"))
		synctest.Wait()
		l.take() // the events
		pass(time.Minute)
		l.want(t, "while something is left of it")
		if s := loop.Sources(); s[1].Pods != 2 || s[1].Suppressed != 2 || len(loop.Problems()) != 2 {
			t.Errorf("while it waits: %+v, problems %v", s[1], loop.Problems())
		}
		heard := loop.Sources()[1].LastDelivery
		gone.Store(true)
		pass(3 * time.Second)
		l.want(t, "nothing is left of it", "create x")
		if s := loop.Sources(); s[1].Suppressed != 1 || s[1].LastDelivery != heard || len(loop.Problems()) != 1 {
			t.Errorf("at the end: %+v, problems %v", s[1], loop.Problems())
		}
		before := passes.Load()
		pass(time.Minute)
		if passes.Load() == before {
			t.Error("no further pass")
		}
		b.set(newPod("x", "web", image("app:2")))
		l.want(t, "its source goes on", "update x")
	})
}

// TestUIDBecomesFreeInTurn (PS6, M2): a pass waits neither for a delivery under way nor for a full queue: the next pass
// sees to it.
func TestUIDBecomesFreeInTurn(t *testing.T) {
	d := newDiffer(&wanted{name: "a"}, &wanted{name: "b"})
	x := newMux(nil, clock.RealClock{}, nil, nil)
	owner := "a"
	x.desired = d.desired
	x.desired.owner = func(types.UID) (*v1.Pod, string) { return newPod("x", "web"), owner }
	for _, s := range d.desired.sources {
		x.statuses[s.name] = &SourceStatus{}
	}
	d.set("a")
	d.set("b", newPod("x", "web"))
	owner = ""
	x.turn <- struct{}{}
	x.again(t.Context())
	<-x.turn
	for range queueCapacity {
		x.queue <- batch{}
	}
	x.again(t.Context())
	for range queueCapacity {
		if b := <-x.queue; b.operations != nil {
			t.Error("more than the queue takes")
		}
	}
	x.again(t.Context())
	x.again(t.Context())
	if b := <-x.queue; !slices.Equal(show(b.operations), []string{"b ADD x"}) || len(x.queue) > 0 {
		t.Errorf("operations %v and %d more batches", show(b.operations), len(x.queue))
	}
}

// TestRenamedPodIsReviewed (PS5): what was decided about a pod belongs to its UID. A pod under
// another name may not become something forbidden, whether a process runs meanwhile or not.
func TestRenamedPodIsReviewed(t *testing.T) {
	d := oneSource()
	d.desired.review = review
	d.set("file", newPod("a", "web"))
	if diff := cmp.Diff([]string{"file REMOVE a"}, show(d.set("file", newPod("a", "other", image("forbidden"))))); diff != "" || len(d.reports) != 1 {
		t.Errorf("(-want +got):\n%s%v", diff, d.reports)
	}
	d = oneSource()
	d.desired.review = review
	d.desired.owner = func(types.UID) (*v1.Pod, string) { return newPod("a", "web"), "file" }
	if diff := cmp.Diff([]string{"file ADD"}, show(d.set("file", newPod("a", "other", image("forbidden"))))); diff != "" || len(d.reports) != 1 {
		t.Errorf("while no process ran (-want +got):\n%s%v", diff, d.reports)
	}
	if diff := cmp.Diff([]string{"file ADD a"}, show(d.set("file", newPod("a", "other")))); diff != "" {
		t.Errorf("as it may be (-want +got):\n%s", diff)
	}
}

// TestForbiddenPodTakesNoName (PS4): a forbidden pod keeps no other pod from its name, whatever
// their precedence and whichever came first.
func TestForbiddenPodTakesNoName(t *testing.T) {
	for _, tenantFirst := range []bool{true, false} {
		d := newDiffer(&wanted{name: "chan", precedence: PrecedenceInProcess}, &wanted{name: "file", precedence: PrecedenceFile})
		d.desired.review = review
		if tenantFirst {
			d.set("chan", newPod("t", "web", image("forbidden")))
		}
		d.set("file", newPod("own", "web"))
		d.set("chan", newPod("t", "web", image("forbidden")))
		if e := d.source("file").entries["own"]; e.emitted == nil {
			t.Errorf("tenant first: %t: the owner's pod does not run", tenantFirst)
		}
		if e := d.source("chan").entries["t"]; e.emitted != nil {
			t.Errorf("tenant first: %t: the tenant's pod has the name", tenantFirst)
		}
	}
}

// TestAdmittedPodKeepsItsName (PS4, AD5): what was admitted before its source's policy forbade it keeps its name, as long as
// that life goes on.
func TestAdmittedPodKeepsItsName(t *testing.T) {
	d := newDiffer(&wanted{name: "chan", precedence: PrecedenceInProcess}, &wanted{name: "file", precedence: PrecedenceFile})
	admitted := true
	d.desired.review, d.desired.admitted = review, func(p *v1.Pod) bool { return admitted && p.UID == "t" }
	for i, s := range []struct {
		goesOn bool
		source string
		pod    *v1.Pod
		want   []string
	}{
		{true, "file", newPod("own", "web"), []string{"file ADD own"}},
		{true, "chan", newPod("t", "web", image("forbidden")), []string{"file REMOVE own", "chan ADD t"}},
		{true, "file", newPod("own", "web"), []string{}},
		{false, "file", newPod("own", "web"), []string{"chan REMOVE t", "file ADD own"}},
	} {
		admitted = s.goesOn
		if diff := cmp.Diff(s.want, show(d.set(s.source, s.pod))); diff != "" {
			t.Errorf("step %d (-want +got):\n%s", i, diff)
		}
	}
}

// TestNameStaysWithItsSource (M4): among sources of one precedence, the source that has a name
// keeps it, even with a different pod, until it no longer wants it. A restart does not change that.
func TestNameStaysWithItsSource(t *testing.T) {
	recorded := map[types.UID]string{}
	fresh := func() *differ {
		d := newDiffer(
			&wanted{name: "a", precedence: PrecedenceHTTP}, &wanted{name: "b", precedence: PrecedenceHTTP}, &wanted{name: "file", precedence: PrecedenceFile},
		)
		d.desired.owner = func(uid types.UID) (*v1.Pod, string) {
			if recorded[uid] == "" {
				return nil, ""
			}
			return newPod(string(uid), "web"), recorded[uid]
		}
		return d
	}
	d := fresh()
	for i, s := range []struct {
		source string
		pods   []*v1.Pod
		want   []string
	}{
		{"b", []*v1.Pod{newPod("b1", "web")}, []string{"b ADD b1"}},
		{"a", []*v1.Pod{newPod("a1", "web")}, []string{"a ADD"}},
		{"b", []*v1.Pod{newPod("b2", "web")}, []string{"b REMOVE b1", "b ADD b2"}},
		{"a", []*v1.Pod{newPod("a2", "web")}, []string{}},
		{"file", []*v1.Pod{newPod("f1", "web")}, []string{"b REMOVE b2", "file ADD f1"}},
		{"file", nil, []string{"file REMOVE f1", "a ADD a2"}}, // neither a nor b has the name
		{"a", nil, []string{"a REMOVE a2", "b ADD b2"}},
		{"b", nil, []string{"b REMOVE b2"}},
	} {
		if diff := cmp.Diff(s.want, show(d.set(s.source, s.pods...))); diff != "" {
			t.Errorf("step %d (-want +got):\n%s", i, diff)
		}
	}
	recorded["b1"] = "b"
	d = fresh()
	d.desired.admitted = func(*v1.Pod) bool { return false }
	d.set("a", newPod("a1", "web"))
	if diff := cmp.Diff([]string{"b ADD"}, show(d.set("b", newPod("b1", "web")))); diff != "" {
		t.Errorf("a record of a next life (-want +got):\n%s", diff)
	}
	d = fresh()
	for i, s := range []struct {
		source string
		pods   []*v1.Pod
		want   []string
	}{
		{"a", []*v1.Pod{newPod("a1", "web")}, []string{"a ADD a1"}},
		{"b", []*v1.Pod{newPod("b1", "web")}, []string{"a REMOVE a1", "b ADD b1"}},
		{"a", []*v1.Pod{newPod("a1", "web")}, []string{}},
		{"b", nil, []string{"b REMOVE b1", "a ADD a1"}},
		{"b", []*v1.Pod{newPod("b1", "web")}, []string{}}, // what it had is over
		{"a", nil, []string{"a REMOVE a1", "b ADD b1"}},
	} {
		if diff := cmp.Diff(s.want, show(d.set(s.source, s.pods...))); diff != "" {
			t.Errorf("after a restart, step %d (-want +got):\n%s", i, diff)
		}
		for _, p := range s.pods { // as the engine does, also with a pod that has lost its name before
			recorded[p.UID] = s.source
		}
	}
	recorded = map[types.UID]string{}
	d.set("a", newPod("a2", "else"))
	d.set("a")
	if len(d.desired.dropped) != 1 {
		t.Errorf("%d pods without records are remembered", len(d.desired.dropped)-1)
	}
}
