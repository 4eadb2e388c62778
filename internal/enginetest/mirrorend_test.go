package enginetest_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podwright/podwright"
	"github.com/podwright/podwright/runtime/fake"
	"github.com/podwright/podwright/syncloop/mirror"
)

// TestFormerMirrorEndsNoPod: MC4, status.md 7.3. A static job has ended, and its manifest is
// rewritten: the next pod has the name and another UID. The mirror pod that still stands for the job
// says nothing about the next pod, which runs, in this agent and in the next one.
func TestFormerMirrorEndsNoPod(t *testing.T) {
	for _, restarted := range []bool{false, true} {
		t.Run(fmt.Sprintf("restarted: %v", restarted), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				api, rt, root := &mirror.FakeClient{}, byContainer(map[string]fake.Script{"job": {Exit: &fake.Exit{After: time.Second}}}), t.TempDir()
				self := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", UID: "node-uid"}}
				start := func() *rig {
					return newRig(t, rt, root, func(c *podwright.Config) {
						c.Sources = append(c.Sources, apiSource{api: api})
						c.Mirrors = mirror.Options{Client: api, Node: func() *v1.Node { return self }}
						c.Observe.Sinks = append(c.Observe.Sinks, mirrorSink{api})
					}).start()
				}
				shown := func(phase v1.PodPhase) func() error {
					return func() error {
						pods, _ := api.Pods()
						if len(pods) != 1 || pods[0].Status.Phase != phase {
							return fmt.Errorf("at the API: %v", pods)
						}
						return nil
					}
				}
				r := start()
				r.set(withPolicy(newPod("web", "job"), v1.RestartPolicyNever))
				r.within(time.Minute, "the end of the job at the API", shown(v1.PodSucceeded))
				if restarted {
					r.stop()
					r = start()
				}
				<-time.After(time.Minute)
				next := newPod("web")
				next.UID = "uid-next"
				began := time.Now()
				r.set(next)
				<-time.After(time.Minute)
				r.phase(next.UID, v1.PodRunning, time.Minute)
				if n := rt.Running(next.UID, "main"); n != 1 {
					t.Errorf("%d containers run", n)
				}
				if s := r.pod(next.UID).Status.StartTime; s == nil || s.Time.Before(began.Add(-time.Second)) {
					t.Errorf("start time %v, want %v", s, began)
				}
				r.within(time.Minute, "the next pod at the API", shown(v1.PodRunning))
			})
		})
	}
}
