package pods_test

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/runtime/fake"
	"github.com/podwright/podwright/runtime/pods"
)

// spec/cleanup.md 3.8: ranges of user IDs are known without a look at the disk, and
// are given back even if the pod's folder is no longer there.
func TestReleaseUserRange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		w.withStatus(userNamespaces(false, ""), nil)
		pod := newPod(ownUsers)
		w.syncAll(pod)
		if got := w.m.UserRanges(); !slices.Equal(got, []types.UID{pod.UID}) {
			t.Fatalf("ranges of %v", got)
		}
		if err := w.m.KillPod(t.Context(), pod, w.read(pod), nil); err != nil {
			t.Fatal(err)
		}
		for range 2 { // ID1
			if err := w.m.ReleaseUserRange(pod.UID); err != nil {
				t.Error(err)
			}
		}
		if got := w.m.UserRanges(); len(got) != 0 {
			t.Errorf("ranges of %v", got)
		}
	})
}

// spec/cleanup.md DR1, DR2, DR3: the plan of a collection touches nothing and names the
// rule behind each dead container that stays. The collection does exactly what the plan
// says, as far as it is permitted.
func TestPlanGarbageCollect(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, pod := crashing(t)
		policy := pods.GCPolicy{SourcesReady: true}
		before := len(w.calls(fake.RemoveContainer, fake.RemovePodSandbox))
		plan, err := w.m.PlanGarbageCollect(t.Context(), policy)
		if err != nil || len(w.calls(fake.RemoveContainer, fake.RemovePodSandbox)) != before {
			t.Fatalf("the plan removed something, or failed: %v", err)
		}
		var goes []string
		kept := 0
		for _, a := range plan {
			switch {
			case a.Kept.IsZero() && a.Reason == "" || a.PodUID != pod.UID || a.ID == "":
				t.Errorf("%+v", a)
			case a.Kept.IsZero():
				goes = append(goes, a.ID)
			case a.Kept.Rule == "ND3":
				kept++
			}
		}
		if len(goes) == 0 || kept != 1 {
			t.Fatalf("plan %+v", plan)
		}
		policy.Permits = func(pods.GCAction) bool { return false }
		if report, err := collect(t.Context(), w.m, policy); err != nil || len(report.Containers)+len(report.Sandboxes) > 0 {
			t.Errorf("DR5: %+v, err %v", report, err)
		}
		var done []string
		policy.Permits = nil
		policy.Done = func(a pods.GCAction, err error) {
			if err != nil {
				t.Error(err)
			}
			done = append(done, a.ID)
		}
		if _, err := collect(t.Context(), w.m, policy); err != nil || !slices.Equal(done, goes) {
			t.Errorf("done %v, planned %v, err %v", done, goes, err)
		}
		if _, err := w.m.PlanGarbageCollect(t.Context(), pods.GCPolicy{MinAge: -1}); err == nil {
			t.Error("CG1: a negative age is accepted")
		}
		defer w.fake.Inject(fake.Fault{Match: fake.Match{Method: fake.ListContainers}, Effect: fake.Effect{Err: errors.New("down")}})()
		if plan, err := w.m.PlanGarbageCollect(t.Context(), policy); err == nil || len(plan) > 0 {
			t.Errorf("ND11: %+v, err %v", plan, err)
		}
	})
}

// spec/cleanup.md 3.17: delays are dropped when they no longer delay anything, and not
// before.
func TestPruneBackOffs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, func(fake.Launch) fake.Script { return fake.Script{Exit: &fake.Exit{After: second, Code: 1}} })
		pod := newPod()
		w.syncAll(pod)
		pass(2 * second)
		w.syncAll(pod) // it has ended once and runs again, or waits
		pass(2 * second)
		before := w.sync(pod)
		w.m.PruneBackOffs()
		after := w.sync(pod)
		if (before.Err == nil) != (after.Err == nil) {
			t.Errorf("the delay was dropped too early: %v, then %v", before.Err, after.Err)
		}
		pass(time.Hour)
		w.m.PruneBackOffs()
		if r := w.sync(pod); r.Err != nil {
			t.Errorf("it is still delayed: %v", r.Err)
		}
	})
}

// spec/cleanup.md 3.16: a pod without volumes has none; one whose volumes were made
// has, until they are torn down.
func TestHasVolumes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		pod := newPod(func(p *v1.Pod) {
			p.Spec.Volumes = []v1.Volume{{Name: "data", VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}}}
			p.Spec.Containers[0].VolumeMounts = []v1.VolumeMount{{Name: "data", MountPath: "/data"}}
		})
		has := func(want bool) {
			t.Helper()
			if got, err := w.m.HasVolumes(t.Context(), pod.UID); got != want || err != nil {
				t.Errorf("%v, %v, want %v", got, err, want)
			}
		}
		has(false)
		w.syncAll(pod)
		has(true)
		if err := w.m.TearDownVolumes(t.Context(), pod.UID); err != nil {
			t.Fatal(err)
		}
		has(false)
		if has, err := w.m.HasVolumes(t.Context(), "../../etc"); !has || err == nil {
			t.Errorf("a name that is no UID: %v, %v", has, err)
		}
	})
}
