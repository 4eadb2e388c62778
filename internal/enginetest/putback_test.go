package enginetest_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/runtime/fake"
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
