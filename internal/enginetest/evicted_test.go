package enginetest_test

import (
	"maps"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/podwright/podwright"
	"github.com/podwright/podwright/runtime/fake"
	"github.com/podwright/podwright/runtime/pods"
	"github.com/podwright/podwright/syncloop"
	"github.com/podwright/podwright/syncloop/mirror"
)

// TestEvictedPodKeepsNoContainers: section 10, PE2, PE4, edge case 29. If a pod is evicted, by this
// node or according to its API, all its exited containers are removed at once, although the pod is
// still desired. The engine still knows how each of them ended, even in the next agent. A pod that
// only failed keeps the newest container of each name.
func TestEvictedPodKeepsNoContainers(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name   string
		reason string // of the status that the API has
		keeps  bool
	}{
		{"the API says that it was evicted", "Evicted", false},
		{"the API says that it failed otherwise", "DeadlineExceeded", true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				api, root := &mirror.FakeClient{}, t.TempDir()
				rt := byContainer(map[string]fake.Script{"job": {Exit: &fake.Exit{After: time.Second, Code: 3}, OnTERM: fake.Exit{Code: 3}}})
				configure := func(c *podwright.Config) {
					c.Sources = []syncloop.Source{apiSource{api: api}}
					c.Pods.CrashLoopBackOff = pods.BackOffPolicy{Initial: time.Second, Max: time.Second}
				}
				r := newRig(t, rt, root, configure).start()
				pod, other := newPod("web", "job", "app"), newPod("other", "job")
				api.Put(pod)
				api.Put(other)
				r.phase(pod.UID, v1.PodRunning, time.Minute)
				r.phase(other.UID, v1.PodRunning, time.Minute)
				<-time.After(20 * time.Second)
				ended := pod.DeepCopy()
				ended.Status.Phase, ended.Status.Reason = v1.PodFailed, tc.reason
				api.Put(ended)
				r.phase(pod.UID, v1.PodFailed, time.Minute)
				<-time.After(3 * time.Second)
				synctest.Wait()
				if n := len(r.records(pod)); tc.keeps != (n == 2) || !tc.keeps && n != 0 {
					t.Errorf("%d containers are left", n)
				}
				if len(r.records(other)) == 0 {
					t.Error("another pod lost its containers")
				}
				told(t, r, pod)
				r.stop()
				again := newRig(t, rt, root, configure).start()
				again.phase(pod.UID, v1.PodFailed, time.Minute)
				<-time.After(time.Minute)
				told(t, again, pod)
			})
		})
	}
}

// told checks that the status shows how a pod's containers "job" and "app" ended.
func told(t *testing.T, r *rig, pod *v1.Pod) {
	t.Helper()
	codes := map[string]int32{}
	for _, c := range r.pod(pod.UID).Status.ContainerStatuses {
		if end := c.State.Terminated; end != nil && end.Reason != "ContainerStatusUnknown" {
			codes[c.Name] = end.ExitCode
		}
	}
	if want := map[string]int32{"job": 3, "app": 0}; !maps.Equal(codes, want) {
		t.Errorf("the containers ended with %v, want %v: %s", codes, want, r.explain(pod.UID))
	}
}

// TestEvictedPodKeepsExitCodesWhileItStops: section 10, PE4: a container of an evicted pod
// that has ended stays in the runtime until the end of the whole pod is published, however
// long another container takes to stop.
func TestEvictedPodKeepsExitCodesWhileItStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := &mirror.FakeClient{}
		rt := byContainer(map[string]fake.Script{
			"job": {OnTERM: fake.Exit{Code: 3}},
			"app": {OnTERM: fake.Exit{After: 20 * time.Second}},
		})
		r := newRig(t, rt, t.TempDir(), func(c *podwright.Config) {
			c.Sources = []syncloop.Source{apiSource{api: api}}
		}).start()
		pod := newPod("web", "job", "app")
		pod.Spec.TerminationGracePeriodSeconds = ptr.To[int64](30)
		api.Put(pod)
		r.phase(pod.UID, v1.PodRunning, time.Minute)
		<-time.After(10 * time.Second)
		evicted := pod.DeepCopy()
		evicted.Status.Phase, evicted.Status.Reason = v1.PodFailed, "Evicted"
		evicted.Labels = map[string]string{"evicted": "yes"} // a change that the worker sees
		api.Put(evicted)
		<-time.After(10 * time.Second)
		synctest.Wait()
		if rt.Running(pod.UID, "app") == 0 || rt.Running(pod.UID, "job") > 0 {
			t.Fatal("the pod is not being stopped")
		}
		<-time.After(time.Minute)
		synctest.Wait()
		told(t, r, pod)
		if n := len(r.records(pod)); n != 0 {
			t.Errorf("%d containers are left", n)
		}
	})
}
