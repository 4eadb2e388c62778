package enginetest_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/runtime/fake"
	"github.com/podwright/podwright/status"
)

// TestJobPutBackLaterRunsAgain: IN10, CK7. A static job has ended, and its source no longer names it when the next agent asks. If
// it is put back later, a new life begins, as it does without a restart of the agent.
func TestJobPutBackLaterRunsAgain(t *testing.T) {
	for _, wait := range []time.Duration{time.Second, 10 * time.Minute} {
		for _, restarted := range []bool{false, true} {
			t.Run(fmt.Sprintf("after %v, restarted: %v", wait, restarted), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					n := newHost(t, byContainer(map[string]fake.Script{"job": {Exit: &fake.Exit{After: time.Second}}}))
					job := withPolicy(newPod("job", "job"), v1.RestartPolicyNever)
					r := n.agent()
					r.set(job)
					r.phase(job.UID, v1.PodSucceeded, time.Minute)
					<-time.After(time.Minute)
					if restarted {
						n.kill(r)
						r = n.agent()
					}
					r.set()
					<-time.After(wait)
					r.set(job)
					r.within(time.Minute, "a second run", func() error {
						if s := starts(n.rt, job.UID); s != 2 {
							return fmt.Errorf("%d starts, %s", s, r.explain(job.UID))
						}
						return nil
					})
					r.phase(job.UID, v1.PodSucceeded, time.Minute)
					n.kill(r)
					r = n.agent()
					r.set(job)
					<-time.After(10 * time.Minute)
					if s := starts(n.rt, job.UID); s != 2 {
						t.Errorf("%d starts in the end", s)
					}
				})
			})
		}
	}
}

// TestUIDOfAnEndedPodPassesOn: IN10, PS6. A job has ended, its source has dropped it, and a sink has not taken its end. Another
// source that names the UID has it at once, and over a restart; the job does not come back.
func TestUIDOfAnEndedPodPassesOn(t *testing.T) {
	for _, restarted := range []bool{false, true} {
		t.Run(fmt.Sprintf("restarted: %v", restarted), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rt, root := byContainer(map[string]fake.Script{"job": {Exit: &fake.Exit{After: time.Second}}}), t.TempDir()
				down := sinks(status.SinkFunc(func(context.Context, status.Update) (status.StoreResult, error) { return 0, errors.New("down") }))
				r := newTenancy(t, rt, root, down)
				job, heir := withPolicy(newPod("job", "job"), v1.RestartPolicyNever), newPod("heir")
				heir.UID = job.UID
				r.asks()
				r.set(job)
				r.phase(job.UID, v1.PodSucceeded, time.Minute)
				<-time.After(time.Minute)
				r.set()
				<-time.After(time.Minute)
				if restarted {
					r.stop()
					r = newTenancy(t, rt, root, down)
					r.set()
				}
				r.asks(heir)
				r.phase(job.UID, v1.PodRunning, 10*time.Second)
				<-time.After(time.Minute)
				r.stop()
				r = newTenancy(t, rt, root, down) // both sources are silent
				r.within(time.Minute, "the heir to be known", func() error {
					if p := r.pod(job.UID); p == nil || p.Name != "heir" {
						return fmt.Errorf("%v", p)
					}
					return nil
				})
				if n := starts(rt, job.UID); n != 2 || rt.Running(job.UID, "main") != 1 {
					t.Errorf("%d starts", n)
				}
			})
		})
	}
}
