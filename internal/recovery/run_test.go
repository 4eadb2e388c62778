package recovery

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/problem"
	"github.com/podwright/podwright/podworkers"
	"github.com/podwright/podwright/probe"
	"github.com/podwright/podwright/runtime"
	"github.com/podwright/podwright/status/checkpoint"
)

// CK9: load, read the runtime, compare, report, open the gate.
func TestStepsComeInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, newDisk(newRecord("a", begun, phase(v1.PodRunning)), newRecord("b", phase(v1.PodFailed))))
		r.views["a"], r.views["c"] = view("a", runtime.Running), view("c", runtime.Exited)
		if err := r.Gate(); !errors.Is(err, ErrNotLoaded) {
			t.Errorf("gate before the records are loaded: %v", err)
		}
		if err := r.Load(t.Context()); err != nil {
			t.Fatal(err)
		}
		got := r.took()
		slices.Sort(got)
		if want := []string{"restore a Running", "restore b Failed"}; !slices.Equal(got, want) {
			t.Errorf("loaded: %q, want %q", got, want)
		}
		r.start(r.Run)
		pass(time.Hour)
		r.want("the runtime has not been read")
		if err := r.Gate(); !errors.Is(err, ErrNotRead) {
			t.Errorf("gate before the runtime is read: %v", err)
		}
		close(r.synced)
		r.want("the runtime has been read", "event Normal Recovered", "opened")
		if err := r.Gate(); err != nil {
			t.Errorf("gate: %v", err)
		}
		report, ok := r.Report()
		if !ok || report.Records != 2 || !slices.Equal(report.Resumed, []types.UID{"a"}) || !slices.Equal(report.Ended, []types.UID{"b"}) ||
			!slices.Equal(report.Unknown, []types.UID{"c"}) || !report.At.Equal(time.Now()) {
			t.Errorf("report: %t %+v", ok, report)
		}
	})
}

// CK9: no read takes a step, however often and whenever it is made.
func TestReadsTakeNoStep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, newDisk(newRecord("a", begun)))
		reads := func(want error) {
			t.Helper()
			for range 3 {
				if _, ok := r.Report(); ok {
					t.Error("there is a report")
				}
				if err := r.Gate(); !errors.Is(err, want) {
					t.Errorf("gate: %v, want %v", err, want)
				}
				_ = r.journal.Problems()
				_ = r.journal.Problem("a")
				_ = r.journal.Get("a")
				_, _, _ = r.Verdicts(func() bool { return false }).Verdict(newPod("a"))
			}
			r.want("reads")
		}
		reads(ErrNotLoaded)
		close(r.synced)
		reads(ErrNotLoaded)
		if len(r.disk.loads) > 0 {
			t.Error("a read has loaded the records")
		}
		if err := r.Load(t.Context()); err != nil {
			t.Fatal(err)
		}
		reads(ErrNotRead)
	})
}

// Records that cannot be loaded are tried again with back-off; the gate stays closed.
func TestUnreadableRecordsAreLoadedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, newDisk(newRecord("a")))
		r.disk.fail(errDisk, nil)
		close(r.synced)
		begin := time.Now()
		if err := r.Load(t.Context()); !errors.Is(err, errDisk) {
			t.Errorf("load: %v", err)
		}
		if err := problem.Health(r.journal.Problems()); !errors.Is(err, errDisk) {
			t.Errorf("healthy: %v", err)
		}
		r.start(r.Run)
		r.start(r.KeepRecords)
		pass(3 * time.Minute)
		var at []time.Duration
		for _, l := range r.disk.loads {
			at = append(at, l.Sub(begin))
		}
		want := []time.Duration{0, 1, 3, 7, 15, 31, 63, 123}
		for i := range want {
			want[i] *= time.Second
		}
		if !slices.Equal(at, want) {
			t.Errorf("loaded at %v, want %v", at, want)
		}
		if err := r.Gate(); !errors.Is(err, ErrNotLoaded) {
			t.Errorf("gate: %v", err)
		}
		r.disk.fail(nil, nil)
		pass(time.Minute)
		r.want("loaded", "event Normal Recovered", "opened")
		if err := errors.Join(r.Gate(), problem.Health(r.journal.Problems())); err != nil {
			t.Error(err)
		}
	})
}

func TestRunEndsWithItsContextWhereverItWaits(t *testing.T) {
	for _, loaded := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, newDisk())
			if loaded {
				if err := r.Load(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			if err := errors.Join(r.Run(ctx), r.KeepRecords(ctx)); err != nil {
				t.Error(err)
			}
			r.want("nothing was done")
		})
	}
}

// CK9: a start that has found nothing, as a node's first one, is no event.
func TestNothingFoundIsNoEvent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, newDisk())
		close(r.synced)
		if err := errors.Join(r.Load(t.Context()), r.Run(t.Context())); err != nil {
			t.Fatal(err)
		}
		r.want("nothing found", "opened")
		if report, ok := r.Report(); !ok || report.At.IsZero() {
			t.Errorf("report: %t %+v", ok, report)
		}
	})
}

// CK9: pods without a record are reported.
func TestPodsWithoutRecordAreAnEvent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, newDisk())
		r.views["c"] = view("c", runtime.Running)
		close(r.synced)
		if err := errors.Join(r.Load(t.Context()), r.Run(t.Context())); err != nil {
			t.Fatal(err)
		}
		r.want("unknown pod", "event Normal Recovered", "opened")
	})
}

func TestUnusableRecordsAreAWarning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, newDisk())
		r.disk.bad = []checkpoint.Bad{{Trouble: "corrupt", Name: "x"}}
		close(r.synced)
		if err := r.Load(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := r.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		r.want("report", "event Warning Recovered", "opened")
		if report, _ := r.Report(); len(report.Bad) != 1 {
			t.Errorf("report: %+v", report)
		}
	})
}

// A pod that the runtime lists and did not describe may run: nothing says that it is lost.
// A record that was made since the start is no part of the report.
func TestComparisonIsOfWhatWasFound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, newDisk(newRecord("a", begun), newRecord("b", begun))).keep()
		r.views["a"], r.viewErr["a"] = view("a", runtime.Exited), errDisk
		r.views["b"] = &runtime.PodStatus{UID: "b"} // listed before, gone now
		r.journal.Desired(newPod("new"))
		report := r.compare()
		if report.Records != 2 || !slices.Equal(report.Resumed, []types.UID{"a"}) || !slices.Equal(report.Lost, []types.UID{"b"}) {
			t.Errorf("report: %+v", report)
		}
	})
}

// probe.md 8.8: the first status after a restart shows what the probes had found.
func TestLoadRestoresProbeResults(t *testing.T) {
	running := func(r *checkpoint.Record) {
		r.Status = &v1.PodStatus{Phase: v1.PodRunning, ContainerStatuses: []v1.ContainerStatus{
			{Name: "main", ContainerID: "fake://1", State: v1.ContainerState{Running: &v1.ContainerStateRunning{}}},
			{Name: "down", ContainerID: "fake://2"},
			{Name: "odd", ContainerID: "?", State: v1.ContainerState{Running: &v1.ContainerStateRunning{}}},
		}}
	}
	for _, tc := range []struct {
		name    string
		results map[probe.Kind]probe.Result
		record  *checkpoint.Record
		want    []string
	}{
		{"no probes", nil, newRecord("a", running), []string{"restore a Running"}},
		{
			"passed",
			map[probe.Kind]probe.Result{probe.Startup: probe.Success, probe.Readiness: probe.Success},
			newRecord("a", running),
			[]string{"restore a Running", "started a true", "ready a true"},
		},
		{
			"failed",
			map[probe.Kind]probe.Result{probe.Startup: probe.Failure, probe.Readiness: probe.Failure},
			newRecord("a", running),
			[]string{"restore a Running", "ready a false"},
		},
		{
			"a pod that is not remembered",
			map[probe.Kind]probe.Result{probe.Readiness: probe.Success},
			newRecord("a", running, hasNoPod),
			[]string{"restore a Running"},
		},
		{
			"a pod that has ended",
			map[probe.Kind]probe.Result{probe.Readiness: probe.Success},
			newRecord("a", running, func(r *checkpoint.Record) { r.Status.Phase = v1.PodFailed }),
			[]string{"restore a Failed"},
		},
		{"no status", nil, newRecord("a"), nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, newDisk(tc.record))
				r.results = tc.results
				if err := r.Load(t.Context()); err != nil {
					t.Fatal(err)
				}
				r.want("load", tc.want...)
			})
		})
	}
}

// CK9: before the records are loaded no worker is told to stop a pod, and no container is
// removed.
func TestNothingIsDoneBeforeTheRecordsAreLoaded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, newDisk(newRecord("a", stopping(checkpoint.Termination{RequestedAt: time.Now(), GracePeriodSeconds: 30}))))
		kill := podworkers.UpdateOptions{Type: podworkers.Kill, Pod: newPod("a")}
		if got := r.Complete(kill); len(got) > 0 || r.journal.Handed("a") {
			t.Errorf("updates: %+v", got)
		}
		if err := r.journal.BeforeRemove(t.Context(), "a", "main", runtime.ContainerID{}); !errors.Is(err, ErrNotLoaded) {
			t.Errorf("a container is removed: %v", err)
		}
		r.keep()
		if got := r.Complete(kill); len(got) != 1 {
			t.Errorf("updates: %+v", got)
		}
	})
}

// Only the first update of a pod is completed by its record.
func TestFirstUpdateIsCompletedByItsRecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, newDisk(newRecord("a", stopping(checkpoint.Termination{Deleted: true, RequestedAt: time.Now(), GracePeriodSeconds: 30})),
			newRecord("again", finished))).keep()
		create := func(uid types.UID) []podworkers.UpdateOptions {
			return r.Complete(podworkers.UpdateOptions{Type: podworkers.Create, Pod: newPod(uid)})
		}
		kinds := func(list []podworkers.UpdateOptions) (out []podworkers.UpdateType) {
			for _, u := range list {
				out = append(out, u.Type)
			}
			return out
		}
		first := create("a")
		if got := kinds(first); !slices.Equal(got, []podworkers.UpdateType{podworkers.Kill, podworkers.Create}) {
			t.Fatalf("first update: %v", got)
		}
		if grace := first[0].Kill.GracePeriodSeconds; grace == nil || *grace != 30 {
			t.Errorf("grace: %v", grace)
		}
		if got := kinds(create("a")); !slices.Equal(got, []podworkers.UpdateType{podworkers.Create}) {
			t.Errorf("second update: %v", got)
		}
		if got := kinds(create("new")); !slices.Equal(got, []podworkers.UpdateType{podworkers.Create}) {
			t.Errorf("pod without a record: %v", got)
		}
		r.want("first updates", "adopt a", "adopt new")

		if got := kinds(create("again")); !slices.Equal(got, []podworkers.UpdateType{podworkers.Create}) {
			t.Errorf("pod that had finished: %v", got)
		}
		r.want("a new life", "adopt again", "forget again")
		if record := r.journal.Get("again"); record == nil || record.Finished || !r.journal.Handed("again") {
			t.Errorf("record of the new life: %+v", record)
		}
		if got := r.Complete(podworkers.UpdateOptions{Type: podworkers.Kill}); len(got) != 1 {
			t.Errorf("update without a pod: %v", got)
		}
	})
}

func TestOrphanEndsWithItsOwnGraceIfItIsRemembered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, newDisk(newRecord("a"),
			newRecord("b", stopping(checkpoint.Termination{RequestedAt: time.Now(), GracePeriodSeconds: 20})), newRecord("c", hasNoPod))).keep()
		pass(5 * time.Second)
		kill := func(uid types.UID) podworkers.UpdateOptions {
			u := r.KillOrphan(&runtime.Pod{UID: uid})
			if u.Type != podworkers.Kill || u.RunningPod.UID != uid || !u.StartTime.Equal(time.Now()) {
				t.Errorf("%s: %+v", uid, u)
			}
			return u
		}
		if u := kill("a"); u.Pod == nil || u.Kill.GracePeriodSeconds != nil || !r.journal.Handed("a") {
			t.Errorf("remembered: %+v", u)
		}
		if u := kill("b"); u.Pod == nil || *u.Kill.GracePeriodSeconds != 15 {
			t.Errorf("it was stopping before: %+v", u)
		}
		for _, uid := range []types.UID{"c", "unknown"} {
			if u := kill(uid); u.Pod != nil || r.journal.Handed(uid) {
				t.Errorf("%s: %+v", uid, u)
			}
		}
	})
}

// A node that stops tells pods to stop before their sources have named them. Their kills are completed by
// their records, and what their sources say later is not another life.
func TestPodIsStoppedBeforeItsSourceNamesIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, newDisk(newRecord("a"), newRecord("b", stopping(checkpoint.Termination{RequestedAt: time.Now(), GracePeriodSeconds: 20})), newRecord("c", hasNoPod))).keep()
		grace, done := int64(10), make(chan struct{})
		kill := func(uid types.UID, desired *v1.Pod) podworkers.UpdateOptions {
			u := r.KillRunning(&runtime.Pod{UID: uid}, desired, podworkers.KillOptions{GracePeriodSeconds: &grace, Completed: done})
			if u.Type != podworkers.Kill || u.RunningPod.UID != uid || u.Kill.Completed != done || *u.Kill.GracePeriodSeconds != min(grace, 20) {
				t.Errorf("%s: %+v", uid, u)
			}
			return u
		}
		if u := kill("a", nil); u.Pod == nil || u.Pod != r.Remembered("a") {
			t.Errorf("remembered: %+v", u)
		}
		grace = 30
		if u := kill("b", nil); u.Pod == nil {
			t.Errorf("it was stopping before: %+v", u)
		}
		grace = 10
		desired := newPod("new")
		if u := kill("new", desired); u.Pod != desired || r.Remembered("new") != nil {
			t.Errorf("without a record: %+v", u)
		}
		for _, uid := range []types.UID{"c", "unknown"} {
			if u := kill(uid, nil); u.Pod != nil || r.Remembered(uid) != nil {
				t.Errorf("%s: %+v", uid, u)
			}
		}
		for _, uid := range []types.UID{"a", "new"} {
			if !r.journal.Handed(uid) || r.journal.Delivered(uid) {
				t.Errorf("%s counts as delivered", uid)
			}
		}
		r.journal.Desired(newPod("a"))
		if !r.journal.Delivered("a") {
			t.Error("a was delivered")
		}
	})
}

// status.md 9.2: when records are loaded just as the engine ends, what is left is still written.
func TestRestIsWrittenWhenTheEngineEndsAtOnce(t *testing.T) {
	for range 50 {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, newDisk())
			if err := r.Load(t.Context()); err != nil {
				t.Fatal(err)
			}
			r.journal.Desired(newPod("a"))
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			if err := r.KeepRecords(ctx); err != nil || r.disk.get("a") == nil {
				t.Fatalf("%v; the record is not written", err)
			}
		})
	}
}

// TestRecordOfAnotherBoot: status.md 9.7. It becomes one of this boot, says no longer that something is ready, and keeps its age.
func TestRecordOfAnotherBoot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		written := time.Now().Add(-time.Hour).UTC()
		lately := func(r *checkpoint.Record) { r.WrittenAt = written }
		ready := newRecord("a", otherBoot, phase(v1.PodRunning), lately)
		ready.Status.Conditions = []v1.PodCondition{{Type: v1.PodReady, Status: v1.ConditionTrue}}
		d := newDisk(ready, newRecord("b", otherBoot, phase(v1.PodRunning), lately))
		r := newRig(t, d).keep()
		pass(time.Minute)
		a := d.get("a")
		if a.Status.Conditions[0].Status != v1.ConditionFalse || ready.Status.Conditions[0].Status != v1.ConditionTrue {
			t.Errorf("ready before: %+v", a)
		}
		for _, record := range []*checkpoint.Record{a, d.get("b")} {
			if record.BootID != "boot-1" || !record.WrittenAt.Equal(written) {
				t.Errorf("%s: of %s, written at %s", record.UID, record.BootID, record.WrittenAt)
			}
		}
		r.journal.Acknowledged("b", "sink", "b", 1)
		if b := r.journal.Get("b"); b.WrittenAt.Equal(written) {
			t.Errorf("a change of this boot keeps the age: %+v", b)
		}
	})
}

// TestReadyOfAnotherBootEndsAfterItBegan: status.md 9.6, 9.7. An API that still shows a pod as ready since a time that the clock of
// this boot has not reached is not newer than the record, which says that it is not ready.
func TestReadyOfAnotherBootEndsAfterItBegan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		now := time.Now()
		later := now.Add(time.Hour)
		ready := newRecord("a", otherBoot, phase(v1.PodRunning))
		ready.Status.Conditions = []v1.PodCondition{
			{Type: v1.PodReady, Status: v1.ConditionTrue, LastTransitionTime: metav1.NewTime(later)},
			{Type: v1.ContainersReady, Status: v1.ConditionTrue, LastTransitionTime: metav1.NewTime(now.Add(-time.Hour))},
		}
		d := newDisk(ready)
		newRig(t, d).keep()
		pass(time.Minute)
		for i, want := range []time.Time{later, now} {
			if c := d.get("a").Status.Conditions[i]; c.Status != v1.ConditionFalse || !c.LastTransitionTime.Time.Equal(want) {
				t.Errorf("%+v, want it to be False since %s", c, want)
			}
		}
	})
}
