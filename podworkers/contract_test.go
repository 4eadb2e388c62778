package podworkers_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/podworkers"
	"github.com/podwright/podwright/podworkers/internal/machine"
	"github.com/podwright/podwright/runtime"
)

// V4, W4: a pod known only from the runtime is stopped without waiting for a view.
func TestRuntimeOnlyPodNeedsNoView(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l log
		w := podworkers.New(logging(&l), podworkers.Options{Views: newFakeViews()})
		run(t, w)
		w.UpdatePod(podworkers.UpdateOptions{Type: podworkers.Kill, RunningPod: &runtime.Pod{UID: "r"}})
		expect(t, &l, "terminating runtime r")
	})
}

// V6, L6: when the workers ask the status source to refresh a view.
func TestViewIsRefreshedAfterCallsThatActed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		views := newFakeViews()
		views.relist()
		acted := false
		w := podworkers.New(podworkers.PodSyncerFuncs{
			Sync: func(context.Context, podworkers.UpdateType, *v1.Pod, *v1.Pod, *runtime.PodStatus) (podworkers.SyncResult, error) {
				return podworkers.SyncResult{Acted: acted}, nil
			},
		}, podworkers.Options{Views: views})
		run(t, w)
		refreshes := func() int {
			synctest.Wait()
			views.mu.Lock()
			defer views.mu.Unlock()
			n := views.refreshes
			views.refreshes = 0
			return n
		}
		w.UpdatePod(create(newPod("a")))
		if n := refreshes(); n != 0 {
			t.Errorf("%d refreshes after a setup that did nothing", n)
		}
		acted = true
		w.UpdatePod(create(newPod("b")))
		if n := refreshes(); n != 1 {
			t.Errorf("%d refreshes after a setup that acted", n)
		}
	})
}

// N3: pods of the API may share a full name. N5: a blocked static pod delays no other pod, and may
// still have running containers.
func TestOnlyStaticPodsExcludeEachOtherByName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l log
		w := podworkers.New(logging(&l), podworkers.Options{})
		run(t, w)
		for _, pod := range []*v1.Pod{newPod("a"), newPod("b")} {
			pod.Name = "same"
			w.UpdatePod(create(pod))
		}
		w.UpdatePod(create(newStatic("s1", "web")))
		w.UpdatePod(create(newStatic("s2", "web"))) // W7: waits
		synctest.Wait()
		l.take()
		if !w.CouldHaveRunningContainers("s2") {
			t.Error("a blocked pod counts as not running")
		}
		w.UpdatePod(create(newPod("c")))
		expect(t, &l, "setup c create")
	})
}

// L10: every outcome, and U2: an update of an unknown pod makes a record.
func TestUpdatesTellTheirOutcome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := podworkers.New(nil, podworkers.Options{})
		update := func(kind podworkers.UpdateType) podworkers.Outcome {
			return w.UpdatePod(podworkers.UpdateOptions{Type: kind, Pod: newPod("a")})
		}
		runtimeKill := podworkers.UpdateOptions{Type: podworkers.Kill, RunningPod: &runtime.Pod{UID: "a"}}
		got := []podworkers.Outcome{update(podworkers.Create), update(podworkers.Update), update(podworkers.Kill), update(podworkers.Create)}
		stop := run(t, w)
		synctest.Wait()
		got = append(got, update(podworkers.Sync), w.UpdatePod(podworkers.UpdateOptions{}))
		stop()
		got = append(got, update(podworkers.Sync))

		hanging := podworkers.New(podworkers.PodSyncerFuncs{
			Terminated: func(ctx context.Context, _ *v1.Pod, _ *runtime.PodStatus) error { return untilCancelled(ctx) },
		}, podworkers.Options{DrainTimeout: time.Second})
		run(t, hanging)
		hanging.UpdatePod(kill(newPod("a"), podworkers.KillOptions{}))
		synctest.Wait()
		got = append(got, hanging.UpdatePod(runtimeKill))

		want := []podworkers.Outcome{
			machine.OutcomeQueued, machine.OutcomeMerged, machine.OutcomeMerged, machine.OutcomeRestartRemembered,
			machine.OutcomeIgnoredFinished, machine.OutcomeIgnoredInvalid, machine.OutcomeStopped, machine.OutcomeIgnoredStale,
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("outcomes (-want +got):\n%s", diff)
		}
		for _, o := range got {
			if o.String() == "unknown" {
				t.Errorf("outcome %d has no name", o)
			}
		}
	})
}

// P5: an error that the syncer returns causes no event. P7: the syncer gets the caller's pods as
// they are.
func TestSyncerErrorsMakeNoEvent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var events log
		pod, mirror := newStatic("a", "web"), newPod("mirror")
		before := pod.DeepCopy()
		w := podworkers.New(podworkers.PodSyncerFuncs{
			Sync: func(_ context.Context, _ podworkers.UpdateType, p, m *v1.Pod, view *runtime.PodStatus) (podworkers.SyncResult, error) {
				if p != pod || m != mirror || view != nil {
					t.Errorf("SyncPod got %p %p %v", p, m, view)
				}
				return podworkers.SyncResult{}, errTest
			},
		}, podworkers.Options{Events: &events})
		run(t, w)
		w.UpdatePod(podworkers.UpdateOptions{Type: podworkers.Create, Pod: pod, MirrorPod: mirror})
		pass(10 * time.Second)
		synctest.Wait()
		if lines := events.take(); len(lines) > 0 {
			t.Errorf("events %q", lines)
		}
		if diff := cmp.Diff(before, pod); diff != "" {
			t.Errorf("the pod was changed:\n%s", diff)
		}
	})
}

// S1, S2, S3, S5, S8: what SyncKnownPods reports about each record.
func TestSyncKnownPodsTellsEveryRecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := podworkers.New(podworkers.PodSyncerFuncs{
			Terminating: func(ctx context.Context, _ *v1.Pod, _ *runtime.PodStatus, _ *int64, _ podworkers.PodStatusFunc) error {
				return untilCancelled(ctx)
			},
			TerminatingRuntime: func(ctx context.Context, _ *runtime.Pod) error { return untilCancelled(ctx) },
		}, podworkers.Options{DrainTimeout: time.Second})
		run(t, w)
		up, orphan, down, static := newPod("up"), newPod("orphan"), newPod("down"), newStatic("static", "web")
		for _, pod := range []*v1.Pod{up, orphan, static} {
			w.UpdatePod(create(pod))
		}
		w.UpdatePod(kill(down, podworkers.KillOptions{}))
		w.UpdatePod(create(down)) // restart requested, not finished: kept
		w.UpdatePod(podworkers.UpdateOptions{Type: podworkers.Kill, RunningPod: &runtime.Pod{UID: "r"}})
		synctest.Wait()
		got := w.SyncKnownPods([]*v1.Pod{up, down, static})
		want := map[string]podworkers.PodSync{
			"up":     {State: machine.InSetup, HasConfig: true},
			"orphan": {State: machine.TerminationRequested, Orphan: true, HasConfig: true},
			"down":   {State: machine.InTermination, HasConfig: true},
			"static": {State: machine.InSetup, HasConfig: true, Static: true},
			"r":      {State: machine.RuntimeOnly, Orphan: true},
		}
		named := map[string]podworkers.PodSync{}
		for uid, p := range got {
			named[string(uid)] = p
		}
		if diff := cmp.Diff(want, named); diff != "" {
			t.Errorf("known pods (-want +got):\n%s", diff)
		}
		if w.CouldHaveRunningContainers("unknown") {
			t.Error("S1: unknown pods could still be running")
		}
	})
}
