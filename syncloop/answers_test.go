package syncloop

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
)

// script is an admission whose answers a test sets.
type script struct {
	mu    sync.Mutex
	asked []string
	says  map[types.UID]error
}

func (s *script) admit(pod *v1.Pod) (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = append(s.asked, string(pod.UID))
	return true, s.says[pod.UID]
}

func (s *script) set(uid types.UID, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.says[uid] = err
}

func (s *script) want(t *testing.T, when string, want ...string) {
	t.Helper()
	synctest.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	if !slices.Equal(s.asked, want) {
		t.Errorf("%s: asked about %v, want %v", when, s.asked, want)
	}
	s.asked = nil
}

func row(names ...string) (pods []*v1.Pod) {
	for i, name := range names {
		pods = append(pods, newPod(name, name, created(start.Add(time.Duration(i)*time.Second))))
	}
	return pods
}

// TestAnswerIsHeard: IN6. An answer that comes late has its pod judged, and then the pods behind it, but no other that waits.
func TestAnswerIsHeard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source, l := newScripted("file"), &log{}
		open := errors.New("no answer yet")
		s := &script{says: map[types.UID]error{"alone": errors.New("no"), "slow": open, "next": behind{}, "last": behind{}}}
		loop, stop := run(t, l, Options{Sources: []Source{source}, Admission: admitFunc(s.admit)})
		defer stop()
		source.set(row("alone", "slow", "next", "last")...)
		s.want(t, "at first", "alone", "slow", "next", "last")
		loop.Answered("slow")
		s.want(t, "the next comes first", "slow", "next")
		s.set("next", open)
		s.set("last", nil)
		loop.Answered("slow")
		s.want(t, "they go on", "slow", "next", "last")
		loop.Answered("next")
		loop.Answered("gone")
		s.want(t, "nothing changes", "next")
		s.set("next", nil)
		loop.Answered("next")
		s.want(t, "a verdict", "next", "alone", "slow")
		l.want(t, "those that are admitted", "create last", "create next")
	})
}

// TestAnswerBeforeTheFirstRound: IN6. An answer may come before the loop has begun a round of questions, and the pod behind
// it may then wait in a line.
func TestAnswerBeforeTheFirstRound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := newScripted("file")
		s := &script{says: map[types.UID]error{"slow": errors.New("no answer yet"), "next": behind{}, "last": behind{}}}
		loop, stop := run(t, &log{}, Options{Sources: []Source{source}, Admission: admitFunc(s.admit)})
		defer stop()
		source.set(row("slow", "next", "last")...)
		s.want(t, "at first", "slow", "next", "last")
		s.set("slow", errors.New("panicked"))
		s.set("next", inLine("api"))
		s.set("last", inLine("api"))
		loop.Answered("slow")
		s.want(t, "those behind", "slow", "next", "last")
	})
}

// TestAnswersInOrderOfArrival: IN6. Of several pods with an answer, the one that came first is judged first.
func TestAnswersInOrderOfArrival(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := newScripted("file")
		s := &script{says: map[types.UID]error{"a": errors.New("no answer yet"), "b": errors.New("no answer yet")}}
		loop, stop := run(t, &log{}, Options{Sources: []Source{source}, Admission: admitFunc(s.admit)})
		defer stop()
		source.set(row("a", "b")...)
		s.want(t, "at first", "a", "b")
		s.set("a", nil)
		s.set("b", nil)
		loop.fence.Lock() // the loop is busy while both come
		loop.Answered("b")
		loop.Answered("a")
		loop.fence.Unlock()
		s.want(t, "both", "a", "b")
	})
}

// TestAnswerDoesNotOvertakeItsLine: IN6. A pod that waits in a line is not judged before the line's first, whatever answer comes.
func TestAnswerDoesNotOvertakeItsLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := newScripted("file")
		s := &script{says: map[types.UID]error{"first": inLine("api"), "second": inLine("api")}}
		loop, stop := run(t, &log{}, Options{Sources: []Source{source}, Admission: admitFunc(s.admit)})
		defer stop()
		source.set(row("first", "second")...)
		s.want(t, "at first", "first", "second")
		<-time.After(50 * time.Millisecond)
		s.set("first", nil)
		s.set("second", nil)
		loop.Answered("second")
		s.want(t, "an answer in a line")
		<-time.After(50 * time.Millisecond)
		s.want(t, "room is free", "first", "second")
	})
}

// TestAnswerThatComesTooLateKeepsItsPlace: IN6. A pod whose answer comes in the turn of another one is behind that one, but not
// behind those that came after itself.
func TestAnswerThatComesTooLateKeepsItsPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := newScripted("file")
		s := &script{says: map[types.UID]error{"a": errors.New("no answer yet"), "b": errors.New("no answer yet"), "c": behind{}, "d": behind{}}}
		loop, stop := run(t, &log{}, Options{Sources: []Source{source}, Admission: admitFunc(s.admit)})
		defer stop()
		source.set(row("a", "b", "c", "d")...)
		s.want(t, "at first", "a", "b", "c", "d")
		<-time.After(2 * time.Millisecond)
		s.set("a", behind{})
		s.set("c", behind{})
		loop.Answered("a")
		s.want(t, "it is the turn of b", "a", "a")
		s.set("a", nil)
		s.set("c", errors.New("no answer yet"))
		s.set("d", nil)
		loop.Answered("b") // its turn is over
		s.want(t, "in the order of arrival", "b", "a", "c", "d")
	})
}

// TestManyAnswersDelayNothing: B5. Many answers that come at once are heard in parts, so that a removal comes in between.
func TestManyAnswersDelayNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source, other, l := newScripted("file"), newScripted("other"), &log{}
		loop, stop := run(t, l, Options{Sources: []Source{source, other}, Admission: admitFunc(func(pod *v1.Pod) (bool, error) {
			if pod.UID == "x" {
				return true, nil
			}
			<-time.After(time.Millisecond)
			return false, errors.New("not yet")
		})})
		defer stop()
		other.set(newPod("x", "x"))
		var names []string
		for i := range 100 {
			names = append(names, fmt.Sprint("p", i))
		}
		source.set(row(names...)...)
		pass(time.Minute)
		l.take()
		for _, name := range names {
			loop.Answered(types.UID(name))
		}
		pass(10 * time.Millisecond)
		began := time.Now()
		l.on(func(Work) {
			if took := time.Since(began); took > 5*time.Millisecond {
				t.Errorf("the removal took %v", took)
			}
		})
		other.set()
		pass(time.Second)
		if got := l.take(); len(got) == 0 {
			t.Error("it was not removed")
		}
	})
}

// askedClock calls asked whenever it is asked for the time.
type askedClock struct {
	clock.RealClock
	asked func()
}

func (c askedClock) Now() time.Time {
	c.asked()
	return c.RealClock.Now()
}

// TestAnsweredHoldsNoClockUp: a fake clock calls Answered under its own lock, so whoever asks for the time must have none
// that Answered needs.
func TestAnsweredHoldsNoClockUp(t *testing.T) {
	var l *Loop
	l, err := New(func(Work) {}, Options{Sources: []Source{newScripted("file")}, Clock: askedClock{asked: func() {
		switch {
		case l == nil:
		case l.verdicts.mu.TryLock(): // nothing else runs
			l.verdicts.mu.Unlock()
		default:
			t.Error("the time was asked for with the lock held")
		}
	}}})
	if err != nil {
		t.Fatal(err)
	}
	s, err := newStepper(l, 1)
	if err != nil {
		t.Fatal(err)
	}
	l.options.Admission = admitFunc(func(*v1.Pod) (bool, error) { return false, errors.New("no answer yet") })
	if err := s.Deliver(t.Context(), "file", row("slow")); err != nil {
		t.Fatal(err)
	}
	for s.Step(t.Context()) && len(l.OpenVerdicts()) == 0 {
	}
	if o, open := l.OpenVerdict("slow"); !open || o.Err == nil || len(l.OpenVerdicts()) != 1 {
		t.Errorf("open: %v, %+v", open, o)
	}
	l.Problems()
	l.Answered("slow")
	s.Step(t.Context())
}
