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

// mirroring makes an agent keep mirror pods at an API, and read and write them as a cluster's does.
func mirroring(api *mirror.FakeClient) func(c *podwright.Config) {
	self := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", UID: "node-uid"}}
	return func(c *podwright.Config) {
		c.Sources = append(c.Sources, apiSource{api: api})
		c.Mirrors = mirror.Options{Client: api, Node: func() *v1.Node { return self }}
		c.Observe.Sinks = append(c.Observe.Sinks, mirrorSink{api})
	}
}

// TestFormerMirrorEndsNoPod: MC4, status.md 7.3. A static job has ended, and its manifest is
// rewritten: the next pod has the name and another UID. The mirror pod that still stands for the job
// says nothing about the next pod, which runs, in this agent and in the next one.
func TestFormerMirrorEndsNoPod(t *testing.T) {
	for _, restarted := range []bool{false, true} {
		t.Run(fmt.Sprintf("restarted: %v", restarted), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				api, rt, root := &mirror.FakeClient{}, byContainer(map[string]fake.Script{"job": {Exit: &fake.Exit{After: time.Second}}}), t.TempDir()
				start := func() *rig { return newRig(t, rt, root, mirroring(api)).start() }
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

// TestFormerLifesMirrorSaysNothing: IN14, R4, W3. A static pod is moved out and back while it is being stopped, so its mirror pod
// stays. Whether that has ended at the API or not, the next life begins its own active deadline, and keeps it in the next agent.
func TestFormerLifesMirrorSaysNothing(t *testing.T) {
	for _, policy := range []v1.RestartPolicy{v1.RestartPolicyNever, v1.RestartPolicyOnFailure, v1.RestartPolicyAlways} {
		t.Run(string(policy), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				api, rt, root := &mirror.FakeClient{}, byContainer(map[string]fake.Script{"job": {OnTERM: fake.Exit{Code: 1, After: 8 * time.Second}}}), t.TempDir()
				start := func() *rig { return newRig(t, rt, root, mirroring(api)).start() }
				r, web := start(), withDeadline(withPolicy(newPod("web", "job"), policy), 3600)
				r.set(web)
				r.phase(web.UID, v1.PodRunning, time.Minute)
				<-time.After(50 * time.Minute)
				r.set()
				<-time.After(4 * time.Second)
				back := time.Now()
				r.set(web)
				<-time.After(20 * time.Minute) // beyond the deadline of the first life
				r.phase(web.UID, v1.PodRunning, time.Minute)
				began := r.pod(web.UID).Status.StartTime
				if began == nil || began.Time.Before(back) || starts(rt, web.UID) != 2 {
					t.Fatalf("%d starts, start time %v, want one after %v", starts(rt, web.UID), began, back)
				}
				if shown, _ := api.Pods(); len(shown) != 1 || shown[0].Status.Phase != v1.PodRunning || !shown[0].Status.StartTime.Equal(began) {
					t.Errorf("at the API: %v", shown)
				}
				r.stop()
				r = start()
				r.set(web)
				<-time.After(time.Until(began.Add(time.Hour - time.Minute)))
				if s := r.pod(web.UID).Status; s.Phase != v1.PodRunning || !s.StartTime.Equal(began) {
					t.Errorf("the next agent shows %s since %v, want %v", s.Phase, s.StartTime, began)
				}
				r.phase(web.UID, v1.PodFailed, 2*time.Minute)
			})
		})
	}
}
