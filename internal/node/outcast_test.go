package node

import (
	"context"
	"errors"
	"iter"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/podwright/podwright/internal/recovery"
	"github.com/podwright/podwright/syncloop"
)

// TestWhichPodsAreOutcasts: IN14: static pods that the node was short of something for, and
// the moment from which each waits.
func TestWhichPodsAreOutcasts(t *testing.T) {
	judged, stopped := time.Unix(100, 0), time.Unix(500, 0)
	deleted := newStatic("a")
	deleted.DeletionTimestamp = &metav1.Time{Time: judged}
	refused := func(reason string) recovery.Past {
		return recovery.Past{Refused: true, Reason: reason, JudgedAt: judged}
	}
	ended := func(reason string) recovery.Past {
		return recovery.Past{Reason: reason, JudgedAt: judged, StoppedAt: stopped, Finished: true}
	}
	unfinished := ended("Evicted")
	unfinished.Finished = false
	for _, test := range []struct {
		name             string
		pod              *v1.Pod
		past             recovery.Past
		out              bool
		since            time.Time
		evicted, leaving bool
		atOnce           bool
		cause            string // empty: any
	}{
		{name: "evicted", past: ended("Evicted"), out: true, since: stopped, evicted: true},
		{name: "evicted, and still stopping", past: unfinished, out: true, since: stopped, evicted: true, leaving: true},
		{name: "preempted", past: ended("Preempting"), out: true, since: judged},
		{
			name: "evicted on request", past: recovery.Past{Reason: "Maintenance", Evicted: true, JudgedAt: judged, StoppedAt: stopped, Finished: true},
			out: true, since: stopped, evicted: true,
		},
		{ // it may have been cancelled, or its agent was killed
			name: "stopped by a shutdown", past: ended("Terminated"), out: true, since: judged, atOnce: true,
			cause: "stopped by a shutdown of the node",
		},
		{name: "refused under pressure", past: refused("Evicted"), out: true, since: judged},
		{name: "refused for CPU", past: refused("OutOfcpu"), out: true, since: judged},
		{name: "refused for a device", past: refused("OutOfexample.com/gpu"), out: true, since: judged},
		{name: "refused for a port", past: refused("NodePorts"), out: true, since: judged},
		{name: "refused by a shutdown", past: refused("NodeShutdown"), out: true, since: judged, atOnce: true},
		{name: "refused for good", past: refused("SysctlForbidden")},
		{name: "ran over its deadline", past: ended("DeadlineExceeded")},
		{name: "failed by itself", past: ended("")},
		{name: "of an API", pod: newPod("a"), past: ended("Evicted")},
		{name: "deleted", pod: deleted, past: ended("Evicted")},
	} {
		t.Run(test.name, func(t *testing.T) {
			pod := test.pod
			if pod == nil {
				pod = newStatic("a")
			}
			o, out := outcastOf(pod, test.past)
			if out != test.out {
				t.Fatalf("an outcast: %v", out)
			}
			if out && (!o.since.Equal(test.since) || o.evicted != test.evicted || o.leaving != test.leaving || o.atOnce != test.atOnce || o.cause == "" || test.cause != "" && o.cause != test.cause) {
				t.Errorf("%+v", o)
			}
		})
	}
}

// TestOutcastWaitsForAPeriodAtMost: a wall clock that jumped makes no pod wait longer.
func TestOutcastWaitsForAPeriodAtMost(t *testing.T) {
	now := time.Unix(10_000, 0)
	for _, test := range []struct {
		since time.Duration
		want  time.Duration
	}{{-time.Hour, 0}, {-5 * time.Minute, 0}, {-time.Minute, 4 * time.Minute}, {0, 5 * time.Minute}, {24 * time.Hour, 5 * time.Minute}} {
		o := outcast{since: now.Add(test.since)}
		if got := o.due(now, 5*time.Minute).Sub(now); got != test.want {
			t.Errorf("since %v: in %v, want %v", test.since, got, test.want)
		}
	}
	if o := (outcast{since: now, atOnce: true}); !o.due(now, time.Hour).Equal(now) {
		t.Error("the end of a shutdown is waited for")
	}
}

// TestRoomGoesToTheFirstThatFits: the highest priority first, that of a class included, then the
// longest wait.
func TestRoomGoesToTheFirstThatFits(t *testing.T) {
	wait := func(uid types.UID, priority int32, since int64) outcast {
		pod := newStatic(uid)
		pod.Spec.Priority = &priority
		return outcast{pod: pod, since: time.Unix(since, 0)}
	}
	class := outcast{pod: newStatic("class"), since: time.Unix(9, 0)}
	class.pod.Spec.PriorityClassName = "system-node-critical"
	list := []outcast{class, wait("young", 0, 9), wait("old", 0, 1), wait("low", -1, 0), wait("high", 5, 9), wait("odd", 9, 0)}
	room := 3
	chosen := choose(list, func(pod *v1.Pod) bool {
		if pod.UID == "odd" || room == 0 {
			return false
		}
		room--
		return true
	})
	var got []string
	for _, o := range chosen {
		got = append(got, string(o.pod.UID))
	}
	if strings.Join(got, " ") != "class high old" {
		t.Errorf("chosen %v", got)
	}
}

// returning is what a [Returns] under test tells others, and what it is told.
type returning struct {
	calls
	past     recovery.Past
	pressure error
	gate     error
}

func (r *returning) Admit(_ context.Context, pod *v1.Pod, _ iter.Seq[*v1.Pod]) (bool, error) {
	r.add("judge " + string(pod.UID))
	return true, nil
}
func (r *returning) Remembered(types.UID) bool            { return true }
func (r *returning) Fitting([]*v1.Pod) func(*v1.Pod) bool { return func(*v1.Pod) bool { return true } }
func (r *returning) Relieved() error                      { return r.pressure }
func (r *returning) Takes(*v1.Pod) error                  { return r.pressure }
func (r *returning) none(types.UID) iter.Seq[*v1.Pod]     { return func(func(*v1.Pod) bool) {} }

func (r *returning) returns(res *Residents, clock *clocktesting.FakeClock) *Returns {
	return NewReturns(ReturnOptions{
		Judge: r, Pressure: r, Past: func(types.UID) (recovery.Past, bool) { return r.past, true }, Residents: res,
		Others: r.none, Open: func() []syncloop.OpenVerdict { return nil }, Gate: func() error { return r.gate },
		Readmit: func(uid types.UID) { r.add("readmit " + string(uid)) },
		Renew:   func(uid types.UID) { r.add("renew " + string(uid)) },
		Forget: func(uid types.UID) bool {
			if !res.Known(uid) || !res.Finished(uid) {
				return false
			}
			r.add("forget " + string(uid))
			return true
		},
		Clock: clock, Events: &cluster{}, Logger: logr.Discard(),
	})
}

// TestReturnWaitsForTheLastLife: IN14. A pod is tried when it is time, no pressure is left and
// the gate is open; it is judged as a new one, after the worker of its last life is forgotten,
// and a life that its source began meanwhile stays as it is.
func TestReturnWaitsForTheLastLife(t *testing.T) {
	pod := newStatic("a")
	res, lives := residents(pod)
	lives.finished["a"] = true
	clock := clocktesting.NewFakeClock(time.Unix(1000, 0))
	r := &returning{past: recovery.Past{Reason: "Evicted", StoppedAt: clock.Now(), Finished: true}, pressure: errors.New("short of memory")}
	returns := r.returns(res, clock)
	look := func(want ...string) {
		t.Helper()
		returns.look(clock.Now())
		if got := r.take(); !slices.Equal(got, want) {
			t.Errorf("calls %v, want %v", got, want)
		}
	}
	admit := func(want ...string) {
		t.Helper()
		if _, err := returns.Admit(t.Context(), pod, nil); err != nil {
			t.Error(err)
		}
		if got := r.take(); !slices.Equal(got, want) {
			t.Errorf("calls %v, want %v", got, want)
		}
	}
	returns.Note(pod)
	look()
	clock.Step(defaultReturnPeriod)
	look()
	if why := returns.Waits("a"); why != "evicted; it waits: short of memory" {
		t.Errorf("it waits for %q", why)
	}
	r.pressure, r.gate = nil, errors.New("closed")
	look()
	r.gate = nil
	look("readmit a")
	look() // once is enough
	lives.finished["a"] = false
	admit("judge a")
	lives.finished["a"] = true
	returns.Note(pod)
	look("readmit a")
	admit("forget a", "renew a", "judge a")
	admit("judge a")
	delete(lives.known, "a")
	returns.Note(pod)
	look("readmit a")
	admit("renew a", "judge a")
	returns.Note(newPod("api"))
	look()
}
