package syncloop

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"
)

// TestTurns: B3, L3. The most urgent lane goes first, but no lane waits for more than 100 pods of
// the others, give or take the turn under way.
func TestTurns(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var x turns
		waited := [lanes]int{}
		for range rapid.IntRange(1, 500).Draw(t, "turns") {
			var waits [lanes]bool
			for l := range lanes {
				waits[l] = rapid.Bool().Draw(t, "waits")
			}
			l, any := x.next(waits)
			if any != (waits != [lanes]bool{}) {
				t.Fatalf("waits %v: any %v", waits, any)
			}
			if !any {
				waited = [lanes]int{}
				continue
			}
			if !waits[l] {
				t.Fatalf("lane %d has nothing", l)
			}
			if most := slices.Max(waited[:]); most < starvation {
				for urgent := range l {
					if waits[urgent] {
						t.Fatalf("lane %d before %d", l, urgent)
					}
				}
			}
			n := rapid.IntRange(1, chunk).Draw(t, "handled")
			x.took(l, n, waits)
			for other := range lanes {
				waited[other] += n
				if other == l || !waits[other] {
					waited[other] = 0
				}
				if waited[other] > starvation+2*chunk {
					t.Fatalf("lane %d waits for %d pods", other, waited[other])
				}
			}
		}
	})
}

// TestUrgentFirst: B3, SI10. Work that ends pods overtakes work that creates them, which overtakes
// syncs of existing pods. The operations of one pod keep their order.
func TestUrgentFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source, l, events := newScripted("file"), &log{}, newEventSet()
		first := true
		begun, release := make(chan struct{}), make(chan struct{})
		l.on(func(Work) {
			if first { // the loop is busy while the rest arrives
				first = false
				close(begun)
				<-release
			}
		})
		_, stop := run(t, l, Options{Sources: []Source{source}, Changes: events})
		defer stop()
		source.set(newPod("old", "old"), newPod("dying", "dying"))
		<-begun
		source.set(newPod("old", "old"), newPod("dying", "dying"), newPod("new", "new"), newPod("brief", "brief"))
		source.set(newPod("dying", "dying", deleted), newPod("new", "new"))
		events.add("dying")
		synctest.Wait()
		close(release)
		// The addition of "brief" still waited when its removal arrived, so the removal waits for it.
		l.want(t, "in order of urgency", "create dying", "create old", "kill old", "update dying", "create brief", "create new", "kill brief", "sync dying")
	})
}

// TestUrgentOvertakes: B3, B11. A removal does not wait for a burst of additions, and events do not
// wait forever.
func TestUrgentOvertakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		burst, other, l, events := newScripted("file"), newScripted("other"), &log{}, newEventSet()
		begun, release := make(chan struct{}), make(chan struct{})
		n := 0
		l.on(func(w Work) {
			if n++; n == 3 {
				close(begun)
				<-release
			}
		})
		_, stop := run(t, l, Options{Sources: []Source{burst, other}, Changes: events})
		defer stop()
		other.set(newPod("x", "x"))
		synctest.Wait()
		burst.set()
		synctest.Wait()
		var pods []*v1.Pod
		for i := range 1000 {
			pods = append(pods, newPod(fmt.Sprintf("p%04d", i), fmt.Sprintf("p%04d", i)))
		}
		burst.set(pods...)
		<-begun
		other.set()
		events.add("p0000")
		synctest.Wait()
		close(release)
		synctest.Wait()
		lines := l.take()
		if len(lines) != 1003 {
			t.Fatalf("%d lines", len(lines))
		}
		if at := slices.Index(lines, "kill x"); at > 1+chunk {
			t.Errorf("the removal was handled after %d pods", at)
		}
		if at := slices.Index(lines, "sync p0000"); at > 2+starvation+2*chunk {
			t.Errorf("the event was handled after %d pods", at)
		}
	})
}

// TestNoChangeOvertakesARemoval: SI10, B3. Changes that have waited long enough to go before removals do
// not go before that of their own pod: it comes back, and is not lost.
func TestNoChangeOvertakesARemoval(t *testing.T) {
	const count = starvation + chunk
	named := func(prefix string, change ...func(*v1.Pod)) (pods []*v1.Pod) {
		for i := count; i > 0; i-- { // additions are sorted by UID, removals are not
			pods = append(pods, newPod(fmt.Sprintf("u%03d", i), fmt.Sprintf("%s%03d", prefix, i), change...))
		}
		return pods
	}
	reversed := func(pods []*v1.Pod) []*v1.Pod {
		slices.Reverse(pods)
		return pods
	}
	for what, sets := range map[string][][]*v1.Pod{
		"other names in one message": {named("new")},
		"away and back":              {nil, named("old")},
		"deleted and taken back":     {named("old", deleted), reversed(named("old"))},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				source, l := newScripted("file"), &log{}
				begun, release := make(chan struct{}), make(chan struct{})
				l.on(func(w Work) {
					if w.Pod.UID == "busy" { // the loop is busy while the sets arrive
						close(begun)
						<-release
					}
				})
				loop, stop := run(t, l, Options{Sources: []Source{source}})
				defer stop()
				source.set(named("old")...)
				synctest.Wait()
				busy := newPod("busy", "busy")
				source.set(append(named("old"), busy)...)
				<-begun
				for _, set := range sets {
					source.set(append(set, busy)...)
				}
				synctest.Wait()
				close(release)
				synctest.Wait()
				pods := loop.Store().Pods()
				if len(pods) != count+1 {
					t.Errorf("%d pods are desired, want %d", len(pods), count+1)
				}
				for _, pod := range pods {
					if pod.DeletionTimestamp != nil {
						t.Errorf("%s is still deleted", pod.Name)
						break
					}
				}
			})
		})
	}
}

// TestSourceAddedLater: R4, M3. A source added to a running loop makes it un-ready until the loop
// has heard that source. Removals wait meanwhile.
func TestSourceAddedLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first, second, l := newScripted("first"), newScripted("second"), &log{}
		loop, stop := run(t, l, Options{Sources: []Source{first}})
		first.set(newPod("a", "a"))
		l.want(t, "first", "create a")
		if !loop.Ready() {
			t.Fatal("not ready")
		}
		if err := loop.AddSource(t.Context(), second); err != nil {
			t.Fatal(err)
		}
		if loop.Ready() {
			t.Error("ready although a source was never heard")
		}
		first.set()
		l.want(t, "a removal waits")
		second.set(newPod("b", "b"))
		l.want(t, "then it is executed", "create b", "kill a")
		if s := loop.Sources(); len(s) != 2 || s[1].Name != "second" || !s[1].Ready {
			t.Errorf("sources: %+v", s)
		}
		for what, s := range map[string]Source{"nil": nil, "a name twice": newScripted("first"), "no name": newScripted("")} {
			if err := loop.AddSource(t.Context(), s); err == nil {
				t.Errorf("%s was accepted", what)
			}
		}
		if err := stop(); err == nil {
			t.Error("ended without reason")
		}
		if err := loop.AddSource(t.Context(), newScripted("late")); !errors.Is(err, errRunning) {
			t.Errorf("after the end: %v", err)
		}
		if n := len(loop.Sources()); n != 2 {
			t.Errorf("%d sources", n)
		}
	})
}

// TestSourceDeadline: R5. By default a source that never speaks keeps the loop
// un-ready forever; an operator may set a time after which it counts as heard.
func TestSourceDeadline(t *testing.T) {
	for _, deadline := range []time.Duration{0, time.Minute} {
		synctest.Test(t, func(t *testing.T) {
			lively, dead, l := newScripted("lively"), newScripted("dead"), &log{}
			loop, stop := run(t, l, Options{Sources: []Source{lively, dead}, SourceDeadline: deadline})
			defer stop()
			lively.set(newPod("a", "a"))
			pass(59 * time.Second)
			if loop.Ready() || !loop.Sources()[0].Ready {
				t.Errorf("ready %v, sources %+v", loop.Ready(), loop.Sources())
			}
			pass(24 * time.Hour)
			status := loop.Sources()[1]
			if loop.Ready() != (deadline > 0) || status.Declared != (deadline > 0) || !status.LastDelivery.IsZero() {
				t.Errorf("deadline %v: ready %v, %+v", deadline, loop.Ready(), status)
			}
			l.want(t, "nothing was removed", "create a")
			dead.set(newPod("b", "b"))
			l.want(t, "it speaks at last", "create b")
			if s := loop.Sources()[1]; s.Declared || !s.Ready {
				t.Errorf("%+v", s)
			}
		})
	}
}
