package podworkers_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/podworkers"
	"github.com/podwright/podwright/runtime"
)

// U3, edge cases 9 and 10: a pod that ended before this process started.
func TestEndedBefore(t *testing.T) {
	ended := func(uid types.UID) *v1.Pod {
		pod := newPod(uid)
		pod.Status.Phase = v1.PodSucceeded
		return pod
	}
	synctest.Test(t, func(t *testing.T) {
		var l log
		views := newFakeViews()
		w := podworkers.New(logging(&l), podworkers.Options{Views: peekViews{views}})
		run(t, w)
		// Before the first reading it does not count as terminated.
		w.UpdatePod(create(ended("early")))
		expect(t, &l)
		if w.IsPodKnownTerminated("early") {
			t.Error("terminated without a look at the runtime")
		}
		views.set("running", runtime.Running)
		views.set("dead", runtime.Exited)
		views.relist()
		expect(t, &l, "terminating early 30")
		for _, uid := range []types.UID{"running", "dead", "gone"} {
			w.UpdatePod(create(ended(uid)))
			synctest.Wait()
		}
		expect(t, &l, "terminating running 30", "terminated dead", "terminated gone")
		// A ready sandbox alone also keeps it from counting as terminated.
		views.mu.Lock()
		views.statuses["sandbox"] = &runtime.PodStatus{Sandboxes: []*runtime.SandboxStatus{{State: runtime.Running}}}
		views.mu.Unlock()
		w.UpdatePod(create(ended("sandbox")))
		expect(t, &l, "terminating sandbox 30")
	})
}

// W6: a static pod that ended while the agent was down, with left-overs or without.
func TestStaticEndedBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l log
		views := newFakeViews()
		w := podworkers.New(logging(&l), podworkers.Options{Views: peekViews{views}, Rand: func() float64 { return 0 }})
		run(t, w)
		clean, left := newStatic("clean", "a"), newStatic("left", "b")
		w.UpdatePod(kill(clean, podworkers.KillOptions{}))
		w.UpdatePod(kill(left, podworkers.KillOptions{}))
		expect(t, &l)
		if w.IsPodKnownTerminated("clean") || w.IsPodKnownTerminated("left") {
			t.Error("terminated without a look at the runtime")
		}
		views.set("left", runtime.Running)
		views.relist()
		pass(time.Second)
		expect(t, &l, "terminating left 30")
		if !w.ShouldPodBeFinished("clean") || w.ShouldPodBeFinished("left") {
			t.Error("the one without left-overs should be finished, the other not yet")
		}
	})
}

// N6, kubernetes issue 112814: the manifest of a static pod changed while the agent
// was down. Its old containers are stopped first.
func TestStaticWaitsForItsName(t *testing.T) {
	for name, ready := range map[string]func() bool{
		"after SyncKnownPods": nil, "when the sources are ready": func() bool { return true },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var l log
				views := newFakeViews()
				views.relist()
				views.running = []*runtime.Pod{
					{UID: "old", Name: "web", Namespace: "default"},
					{UID: "other", Name: "web", Namespace: "elsewhere"},
				}
				syncer := logging(&l)
				syncer.TerminatingRuntime = func(_ context.Context, pod *runtime.Pod) error {
					l.add("terminating runtime %s", pod.UID)
					views.mu.Lock()
					views.running = nil
					views.mu.Unlock()
					return nil
				}
				w := podworkers.New(syncer, podworkers.Options{Views: peekViews{views}, SourcesReady: ready})
				run(t, w)
				pod := newStatic("new", "web")
				w.UpdatePod(create(pod))
				synctest.Wait()
				if ready == nil {
					expect(t, &l)
					w.SyncKnownPods([]*v1.Pod{pod})
					pass(2 * time.Second)
				}
				expect(t, &l, "terminating runtime old", "setup new create")
			})
		})
	}
}

// A status source that panics, or answers with nothing, harms one pod at a time.
func TestBadSource(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l, events log
		w := podworkers.New(logging(&l), podworkers.Options{Views: badSource{}, Events: &events, Rand: func() float64 { return 0 }})
		run(t, w)
		w.UpdatePod(create(newPod("nil")))
		w.UpdatePod(create(newPod("panic")))
		w.UpdatePod(create(newPod("good")))
		synctest.Wait()
		if got := len(events.take()); got != 2 {
			t.Errorf("%d events", got)
		}
		expect(t, &l, "setup good create")
	})
}

type badSource struct{}

func (badSource) Stamp() runtime.Stamp { return 1 }
func (badSource) Refresh(types.UID)    {}
func (badSource) GetNewerThan(_ context.Context, uid types.UID, _ runtime.Stamp) (*runtime.PodStatus, error) {
	switch uid {
	case "nil":
		return nil, nil //nolint:nilnil // the bad answer
	case "panic":
		panic("boom")
	}
	return &runtime.PodStatus{}, nil
}

// journal logs the facts that it gets.
type journal struct {
	*log
	mu  sync.Mutex
	err error
}

func (j *journal) Record(_ context.Context, uid types.UID, f podworkers.Facts) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.err != nil {
		return j.err
	}
	word := map[bool]string{true: "X", false: "-"}
	j.add("record %s started=%s requested=%s deleted=%s evicted=%s terminated=%s finished=%s grace=%d", uid, word[f.Started],
		word[f.TerminationRequested], word[f.Deleted], word[f.Evicted], word[f.Terminated], word[f.Finished], f.GracePeriodSeconds)
	return nil
}

func (j *journal) fail(err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.err = err
}

// L12: facts are durable before the call that relies on them, and before the end
// of a phase counts.
func TestJournal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l, events log
		j := &journal{log: &l}
		w := podworkers.New(logging(&l), podworkers.Options{Journal: j, Events: &events, Rand: func() float64 { return 0 }})
		run(t, w)
		pod := newPod("a")
		w.UpdatePod(create(pod))
		expect(t, &l, "record a started=X requested=- deleted=- evicted=- terminated=- finished=- grace=0", "setup a create")
		w.UpdatePod(podworkers.UpdateOptions{Type: podworkers.Update, Pod: pod})
		expect(t, &l, "setup a update") // nothing new to record
		j.fail(errors.New("disk full"))
		w.UpdatePod(kill(pod, podworkers.KillOptions{Evict: true}))
		expect(t, &l) // no call before it is recorded
		expect(t, &events, "Warning FailedSync a")
		j.fail(nil)
		pass(time.Second)
		expect(t, &l,
			"record a started=X requested=X deleted=- evicted=X terminated=- finished=- grace=30", "terminating a 30",
			"record a started=X requested=X deleted=- evicted=X terminated=X finished=- grace=30", "terminated a",
			"record a started=X requested=X deleted=- evicted=X terminated=X finished=X grace=30")
	})
}

// L12: a phase whose end cannot be recorded has not ended.
func TestJournalFailsAtTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l log
		j := &journal{log: &log{}}
		syncer := logging(&l)
		syncer.Terminating = func(_ context.Context, pod *v1.Pod, _ *runtime.PodStatus, _ *int64, _ podworkers.PodStatusFunc) error {
			l.add("terminating %s", pod.UID)
			j.fail(errTest)
			return nil
		}
		w := podworkers.New(syncer, podworkers.Options{Journal: j, Rand: func() float64 { return 0 }})
		run(t, w)
		w.UpdatePod(kill(newPod("a"), podworkers.KillOptions{}))
		expect(t, &l, "terminating a")
		if w.IsPodKnownTerminated("a") {
			t.Error("terminated without being recorded")
		}
		j.fail(nil)
		pass(time.Second)
		expect(t, &l, "terminating a")
	})
}

// TestDecisionOfASetupIsRecorded: IN8: the facts that are durable before the next call contain what
// a setup call decided about its pod, and the statuses of its end say so.
func TestDecisionOfASetupIsRecorded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l log
		reason := func(amend podworkers.PodStatusFunc) string {
			var s v1.PodStatus
			if amend != nil {
				amend(&s)
			}
			return s.Reason
		}
		syncer := podworkers.PodSyncerFuncs{
			Sync: func(context.Context, podworkers.UpdateType, *v1.Pod, *v1.Pod, *runtime.PodStatus) (podworkers.SyncResult, error) {
				return podworkers.SyncResult{Terminal: true, Amend: func(s *v1.PodStatus) { s.Reason = "DeadlineExceeded" }}, nil
			},
			Terminating: func(_ context.Context, _ *v1.Pod, _ *runtime.PodStatus, _ *int64, amend podworkers.PodStatusFunc) error {
				l.add("terminating %s", reason(amend))
				return nil
			},
		}
		w := podworkers.New(syncer, podworkers.Options{Journal: amends(func(f podworkers.Facts) {
			l.add("record requested=%v terminated=%v %s", f.TerminationRequested, f.Terminated, reason(f.Amend))
		})})
		run(t, w)
		w.UpdatePod(create(newPod("a")))
		expect(t, &l, "record requested=false terminated=false ", "record requested=true terminated=false DeadlineExceeded",
			"terminating DeadlineExceeded", "record requested=true terminated=true DeadlineExceeded",
			"record requested=true terminated=true ", "record requested=true terminated=true ") // released
	})
}

// TestLastCauseIsRecorded: E2, IN8: of two causes of an end the later one is used, so it is the durable one too.
func TestLastCauseIsRecorded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l log
		reason := func(amend podworkers.PodStatusFunc) string {
			var s v1.PodStatus
			if amend != nil {
				amend(&s)
			}
			return s.Reason
		}
		w := podworkers.New(podworkers.PodSyncerFuncs{
			Terminating: func(_ context.Context, _ *v1.Pod, _ *runtime.PodStatus, _ *int64, amend podworkers.PodStatusFunc) error {
				l.add("terminating %s", reason(amend))
				return errTest
			},
		}, podworkers.Options{Journal: amends(func(f podworkers.Facts) { l.add("record %s", reason(f.Amend)) }), TerminatingBackOff: podworkers.BackOff{Initial: time.Second, Max: time.Second}, Rand: func() float64 { return 0 }})
		run(t, w)
		w.UpdatePod(create(newPod("a")))
		expect(t, &l, "record ")
		for _, r := range []string{"Preempting", "Terminated"} {
			w.UpdatePod(kill(newPod("a"), podworkers.KillOptions{StatusFunc: func(s *v1.PodStatus) { s.Reason = r }}))
			expect(t, &l, "record "+r, "terminating "+r)
			pass(time.Second)
			expect(t, &l, "terminating "+r) // it is durable
		}
	})
}

// amends makes a function a journal.
type amends func(f podworkers.Facts)

func (a amends) Record(_ context.Context, _ types.UID, f podworkers.Facts) error {
	a(f)
	return nil
}
