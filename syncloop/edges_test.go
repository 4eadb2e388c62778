package syncloop

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/instrument/instrumenttest"
	"github.com/podwright/podwright/internal/podinfo"
)

func TestRefusalIsAnEvent(t *testing.T) { // M4, edge 7
	synctest.Test(t, func(t *testing.T) {
		source, l, m := newScripted("file"), &log{}, &instrumenttest.Meter{}
		loop, stop := run(t, l, Options{Sources: []Source{source}, Recorder: l, Meter: m})
		defer stop()
		source.set(newPod("a", "web"), newPod("b", "web"), newPod("a", "db"))
		synctest.Wait()
		got := l.take()
		slices.Sort(got)
		want := []string{
			`Warning FailedValidation: pod default/db (UID a) of source "file" is left out: its UID belongs to pod default/web of source "file"`,
			`Warning FailedValidation: pod default/web (UID b) of source "file" is left out: its full name belongs to a pod (UID a) of source "file"`,
			"create a",
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		if n := m.Take()["podwright_syncloop_refused_pods_total{source=file}"]; n != 2 {
			t.Errorf("counted %v times", n)
		}
		source.set(newPod("a", "web"), newPod("b", "web"), newPod("a", "db"))
		l.want(t, "reported once")
		if s := loop.Sources()[0]; s.Pods != 1 {
			t.Errorf("status %+v", s)
		}
		source.set(newPod("b", "web"))
		l.want(t, "the first goes, the second is new", "kill a", "create b")
	})
}

// TestRefusedChangeIsNotLeftOut (PS5, M4): a pod whose change is refused is told, and does not count among those that
// are left out.
func TestRefusedChangeIsNotLeftOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source, l, m := newScripted("file"), &log{}, &instrumenttest.Meter{}
		_, stop := run(t, l, Options{Sources: []Source{source}, Recorder: l, Meter: m, Review: review})
		defer stop()
		source.set(newPod("a", "web"))
		l.want(t, "as it was", "create a")
		source.set(newPod("a", "web", image("forbidden")))
		synctest.Wait()
		if got := l.take(); len(got) != 1 || !strings.HasPrefix(got[0], "Warning ChangeRefused: ") {
			t.Errorf("events %q", got)
		}
		if n := m.Take()["podwright_syncloop_refused_pods_total{source=file}"]; n != 0 {
			t.Errorf("counted %v times", n)
		}
	})
}

// TestPrecedenceIsTold: a pod that loses its name to a pod of another source is stopped. The event
// and the count name its own source, whichever of the two delivered.
func TestPrecedenceIsTold(t *testing.T) { // M4, edge 8
	synctest.Test(t, func(t *testing.T) {
		api, file, l, m := newScripted("api"), newScripted("file"), &log{}, &instrumenttest.Meter{}
		api.precedence = PrecedenceAPI
		loop, stop := run(t, l, Options{Sources: []Source{api, file}, Recorder: l, Meter: m})
		defer stop()
		const lost = `Warning FailedValidation: pod default/web (UID p) of source "api" is left out: its full name belongs to a pod (UID f) of source "file"`
		status := func(pods, suppressed int) {
			t.Helper()
			synctest.Wait()
			if s := loop.Sources()[0]; s.Pods != pods || s.Suppressed != suppressed {
				t.Errorf("status of the loser's source %+v", s)
			}
			if s := loop.Sources()[1]; s.Suppressed != 0 {
				t.Errorf("status of the winner's source %+v", s)
			}
		}
		file.set()
		api.set(newPod("p", "web"))
		l.want(t, "alone", "create p")
		file.set(newPod("f", "web"))
		synctest.Wait()
		got := l.take()
		slices.Sort(got) // the event comes from the goroutine of the source
		if diff := cmp.Diff([]string{lost, "create f", "kill p"}, got); diff != "" {
			t.Errorf("the file has the name (-want +got):\n%s", diff)
		}
		status(1, 1)
		api.set(newPod("p", "web", image("app:2")))
		l.want(t, "what the loser becomes does not matter")
		file.set()
		l.want(t, "the name is free", "kill f", "create p")
		status(1, 0)
		file.set(newPod("f", "web"))
		synctest.Wait()
		if got := l.take(); !slices.Contains(got, lost) {
			t.Errorf("it is news again: %q", got)
		}
		if got := m.Take(); got["podwright_syncloop_refused_pods_total{source=api}"] != 2 || got["podwright_syncloop_refused_pods_total{source=file}"] != 0 {
			t.Errorf("counted %v", got)
		}
	})
}

// TestSuccessor: a pod with a new UID under an old name gets the name and the mirror, even if
// changes of the old pod still wait and its removal cannot overtake them.
func TestSuccessor(t *testing.T) { // PM8, M7, SI10, edge 3, edge 4
	synctest.Test(t, func(t *testing.T) {
		file, api, l := newScripted("file"), newScripted("api"), &log{}
		api.precedence = PrecedenceAPI
		loop, stop := run(t, l, Options{Sources: []Source{file, api}})
		defer stop()
		owner := func(uid types.UID) {
			t.Helper()
			synctest.Wait()
			if p := loop.Store().staticOf(loop.Store().Mirrors()[0]); p == nil || p.UID != uid {
				t.Errorf("the name finds %v, want %s", p, uid)
			}
			if orphans := loop.Store().OrphanedMirrors(); len(orphans) != 0 {
				t.Errorf("%d mirrors look orphaned", len(orphans))
			}
		}
		api.set(newPod("m", "web", annotated(podinfo.AnnotationMirror, "hash")))
		l.want(t, "the mirror comes first")
		file.set(newPod("old", "web"))
		l.want(t, "the old one", "create old mirror m")
		owner("old")
		file.set(newPod("new", "web"))
		l.want(t, "REMOVE comes before ADD", "kill old", "create new mirror m")
		owner("new")

		loop.fence.Lock() // the loop is busy while all this arrives
		file.set(newPod("new", "web", image("app:2")))
		file.set(newPod("newest", "web"))
		synctest.Wait()
		loop.fence.Unlock()
		l.want(t, "in order", "update new mirror m", "kill new", "create newest mirror m")
		owner("newest")
	})
}

// TestUnknownOperation: the loop ignores an operation that it does not know and goes on, and the
// source counts as heard.
func TestUnknownOperation(t *testing.T) { // L4, edge 32
	synctest.Test(t, func(t *testing.T) {
		source, l, logged := newScripted("file"), &log{}, []string{}
		loop, err := New(l.Dispatch, Options{Sources: []Source{source}, Logger: funcr.New(func(_, args string) { logged = append(logged, args) }, funcr.Options{})})
		if err != nil {
			t.Fatal(err)
		}
		loop.mux.queue <- batch{operations: []operation{{op: op(77), source: "file", pods: []*v1.Pod{newPod("a", "a")}}}, accepted: time.Now(), source: "file"}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- loop.Run(ctx) }()
		l.want(t, "nothing is done")
		if !loop.Ready() {
			t.Error("the source is not marked")
		}
		if _, known := loop.Store().Get("a"); known {
			t.Error("the pod is desired")
		}
		source.set(newPod("a", "a"))
		l.want(t, "the loop lives", "create a")
		cancel()
		<-done
		if text := strings.Join(logged, "\n"); !strings.Contains(text, "Operation ignored") || !strings.Contains(text, `"operation"=77`) {
			t.Errorf("logged %s", text)
		}
	})
}

// TestFirstSetIsEmpty: a source that wants nothing says so, and housekeeping begins.
func TestFirstSetIsEmpty(t *testing.T) { // M8, R1, edge 1
	synctest.Test(t, func(t *testing.T) {
		source, l, m := newScripted("file"), &log{}, &instrumenttest.Meter{}
		p := &passes{begin: time.Now()}
		loop, stop := run(t, l, Options{Sources: []Source{source}, Housekeeper: p, Meter: m})
		defer stop()
		pass(time.Minute)
		p.want(t, "no pass before the source is heard")
		if loop.Ready() || loop.Sources()[0].Seen {
			t.Errorf("ready %v, source %+v", loop.Ready(), loop.Sources()[0])
		}
		source.set()
		pass(20 * ms)
		p.want(t, "a pass at once", time.Minute+10*ms)
		if s := loop.Sources()[0]; !loop.Ready() || !s.Seen || !s.Ready {
			t.Errorf("ready %v, source %+v", loop.Ready(), s)
		}
		source.set()
		synctest.Wait()
		if n := m.Take()["podwright_syncloop_operations_total{operation=ADD,source=file}"]; n != 1 {
			t.Errorf("%v empty ADDs, want one", n)
		}
		l.want(t, "no work")
	})
}
