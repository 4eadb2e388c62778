package syncloop

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// judge is an Admission for tests: it has room for a number of pods.
type judge struct {
	mu    sync.Mutex
	room  int
	fail  func() error
	asked []string
	known map[types.UID]bool
}

func (j *judge) Admit(_ context.Context, pod *v1.Pod, others iter.Seq[*v1.Pod]) (bool, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.fail != nil {
		if err := j.fail(); err != nil {
			return false, err
		}
	}
	n := 0
	for range others {
		n++
	}
	j.asked = append(j.asked, fmt.Sprintf("%s beside %d", pod.UID, n))
	return n < j.room, nil
}

func (j *judge) Remembered(uid types.UID) bool { return j.known[uid] }

func (j *judge) take() []string {
	j.mu.Lock()
	defer j.mu.Unlock()
	asked := j.asked
	j.asked = nil
	return asked
}

func (j *judge) failing(f func() error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.fail = f
}

// TestAdmissionOrder: AD1, AD2, SI5, edge case 18. The loop asks about the pods of a batch oldest
// first, but first of all about those admitted before a restart. Pods later in this order do not
// count. A refused pod is dispatched only to be killed.
func TestAdmissionOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source, l, j := newScripted("file"), &log{}, &judge{room: 2, known: map[types.UID]bool{"c": true}}
		events := newEventSet()
		loop, stop := run(t, l, Options{Sources: []Source{source}, Changes: events, Admission: j})
		defer stop()
		pods := []*v1.Pod{newPod("a", "a", created(start.Add(time.Hour))), newPod("b", "b", created(start)), newPod("c", "c", created(start.Add(2*time.Hour)))}
		source.set(pods...)
		l.want(t, "the remembered one, then the oldest", "create c", "create b")
		if want := []string{"c beside 0", "b beside 1", "a beside 2"}; !slices.Equal(j.take(), want) {
			t.Errorf("want %v", want)
		}
		if !loop.Withheld("a") || loop.Withheld("b") {
			t.Error("a is refused, b is not")
		}
		changed := newPod("a", "a", image("app:2"))
		source.set(changed, pods[1], pods[2])
		events.add("a", "b")
		l.want(t, "updates and syncs of a refused pod go nowhere", "sync b")
		gone := newPod("a", "a", image("app:2"), deleted)
		source.set(gone, pods[1], pods[2])
		l.want(t, "nor does its deletion: housekeeping finishes it")
		source.set(pods[1], pods[2])
		l.want(t, "removed", "kill a")
		if loop.Withheld("a") {
			t.Error("a removed pod is withheld")
		}
	})
}

// TestReadmittedPodIsJudgedAsANewOne: IN14. On request the loop asks about a refused pod again, and the
// pod is refused again or dispatched at once. The loop does not ask about a pod that no source wants.
func TestReadmittedPodIsJudgedAsANewOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source, l, j := newScripted("file"), &log{}, &judge{room: 1}
		loop, stop := run(t, l, Options{Sources: []Source{source}, Admission: j})
		defer stop()
		a, b := newPod("a", "a", created(start)), newPod("b", "b", created(start.Add(time.Hour)))
		source.set(a, b)
		l.want(t, "room for one", "create a")
		j.take()
		loop.Readmit("b")
		loop.Readmit("gone")
		l.want(t, "there is still none")
		if want := []string{"b beside 1"}; !slices.Equal(j.take(), want) || !loop.Withheld("b") {
			t.Errorf("want %v, and the pod withheld", want)
		}
		source.set(b)
		l.want(t, "the other one goes", "kill a")
		loop.Readmit("b")
		l.want(t, "the refused one gets its room", "create b")
		if loop.Withheld("b") || loop.Withheld("gone") || len(loop.OpenVerdicts()) > 0 {
			t.Error("a verdict is open")
		}
	})
}

// TestAdmissionWaits: B9, SI9. Without a verdict, after an error or a panic, only new pods wait, in
// order.
func TestAdmissionWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source, other, l, j := newScripted("file"), newScripted("other"), &log{}, &judge{room: 9}
		loop, stop := run(t, l, Options{Sources: []Source{source, other}, Admission: j})
		defer stop()
		other.set(newPod("x", "x"))
		l.want(t, "admitted", "create x")
		j.failing(func() error { return errors.New("not loaded") })
		source.set(newPod("b", "b"), newPod("a", "a"))
		l.want(t, "no verdict yet")
		j.failing(func() error { panic("handler") })
		pass(10 * time.Second)
		other.set()
		l.want(t, "the others go on", "kill x")
		source.set(newPod("b", "b", image("app:2")), newPod("a", "a"), newPod("c", "c"))
		l.want(t, "changed while it waits")
		if !loop.Withheld("a") || !loop.Withheld("b") {
			t.Error("a pod without verdict may be dispatched")
		}
		j.take()
		j.failing(nil)
		pass(6 * time.Second)
		l.want(t, "judged in order", "create a", "create b", "create c")
		if want := []string{"a beside 0", "b beside 1", "c beside 2"}; !slices.Equal(j.take(), want) {
			t.Errorf("want %v", want)
		}
	})
}

// TestRemovedWhileWaiting: a pod that is removed before its verdict is killed, in case it
// runs from before, and not judged.
func TestRemovedWhileWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source, l, j := newScripted("file"), &log{}, &judge{room: 9, fail: func() error { return errors.New("x") }}
		_, stop := run(t, l, Options{Sources: []Source{source}, Admission: j})
		defer stop()
		source.set(newPod("a", "a"), newPod("b", "b"))
		source.set(newPod("b", "b"))
		l.want(t, "removed", "kill a")
		j.failing(nil)
		pass(6 * time.Second)
		l.want(t, "the rest", "create b")
	})
}

// TestObservedAndEvicted: section 10, RECONCILE. The loop passes on what the API says about a pod,
// including that it was evicted.
func TestObservedAndEvicted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source, l := newScripted("api"), &log{}
		_, stop := run(t, l, Options{
			Sources:  []Source{source},
			Observed: func(p *v1.Pod) { l.add("observed " + string(p.UID)) },
			Evicted:  func(p *v1.Pod) { l.add("evicted " + string(p.UID)) },
		})
		defer stop()
		source.set(newPod("a", "a"))
		l.want(t, "ADD", "observed a", "create a")
		source.set(newPod("a", "a", phase(v1.PodRunning)))
		l.want(t, "RECONCILE", "observed a")
		source.set(newPod("a", "a", phase(v1.PodFailed), func(p *v1.Pod) { p.Status.Reason = "Evicted" }))
		l.want(t, "RECONCILE of an evicted pod, which stops", "observed a", "evicted a", "sync a")
	})
}

// behind is the error of an Admission that waits for the verdict on another pod.
type behind struct{}

func (behind) Error() string { return "another pod comes first" }
func (behind) Behind() bool  { return true }

// TestPodsBehindAreNotJudged: IN6. While an Admission decides on one pod after the other, the loop does not ask
// about later pods each time. Once the Admission goes on, it judges them in the order in which they came.
func TestPodsBehindAreNotJudged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source, l, j := newScripted("api"), &log{}, &judge{room: 100}
		var calls atomic.Int32
		j.failing(func() error { calls.Add(1); return behind{} })
		loop, stop := run(t, l, Options{Sources: []Source{source}, Admission: j})
		defer stop()
		source.set(newPod("a", "a"), newPod("b", "b"), newPod("c", "c"), newPod("d", "d"))
		l.want(t, "all wait")
		calls.Store(0)
		for range 10 {
			loop.GateChanged()
			pass(time.Millisecond)
		}
		if n := calls.Load(); n != 10 {
			t.Errorf("asked %d times, want 10", n)
		}
		j.failing(nil)
		loop.GateChanged()
		l.want(t, "in order", "create a", "create b", "create c", "create d")
	})
}

// inLine is the error for a pod that waits in a line.
type inLine string

func (e inLine) Error() string { return "waits in line " + string(e) }
func (e inLine) Line() string  { return string(e) }

// TestLineIsAskedFromItsHead: IN6. The loop asks again only about the first pod of a line, until that
// has its verdict. Pods outside the line do not wait for it.
func TestLineIsAskedFromItsHead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source, l := newScripted("file"), &log{}
		var mu sync.Mutex
		var asked []string
		waits := map[types.UID]error{"a1": inLine("a"), "a2": inLine("a"), "a3": inLine("a"), "b1": inLine("b"), "c1": errors.New("alone"), "c2": errors.New("alone")}
		loop, stop := run(t, l, Options{Sources: []Source{source}, Admission: admitFunc(func(pod *v1.Pod) (bool, error) {
			mu.Lock()
			defer mu.Unlock()
			asked = append(asked, string(pod.UID))
			return true, waits[pod.UID]
		})})
		defer stop()
		questions := func(when string, want ...string) {
			t.Helper()
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			if !slices.Equal(asked, want) {
				t.Errorf("%s: asked about %v, want %v", when, asked, want)
			}
			asked = nil
		}
		var pods []*v1.Pod
		for i, name := range []string{"a1", "a2", "b1", "c1", "a3", "c2"} {
			pods = append(pods, newPod(name, name, created(start.Add(time.Duration(i)*time.Second))))
		}
		source.set(pods...)
		questions("at first", "a1", "a2", "b1", "c1", "a3", "c2")
		loop.GateChanged()
		questions("again", "a1", "b1", "c1", "c2")
		mu.Lock()
		waits = map[types.UID]error{"a2": inLine("a"), "a3": inLine("a")}
		mu.Unlock()
		loop.GateChanged()
		questions("the head goes", "a1", "a2", "b1", "c1", "c2")
		l.want(t, "those that are admitted", "create a1", "create b1", "create c1", "create c2")
	})
}

// TestOverdueHeadKeepsNoLineWaiting: IN6, PS4. The first pod of a line waits for something that never comes. The others are asked about
// once it is overdue, before those that came later.
func TestOverdueHeadKeepsNoLineWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source, l := newScripted("file"), &log{}
		began := time.Now()
		_, stop := run(t, l, Options{Sources: []Source{source}, Admission: admitFunc(func(pod *v1.Pod) (bool, error) {
			if pod.UID == "a1" || time.Since(began) < time.Second {
				return false, inLine("a")
			}
			return true, nil
		})})
		defer stop()
		source.set(newPod("a1", "a1", created(start)), newPod("a2", "a2", created(start.Add(time.Second))))
		pass(5 * time.Second)
		l.want(t, "the head waits")
		pass(time.Minute)
		l.want(t, "the head is overdue", "create a2")
	})
}

// TestLongRoundOfQuestionsDelaysNothing: B5. The loop asks about many waiting pods in parts, so that
// a removal comes in between. Each pod is asked about once per round.
func TestLongRoundOfQuestionsDelaysNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source, other, l := newScripted("file"), newScripted("other"), &log{}
		var mu sync.Mutex
		asked := map[types.UID]int{}
		loop, stop := run(t, l, Options{Sources: []Source{source, other}, Admission: admitFunc(func(pod *v1.Pod) (bool, error) {
			if pod.UID == "x" {
				return true, nil
			}
			pass(time.Millisecond)
			mu.Lock()
			defer mu.Unlock()
			asked[pod.UID]++
			return false, errors.New("not yet")
		})})
		defer stop()
		other.set(newPod("x", "x"))
		var pods []*v1.Pod
		for i := range 100 {
			name := fmt.Sprint("p", i)
			pods = append(pods, newPod(name, name))
		}
		source.set(pods...)
		pass(time.Minute)
		l.take()
		mu.Lock()
		clear(asked)
		mu.Unlock()
		loop.GateChanged()
		pass(10 * time.Millisecond)
		began := time.Now()
		l.on(func(Work) {
			if took := time.Since(began); took > 5*time.Millisecond {
				t.Errorf("the removal was handled after %v", took)
			}
		})
		other.set()
		pass(200 * time.Millisecond)
		l.want(t, "a removal", "kill x")
		mu.Lock()
		defer mu.Unlock()
		for _, pod := range pods {
			if asked[pod.UID] < 1 || asked[pod.UID] > 2 { // the next round follows after 100 ms
				t.Errorf("asked %d times about %s", asked[pod.UID], pod.UID)
			}
		}
	})
}

// TestChangeDuringARoundBeginsTheNextOneAtOnce: it may be about a pod that was asked about before.
func TestChangeDuringARoundBeginsTheNextOneAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source, l := newScripted("file"), &log{}
		var mu sync.Mutex
		asked := 0
		loop, stop := run(t, l, Options{Sources: []Source{source}, Admission: admitFunc(func(*v1.Pod) (bool, error) {
			pass(time.Millisecond)
			mu.Lock()
			defer mu.Unlock()
			asked++
			return false, errors.New("not yet")
		})})
		defer stop()
		var pods []*v1.Pod
		for i := range 50 {
			pods = append(pods, newPod(fmt.Sprint("p", i), fmt.Sprint("p", i)))
		}
		source.set(pods...)
		pass(time.Minute) // the rounds come every 5 s
		loop.GateChanged()
		pass(20 * time.Millisecond)
		loop.GateChanged()
		mu.Lock()
		asked = 0
		mu.Unlock()
		pass(80 * time.Millisecond)
		mu.Lock()
		defer mu.Unlock()
		if asked < 75 {
			t.Errorf("asked %d times in 80 ms", asked)
		}
	})
}

// TestPodsThatWereAdmittedComeFirst: IN13. When the gate opens, they begin before pods that still wait for their verdict are
// judged; in a round of questions they are tried once, not with each part.
func TestPodsThatWereAdmittedComeFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source, l := newScripted("file"), &log{}
		var mu sync.Mutex
		open, gates, asked := false, 0, 0
		isOpen := func() bool {
			mu.Lock()
			defer mu.Unlock()
			return open
		}
		loop, stop := run(t, l, Options{Sources: []Source{source}, Gate: func() error {
			mu.Lock()
			defer mu.Unlock()
			if gates++; !open {
				return errors.New("closed")
			}
			return nil
		}, Admission: admitFunc(func(pod *v1.Pod) (bool, error) {
			if pod.UID == "a" || isOpen() {
				return true, nil
			}
			mu.Lock()
			asked++
			mu.Unlock()
			pass(time.Millisecond)
			return false, errors.New("not yet")
		})})
		defer stop()
		source.set(newPod("a", "a"))
		pods := []*v1.Pod{newPod("a", "a")}
		for i := range 30 {
			pods = append(pods, newPod(fmt.Sprint("p", i), fmt.Sprint("p", i)))
		}
		source.set(pods...)
		pass(time.Minute)
		l.want(t, "the gate is closed")
		mu.Lock()
		gates, asked = 0, 0
		mu.Unlock()
		pass(time.Minute)
		mu.Lock()
		if rounds := asked / 30; rounds < 5 || gates > 2*(rounds+1) {
			t.Errorf("%d rounds, the gate was asked %d times", rounds, gates)
		}
		open = true
		mu.Unlock()
		loop.GateChanged()
		pass(time.Second)
		if got := l.take(); len(got) != 31 || got[0] != "create a" {
			t.Errorf("%v", got)
		}
	})
}

// admitFunc makes a function an Admission.
type admitFunc func(pod *v1.Pod) (bool, error)

func (f admitFunc) Admit(_ context.Context, pod *v1.Pod, _ iter.Seq[*v1.Pod]) (bool, error) {
	return f(pod)
}
