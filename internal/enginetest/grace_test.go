package enginetest_test

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/utils/ptr"

	"github.com/podwright/podwright"
	"github.com/podwright/podwright/runtime"
	"github.com/podwright/podwright/runtime/cri"
	"github.com/podwright/podwright/runtime/fake"
	"github.com/podwright/podwright/syncloop"
	"github.com/podwright/podwright/syncloop/mirror"
)

// TestGraceShrinks: a pod whose container ignores SIGTERM is deleted with 600 s and 5 s later with
// 1 s. The stop in flight is interrupted at once, the new stop gets what is left of the new grace,
// and the pod has ended 6 s after the deletion (runtime.md 16.2, 16.6), even on a runtime that
// forgets interrupted stops.
func TestGraceShrinks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := fake.New(fake.Options{
			Script:              func(fake.Launch) fake.Script { return fake.Script{IgnoreTERM: true} },
			AbandonStopOnCancel: true,
		})
		r := newRig(t, rt, t.TempDir()).start()
		pod := newPod("stubborn")
		r.set(pod)
		r.phase(pod.UID, v1.PodRunning, 5*time.Second)
		began := time.Now()
		for _, grace := range []int64{600, 1} {
			pod = pod.DeepCopy()
			pod.DeletionTimestamp = ptr.To(metav1.NewTime(began))
			pod.DeletionGracePeriodSeconds = ptr.To(grace)
			r.apply(pod)
			if grace > 1 {
				<-time.After(5 * time.Second)
			}
		}
		dead := r.within(10*time.Second, "a dead container", func() error {
			if rt.Facts(pod.UID, "main").Running > 0 {
				return errors.New("it runs")
			}
			return nil
		}) + 5*time.Second
		if dead > 6200*time.Millisecond {
			t.Errorf("dead after %v, want 6.2s at most", dead)
		}
		stops := rt.Calls(fake.Match{Method: fake.StopContainer})
		if len(stops) != 2 {
			t.Fatalf("%d stops", len(stops))
		}
		if late := stops[0].End.Sub(began) - 5*time.Second; late > 100*time.Millisecond || cri.Class(stops[0].Err) != runtime.ErrCanceled {
			t.Errorf("the first stop ended %v after the second deletion: %v", late, stops[0].Err)
		}
		if late := stops[1].Start.Sub(began) - 5*time.Second; late > 100*time.Millisecond {
			t.Errorf("16.6: the second stop came %v after the second deletion", late)
		}
		if got := stops[1].Request.(*runtimeapi.StopContainerRequest).GetTimeout(); got != 1 {
			t.Errorf("16.2: the second stop has a grace of %d s", got)
		}
	})
}

// killed makes an engine end like one that is killed: it waits for no call in flight.
func killed(c *podwright.Config) { c.Workers.DrainTimeout = time.Millisecond }

// TestReplacedPodKeepsItsOwnGrace: IN7. Ten pods are replaced under their names while no agent
// runs, half of them while they are being stopped. Whether the housekeeper or the new pod with the
// name finds them first (the runtime's first list takes 3 s), each has what is left of its own
// grace.
func TestReplacedPodKeepsItsOwnGrace(t *testing.T) {
	t.Parallel()
	const n, grace, passed = 10, 60, 20
	for _, slow := range []time.Duration{0, 3 * time.Second} {
		t.Run("first list takes "+slow.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rt := fake.New(fake.Options{Script: func(fake.Launch) fake.Script { return fake.Script{IgnoreTERM: true} }})
				root := t.TempDir()
				var old, next []*v1.Pod
				for i := range n {
					pod := newPod(fmt.Sprint("web-", i))
					pod.Spec.TerminationGracePeriodSeconds = ptr.To[int64](grace)
					old = append(old, pod)
					pod = pod.DeepCopy()
					pod.UID += "-next"
					next = append(next, pod)
				}
				first := newRig(t, rt, root, killed).start()
				first.set(old...)
				for _, pod := range old {
					first.phase(pod.UID, v1.PodRunning, 30*time.Second)
				}
				first.set(old[:n/2]...)
				<-time.After(passed * time.Second)
				first.stop()
				before := len(rt.Calls(fake.Match{Method: fake.StopContainer}))

				if slow > 0 {
					rt.Inject(fake.Fault{Match: fake.Match{Method: fake.ListPodSandbox}, Times: 1, Effect: fake.Effect{Delay: slow}})
				}
				second := newRig(t, rt, root).start()
				second.set(next...)
				for _, pod := range next {
					second.phase(pod.UID, v1.PodRunning, 3*time.Minute)
				}
				for i, pod := range old {
					want := int64(grace)
					if i >= n/2 {
						want -= passed
					}
					stops := rt.Calls(fake.Match{Method: fake.StopContainer, PodUID: pod.UID})
					if len(stops) == 0 {
						t.Fatalf("%s was not stopped", pod.UID)
					}
					last := stops[len(stops)-1].Request.(*runtimeapi.StopContainerRequest).GetTimeout()
					if last < want-5 || last > want {
						t.Errorf("%s: stopped with %d s, want the %d s of its own", pod.UID, last, want)
					}
				}
				if before != n/2 {
					t.Errorf("%d stops before the restart, want %d", before, n/2)
				}
			})
		})
	}
}

// TestDeletedPodKeepsRestOfGraceOverRestart: IN7. A pod that its API deletes with 60 s of grace has
// been stopping for 20 s when the agent restarts, and the new agent first hears of it through the
// same deletion. The pod has the remaining 40 s.
func TestDeletedPodKeepsRestOfGraceOverRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := fake.New(fake.Options{Script: func(fake.Launch) fake.Script { return fake.Script{IgnoreTERM: true} }})
		api, root := &mirror.FakeClient{}, t.TempDir()
		fromAPI := func(c *podwright.Config) { c.Sources = []syncloop.Source{apiSource{api: api}} }
		r := newRig(t, rt, root, fromAPI, killed).start()
		pod := newPod("web")
		api.Put(pod)
		r.phase(pod.UID, v1.PodRunning, 10*time.Second)
		deleted := pod.DeepCopy()
		deleted.DeletionTimestamp, deleted.DeletionGracePeriodSeconds = ptr.To(metav1.NewTime(time.Now())), ptr.To[int64](60)
		api.Put(deleted)
		<-time.After(20 * time.Second)
		r.stop()
		newRig(t, rt, root, fromAPI).start()
		<-time.After(5 * time.Second)
		stops := rt.Calls(fake.Match{Method: fake.StopContainer})
		last := stops[len(stops)-1].Request.(*runtimeapi.StopContainerRequest).GetTimeout()
		if len(stops) != 2 || last < 35 || last > 40 {
			t.Errorf("%d stops, the last with %d s, want the 40 s that were left", len(stops), last)
		}
	})
}

// TestPodRemovedBeforeTheGateKeepsRestOfGrace: IN7. A pod has been stopping for 20 s of its 60 s
// when the agent restarts. Its source names it and takes it back while the runtime's first list is
// still in progress, so that the first thing a worker hears of it is its end.
func TestPodRemovedBeforeTheGateKeepsRestOfGrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := fake.New(fake.Options{Script: func(fake.Launch) fake.Script { return fake.Script{IgnoreTERM: true} }})
		root := t.TempDir()
		r := newRig(t, rt, root, killed).start()
		pod := newPod("web")
		pod.Spec.TerminationGracePeriodSeconds = ptr.To[int64](60)
		r.set(pod)
		r.phase(pod.UID, v1.PodRunning, 10*time.Second)
		r.set()
		<-time.After(20 * time.Second)
		r.stop()
		rt.Inject(fake.Fault{Match: fake.Match{Method: fake.ListPodSandbox}, Times: 1, Effect: fake.Effect{Delay: 3 * time.Second}})
		again := newRig(t, rt, root).start()
		again.set(pod)
		<-time.After(time.Second)
		again.set()
		<-time.After(10 * time.Second)
		stops := rt.Calls(fake.Match{Method: fake.StopContainer})
		last := stops[len(stops)-1].Request.(*runtimeapi.StopContainerRequest).GetTimeout()
		if len(stops) < 2 || last < 30 || last > 39 { // the list takes 3 s, and the pod's own reading need not wait for it
			t.Errorf("%d stops, the last with %d s, want the 37 to 39 s that were left", len(stops), last)
		}
	})
}
