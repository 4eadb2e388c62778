package enginetest_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/utils/ptr"

	"github.com/podwright/podwright"
	"github.com/podwright/podwright/internal/checkpointtest"
	"github.com/podwright/podwright/runtime/fake"
	"github.com/podwright/podwright/status"
	"github.com/podwright/podwright/status/checkpoint"
)

// TestKilledAtEveryPoint: CK2-CK6, CK11, HI7, HI8, HI9, status.md 9.1. The agent is killed before
// and after each operation on the disk in the life of a pod that must run once and of one that
// crashes once; the next agent reaches the same result, and nothing is started a second time.
func TestKilledAtEveryPoint(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		agent [2][]checkpoint.Key // the keys of the first agent and of the next
	}{
		{"plain", [2][]checkpoint.Key{}},
		{"sealed, and with another key after the kill (CK12)", [2][]checkpoint.Key{{checkpointtest.Key(t, 1)}, {checkpointtest.Key(t, 2), checkpointtest.Key(t, 1)}}},
		{"sealed after the kill (CK12)", [2][]checkpoint.Key{nil, {checkpointtest.Key(t, 1)}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			points := 0
			synctest.Test(t, func(t *testing.T) { points = killedAt(t, 0, c.agent) })
			if points < 20 {
				t.Fatalf("only %d points", points)
			}
			for at := 1; at <= points; at++ {
				t.Run(fmt.Sprint(at), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) { killedAt(t, at, c.agent) })
				})
			}
		})
	}
}

// withKeys seals the records of an agent; the agent trusts records that are not sealed yet.
func withKeys(keys ...checkpoint.Key) func(*podwright.Config) {
	return func(c *podwright.Config) { c.Checkpoints.Keys, c.Checkpoints.TrustPlain = keys, len(keys) > 0 }
}

func killedAt(t *testing.T, at int, keys [2][]checkpoint.Key) (points int) {
	n := newHost(t, byContainer(map[string]fake.Script{
		"job":   {Exit: &fake.Exit{After: 3 * time.Second, Code: 7}},
		"crash": {Crashes: 1, Crash: fake.Exit{After: 2 * time.Second, Code: 3}},
	}))
	pods := func() []*v1.Pod {
		return []*v1.Pod{withPolicy(newPod("job", "job"), v1.RestartPolicyNever), newPod("crash", "crash")}
	}
	n.killAt = at
	first := n.agent(withKeys(keys[0]...))
	first.set(pods()...)
	select {
	case <-n.killed:
	case <-time.After(40 * time.Second):
	}
	n.kill(first)
	points = n.points

	n.killAt = 0
	r := n.agent(withKeys(keys[1]...))
	r.set(pods()...)
	r.phase("uid-job", v1.PodFailed, time.Minute)
	r.phase("uid-crash", v1.PodRunning, time.Minute)
	<-time.After(time.Minute)
	if end := r.pod("uid-job").Status.ContainerStatuses[0].State.Terminated; end == nil || end.ExitCode != 7 {
		t.Errorf("the job: %+v", end)
	}
	jobs, crashes := starts(n.rt, "uid-job"), starts(n.rt, "uid-crash")
	if jobs != 1 || crashes > 2 {
		t.Errorf("%d starts of the job, %d of the other", jobs, crashes)
	}
	// A container that was created but not started before the kill is replaced; that is not a
	// restart, but it uses up the fake's one crash.
	crash := r.pod("uid-crash").Status.ContainerStatuses[0]
	last := crash.LastTerminationState.Terminated
	if int(crash.RestartCount) != crashes-1 || crashes == 2 && (last == nil || last.ExitCode != 3) {
		t.Errorf("%d starts, restart count %d, last state %+v", crashes, crash.RestartCount, last)
	}
	if err := errors.Join(r.engine.Healthy(), r.problems()); err != nil {
		t.Error(err)
	}
	return points
}

// failing is a sink that rejects every status.
func failing(context.Context, status.Update) (status.StoreResult, error) {
	return 0, errors.New("no API")
}

// TestEndIsToldAfterTwoKills: CK4, HI7, HI9, ND10, status.md 9.1, 9.9, edge case 22, and of
// cleanup.md edge case 31. The agent is killed twice around the end of a pod while no API answers,
// and the runtime loses the pod. Its exit code still arrives unchanged as soon as an API answers,
// and it does not run again.
func TestEndIsToldAfterTwoKills(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newHost(t, byContainer(map[string]fake.Script{"job": {Exit: &fake.Exit{After: time.Second, Code: 7}}}))
		job := func() *v1.Pod { return withPolicy(newPod("job", "job"), v1.RestartPolicyNever) }
		first := n.agent(sinks(status.SinkFunc(failing)))
		first.set(job())
		first.phase("uid-job", v1.PodFailed, time.Minute)
		n.kill(first)
		n.rt.LoseRecords()

		second := n.agent(sinks(status.SinkFunc(failing)))
		second.set(job())
		<-time.After(10 * time.Minute)
		if second.problems() == nil {
			t.Error("a sink that takes nothing is healthy")
		}
		n.kill(second)

		// The third agent's source does not even name the pod.
		var got []*v1.PodStatus
		third := n.agent(sinks(status.SinkFunc(func(_ context.Context, u status.Update) (status.StoreResult, error) {
			got = append(got, u.Status)
			return status.Stored, nil
		})))
		synctest.Wait()
		if len(got) != 1 || got[0].Phase != v1.PodFailed || got[0].ContainerStatuses[0].State.Terminated.ExitCode != 7 {
			t.Errorf("told: %+v", got)
		}
		third.set(job())
		<-time.After(time.Minute)
		if n := starts(n.rt, "uid-job"); n != 1 {
			t.Errorf("started %d times", n)
		}
		third.set()
		third.within(time.Minute, "no record of a pod that is gone (CK7)", func() error {
			if left := n.records(); len(left) > 0 {
				return fmt.Errorf("%v", left)
			}
			return nil
		})
	})
}

// TestKilledAgentLeavesRestOfGrace: CK6, cleanup edge case 33. 25 s of a grace of 30 s have passed
// when the agent is killed. The next agent gives the pod the remaining time, although its source no
// longer names the pod, and reports how the pod ended.
func TestKilledAgentLeavesRestOfGrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newHost(t, byContainer(map[string]fake.Script{"deaf": {IgnoreTERM: true}}))
		pod := newPod("slow", "deaf")
		pod.Spec.TerminationGracePeriodSeconds = ptr.To[int64](30)
		first := n.agent()
		first.set(pod)
		first.phase("uid-slow", v1.PodRunning, time.Minute)
		<-time.After(2 * time.Second)
		first.set()
		<-time.After(25 * time.Second)
		n.kill(first)

		r := n.agent()
		r.set()
		r.empty(20 * time.Second)
		stops := n.rt.Calls(fake.Match{Method: fake.StopContainer})
		last := stops[len(stops)-1].Request.(*runtimeapi.StopContainerRequest)
		if last.Timeout < 3 || last.Timeout > 5 {
			t.Errorf("stopped with %d s, want the 5 s that were left", last.Timeout)
		}
		if starts(n.rt, "uid-slow") != 1 {
			t.Error("a pod that was to stop was started again")
		}
		r.sink.mu.Lock()
		defer r.sink.mu.Unlock()
		if len(r.sink.phases["uid-slow"]) == 0 {
			t.Error("no sink was told of its end")
		}
	})
}

// TestFixedUIDEndsBeforeItsNextLife: CK6, CK7, cleanup edge case 36: a pod with a fixed UID had to
// stop when the agent was killed, and is desired again when the next agent starts. It first ends,
// and then begins a new life with its own record.
func TestFixedUIDEndsBeforeItsNextLife(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newHost(t, byContainer(map[string]fake.Script{"deaf": {IgnoreTERM: true}}))
		first := n.agent()
		first.set(newPod("web", "deaf"))
		first.phase("uid-web", v1.PodRunning, time.Minute)
		<-time.After(2 * time.Second)
		begun := n.records()["uid-web"].Admission.At
		first.set()
		<-time.After(3 * time.Second)
		n.kill(first)

		r := n.agent()
		r.set(newPod("web", "deaf"))
		r.within(2*time.Minute, "a second life", func() error {
			if s := starts(n.rt, "uid-web"); s != 2 || n.rt.Running("uid-web", "deaf") != 1 {
				return fmt.Errorf("%d starts, %s", s, r.explain("uid-web"))
			}
			return nil
		})
		<-time.After(2 * time.Second)
		if rec := n.records()["uid-web"]; rec == nil || rec.Termination != nil || !rec.Admission.At.After(begun) {
			t.Errorf("the record of the new life: %+v", rec)
		}
	})
}

// TestExitBetweenAgentsKeepsItsCode: status.md 9.6, 9.7: if a container ends while no agent is
// running, its status has the exit code that the runtime reports.
func TestExitBetweenAgentsKeepsItsCode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newHost(t, fake.New(fake.Options{}))
		pod := func() *v1.Pod { return withPolicy(newPod("web"), v1.RestartPolicyNever) }
		first := n.agent()
		first.set(pod())
		first.phase("uid-web", v1.PodRunning, time.Minute)
		<-time.After(2 * time.Second)
		n.kill(first)
		if err := n.rt.Exit("uid-web", "main", fake.Exit{Code: 42}); err != nil {
			t.Fatal(err)
		}
		r := n.agent()
		r.set(pod())
		r.phase("uid-web", v1.PodFailed, time.Minute)
		if end := r.pod("uid-web").Status.ContainerStatuses[0].State.Terminated; end.ExitCode != 42 {
			t.Errorf("%+v", end)
		}
	})
}

// TestPodGoneBetweenAgentsIsTold: HI7, HI10, status.md 9.10: a pod is deleted, and its containers
// vanish, while no agent is running. Its end is reported, and its record is removed.
func TestPodGoneBetweenAgentsIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newHost(t, fake.New(fake.Options{}))
		first := n.agent()
		first.set(newPod("web"))
		first.phase("uid-web", v1.PodRunning, time.Minute)
		<-time.After(2 * time.Second)
		n.kill(first)
		n.rt.LoseRecords()

		r := n.agent()
		r.set()
		r.within(time.Minute, "its end to be told", func() error {
			if rec := n.records()["uid-web"]; rec != nil && !rec.Finished {
				return fmt.Errorf("%+v", rec)
			}
			return nil
		})
		r.within(time.Minute, "no record", func() error {
			if left := n.records(); len(left) > 0 {
				return fmt.Errorf("%v", left)
			}
			return nil
		})
	})
}

// TestUnclaimedRecordIsKeptOneDay: CK7, HI10: the record of a finished pod is kept for a day if no source
// or worker asks for it.
func TestUnclaimedRecordIsKeptOneDay(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := newHost(t, byContainer(map[string]fake.Script{"job": {Exit: &fake.Exit{After: time.Second}}}))
		first := n.agent()
		first.set(withPolicy(newPod("job", "job"), v1.RestartPolicyNever))
		first.phase("uid-job", v1.PodSucceeded, time.Minute)
		<-time.After(5 * time.Second)
		n.kill(first)
		n.rt.LoseRecords()

		r := n.agent(func(c *podwright.Config) { // nothing happens on this day, so the engine need not look at it every second
			c.Loop.HousekeepingPeriod, c.PLEG.Period = 10*time.Minute, 10*time.Minute
		})
		r.set()
		<-time.After(20 * time.Hour)
		if len(n.records()) != 1 {
			t.Error("the record went before its time")
		}
		<-time.After(5 * time.Hour)
		if left := n.records(); len(left) != 0 {
			t.Errorf("left after a day: %v", left)
		}
	})
}

// TestSixWritesPerLife: CK10, status.md 9.3: the life of a pod takes at most six writes, and a
// re-sync takes none.
func TestSixWritesPerLife(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newHost(t, byContainer(map[string]fake.Script{"job": {Exit: &fake.Exit{After: 5 * time.Second}}}))
		job := withPolicy(newPod("job", "job"), v1.RestartPolicyNever)
		web := newPod("web")
		r := n.agent()
		r.set(job, web)
		r.phase("uid-job", v1.PodSucceeded, time.Minute)
		<-time.After(5 * time.Second)
		before := n.written("uid-web")
		<-time.After(time.Hour)
		if w := n.written("uid-web") - before; w != 0 {
			t.Errorf("%d writes in an hour in which nothing happened", w)
		}
		r.set()
		r.empty(time.Minute)
		<-time.After(time.Minute)
		for _, uid := range []types.UID{"uid-job", "uid-web"} {
			if w := n.written(uid); w < 3 || w > 6 {
				t.Errorf("%s: %d writes in its life", uid, w)
			}
			t.Logf("%s: %d writes", uid, n.written(uid))
		}
	})
}

// TestHeldPodIsNotTakenForEnded: HI8: at the first housekeeping pass, a pod has no worker yet
// because the runtime was slow to answer. The pass does not treat it as a pod whose life is over.
func TestHeldPodIsNotTakenForEnded(t *testing.T) {
	for _, slow := range []time.Duration{0, 50 * time.Millisecond, 150 * time.Millisecond, time.Second, 3 * time.Second} {
		t.Run(slow.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newHost(t, fake.New(fake.Options{}))
				pods := func() []*v1.Pod {
					return []*v1.Pod{newPod("web"), withPolicy(newPod("once"), v1.RestartPolicyNever)}
				}
				first := n.agent()
				first.set(pods()...)
				first.phase("uid-web", v1.PodRunning, time.Minute)
				first.phase("uid-once", v1.PodRunning, time.Minute)
				<-time.After(2 * time.Second)
				n.kill(first)
				n.rt.LoseRecords()
				remove := n.rt.Inject(fake.Fault{
					Match: fake.Match{Method: fake.ListContainers}, Effect: fake.Effect{Delay: slow},
				})
				r := n.agent()
				r.set(pods()...)
				r.phase("uid-once", v1.PodFailed, time.Minute)
				r.phase("uid-web", v1.PodRunning, time.Minute)
				remove()
				<-time.After(time.Minute)
				if s := starts(n.rt, "uid-once"); s != 1 {
					t.Errorf("a pod that runs once was started %d times", s)
				}
				if c := r.pod("uid-web").Status.ContainerStatuses[0]; c.RestartCount != 1 {
					t.Errorf("restart count %d", c.RestartCount)
				}
			})
		})
	}
}

// TestRemovedPodThatIsWantedAgainSurvivesKills: S5, CK11. A static pod of policy Never is removed
// and wanted again at once, and the agent is killed before and after each operation on the
// disk: the next agent runs it, in its first life or its second.
func TestRemovedPodThatIsWantedAgainSurvivesKills(t *testing.T) {
	t.Parallel()
	points := 0
	synctest.Test(t, func(t *testing.T) { points = killedBetweenLives(t, 0) })
	if points < 10 {
		t.Fatalf("only %d points", points)
	}
	for at := 1; at <= points; at++ {
		t.Run(fmt.Sprint(at), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { killedBetweenLives(t, at) })
		})
	}
}

func killedBetweenLives(t *testing.T, at int) (points int) {
	n := newHost(t, byContainer(map[string]fake.Script{"slow": {OnTERM: fake.Exit{After: time.Second, Code: 143}}}))
	pod := func() *v1.Pod { return withPolicy(newPod("web", "slow"), v1.RestartPolicyNever) }
	n.killAt = at
	first := n.agent()
	for _, set := range [][]*v1.Pod{{pod()}, {}, {pod()}} {
		select {
		case <-n.killed:
		default:
			first.set(set...)
			pause := 5 * time.Second
			if len(set) == 0 {
				pause = 10 * time.Millisecond
			}
			select {
			case <-n.killed:
			case <-time.After(pause):
			}
		}
	}
	n.kill(first)
	points = n.points

	n.killAt = 0
	r := n.agent()
	r.set(pod())
	r.phase("uid-web", v1.PodRunning, time.Minute)
	<-time.After(30 * time.Second)
	if s := starts(n.rt, "uid-web"); n.rt.Running("uid-web", "slow") != 1 || s > 2 {
		t.Errorf("%d starts, %s", s, r.explain("uid-web"))
	}
	return points
}
