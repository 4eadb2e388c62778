package recovery

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/podwright/podwright/internal/podinfo"
	"github.com/podwright/podwright/podworkers"
	"github.com/podwright/podwright/runtime"
	"github.com/podwright/podwright/status/checkpoint"
	"github.com/podwright/podwright/syncloop/admission"
)

func TestDesiredPodIsWrittenWhenItChanges(t *testing.T) { // CK1, CK5
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, newDisk()).keep()
		pod := newPod("a", hasFailed)
		if !r.journal.Desired(pod) || r.journal.Desired(pod) || r.journal.Desired(newPod("a")) {
			t.Error("a pod is new once")
		}
		pass(time.Minute)
		record := r.disk.get("a")
		if record == nil || record.Admission == nil || record.Source != "file" || record.ConfigHash != "h" || record.Pod.Status.Phase != "" {
			t.Fatalf("record: %+v", record)
		}
		r.journal.Desired(newPod("a"))
		r.journal.Desired(newPod("a", func(p *v1.Pod) { p.Annotations[podinfo.AnnotationSeen] = "later" })) // as each process says
		pass(time.Minute)
		if r.disk.get("a") != record {
			t.Error("an unchanged pod was written again")
		}
		r.journal.noteUnwanted("file", nil, false)
		pass(time.Minute)
		if !r.disk.get("a").Unwanted {
			t.Error("it is not known that the pod is unwanted")
		}
		r.journal.Desired(newPod("a"))
		pass(time.Minute)
		if r.disk.get("a").Unwanted {
			t.Error("a pod that is desired again is unwanted")
		}
		r.journal.Delete("a")
		pass(time.Minute)
		if r.disk.get("a") != nil || r.journal.Handed("a") || r.journal.Get("a") != nil {
			t.Error("the pod was not forgotten")
		}
	})
}

func TestRecordWaitsForTheDisk(t *testing.T) { // CK5, CK6
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, newDisk()).keep()
		r.journal.Desired(newPod("a"))
		if err := r.journal.Record(t.Context(), "a", podworkers.Facts{Started: true}); err != nil || r.disk.get("a") == nil {
			t.Errorf("a disk that works: %v", err)
		}
		r.disk.fail(nil, errDisk)
		r.journal.Desired(newPod("b"))
		if err := r.journal.Record(t.Context(), "b", podworkers.Facts{Started: true}); !errors.Is(err, errDisk) {
			t.Errorf("a disk that is full: %v", err)
		}
		if err := r.journal.Problem("b"); !errors.Is(err, errDisk) {
			t.Errorf("problem: %v", err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := r.journal.Record(ctx, "b", podworkers.Facts{Started: true, Terminated: true}); err == nil {
			t.Error("a cancelled call succeeded")
		}
		r.disk.fail(nil, nil)
		pass(2 * time.Minute)
		if want := []types.UID{"b"}; !slices.Equal(r.waiting, want) {
			t.Errorf("workers that go on: %v, want %v, once", r.waiting, want)
		}
	})
}

func TestCriticalStaticPodStartsWithoutACheckpoint(t *testing.T) { // CK8
	critical := func(p *v1.Pod) { p.Spec.PriorityClassName = "system-node-critical" }
	for name, tc := range map[string]struct {
		pod   *v1.Pod
		facts podworkers.Facts
		ok    bool
	}{
		"critical and static":    {newPod("a", critical), podworkers.Facts{Started: true}, true},
		"critical":               {newPod("a", critical, fromAPI), podworkers.Facts{Started: true}, false},
		"static":                 {newPod("a"), podworkers.Facts{Started: true}, false},
		"critical, to be killed": {newPod("a", critical), podworkers.Facts{TerminationRequested: true}, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, newDisk()).keep()
				r.disk.fail(nil, errDisk)
				r.journal.Desired(tc.pod)
				if err := r.journal.Record(t.Context(), "a", tc.facts); (err == nil) != tc.ok {
					t.Errorf("record: %v", err)
				}
			})
		})
	}
}

func TestTerminationWaitsAMinuteForTheDisk(t *testing.T) { // CK8
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, newDisk()).keep()
		r.disk.fail(nil, errDisk)
		r.journal.Desired(newPod("a"))
		facts := podworkers.Facts{TerminationRequested: true, Deleted: true}
		begin := time.Now()
		for r.journal.Record(t.Context(), "a", facts) != nil {
			pass(time.Second)
		}
		if took := time.Since(begin); took < causeTimeout || took > 2*causeTimeout+time.Minute {
			t.Errorf("the pod is stopped after %v", took)
		}
		facts.Terminated = true
		if r.journal.Record(t.Context(), "a", facts) == nil {
			t.Error("the end of the pod need not be written")
		}
		if r.journal.requestedFor("unknown") != 0 {
			t.Error("an unknown pod was asked to stop")
		}
	})
}

// TestWhatFreesSpaceWaitsForNoRecord: IN4: on a full disk a pod is stopped, released and removed at
// once. What uses space still waits, and all records are written once there is room.
func TestWhatFreesSpaceWaitsForNoRecord(t *testing.T) {
	for _, full := range []error{syscall.ENOSPC, syscall.EDQUOT} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, newDisk()).keep()
			r.journal.Desired(newPod("a"))
			r.disk.fail(nil, fmt.Errorf("write: %w", full))
			id := runtime.ContainerID{Runtime: "fake", ID: "1"}
			r.ends[id] = &runtime.ContainerStatus{ID: id, State: runtime.Exited, ExitCode: 7}
			begin := time.Now()
			for _, facts := range []podworkers.Facts{
				{TerminationRequested: true}, {TerminationRequested: true, Terminated: true}, {TerminationRequested: true, Terminated: true, Finished: true},
			} {
				if err := r.journal.Record(t.Context(), "a", facts); err != nil {
					t.Errorf("%+v: %v", facts, err)
				}
			}
			if err := r.journal.BeforeRemove(t.Context(), "a", "main", id); err != nil {
				t.Error(err)
			}
			if err := r.journal.Record(t.Context(), "b", podworkers.Facts{Started: true}); !errors.Is(err, full) {
				t.Errorf("a pod is set up without a record: %v", err)
			}
			if took := time.Since(begin); took > 0 {
				t.Errorf("it took %v", took)
			}
			r.disk.fail(nil, nil)
			pass(2 * time.Minute)
			written := r.disk.get("a")
			if end, ok := written.EndOf("main", id.String()); !ok || end.ExitCode != 7 || !written.Finished || written.Termination == nil {
				t.Errorf("%+v", written)
			}
		})
	}
}

func TestStatusIsDurableOnceItIsOnTheDisk(t *testing.T) { // status.md 9
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, newDisk()).keep()
		j, pod := r.journal, newPod("a")
		if !j.Durable("a", true) {
			t.Error("a pod without a record waits for something")
		}
		r.disk.fail(nil, errDisk)
		j.Desired(pod)
		j.Changed(pod, &v1.PodStatus{Phase: v1.PodFailed}, 3, false)
		pass(time.Second)
		if j.Durable("a", false) {
			t.Error("durable before it was written")
		}
		r.disk.fail(nil, nil)
		pass(time.Minute)
		if !j.Durable("a", false) || j.Durable("a", true) {
			t.Error("the phase is on the disk, the end of the pod is not")
		}
		if record := j.Get("a"); record.Termination == nil || record.Termination.Cause != checkpoint.CauseTerminal || record.Version != 3 {
			t.Errorf("record: %+v", record)
		}
		if j.AcknowledgedBy("a", []string{"s"}) || j.AcknowledgedBy("unknown", nil) {
			t.Error("a sink has a status that it was not given")
		}
		j.Acknowledged("a", "s", "t", 3)
		acked := j.Get("a")
		j.Acknowledged("a", "s", "t", 3)
		if !j.AcknowledgedBy("a", []string{"s"}) || j.AcknowledgedBy("a", []string{"s", "other"}) || j.Get("a") != acked {
			t.Error("acknowledgement")
		}
		j.Changed(pod, &v1.PodStatus{Phase: v1.PodFailed}, 4, true)
		pass(time.Minute)
		if !j.Durable("a", true) || j.AcknowledgedBy("a", []string{"s"}) {
			t.Error("the end of the pod is on the disk, and no sink has it")
		}
		j.Drained("a", true)
		if j.Get("a") == nil {
			t.Error("a drain forgets a pod that had ended by itself")
		}
	})
}

func TestContainerThatMustNotRunTwiceStartsAfterTheWrite(t *testing.T) { // CK5, HI8
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, newDisk()).keep()
		j := r.journal
		if err := j.Starting(t.Context(), "unknown"); err != nil {
			t.Error(err)
		}
		once, many := newPod("once", runOnce), newPod("many")
		j.Desired(once)
		j.Desired(many)
		if err := j.Starting(t.Context(), "once"); err != nil || r.disk.get("once").StartedAt.IsZero() {
			t.Errorf("the start is not on the disk: %v", err)
		}
		r.disk.fail(nil, errDisk)
		if err := j.Starting(t.Context(), "many"); err != nil {
			t.Errorf("a container that may run twice waits for the disk: %v", err)
		}
		j.Desired(newPod("later", runOnce))
		if err := j.Starting(t.Context(), "later"); !errors.Is(err, errDisk) {
			t.Errorf("a container that must not run twice starts: %v", err)
		}

		empty, old := &runtime.PodStatus{}, &v1.PodStatus{Phase: v1.PodRunning}
		for name, got := range map[string]*v1.PodStatus{
			"not readable": j.Previous(once, nil, old), "something is left": j.Previous(once, view("once", runtime.Exited), old),
			"may run twice": j.Previous(many, empty, old), "never started": j.Previous(newPod("no", runOnce), empty, old),
		} {
			if got != old {
				t.Errorf("%s: %+v", name, got)
			}
		}
		for _, before := range []*v1.PodStatus{old, nil} {
			lost := j.Previous(once, empty, before)
			if len(lost.ContainerStatuses) != 1 || lost.ContainerStatuses[0].State.Terminated == nil || lost.ContainerStatuses[0].State.Terminated.ExitCode != 137 {
				t.Errorf("lost containers: %+v", lost)
			}
		}
	})
}

// TestUntoldEndIsNoGuess: spec/status.md 9.4: a container that ended and was removed between two
// looks is not said to be lost. An aborted start has no end (HI8).
func TestUntoldEndIsNoGuess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, newDisk()).keep()
		pod := newPod("a")
		r.journal.Desired(pod)
		id := runtime.ContainerID{Runtime: "fake", ID: "1"}
		shown := &v1.PodStatus{Phase: v1.PodRunning, ContainerStatuses: []v1.ContainerStatus{{
			Name: "main", ContainerID: id.String(), State: v1.ContainerState{Running: &v1.ContainerStateRunning{}},
		}}}
		r.ends[id] = &runtime.ContainerStatus{
			ID: id, State: runtime.Exited, ExitCode: 128, Reason: "StartError",
			Message: "failed to create containerd task: context canceled",
		}
		if err := r.journal.BeforeRemove(t.Context(), "a", "main", id); err != nil {
			t.Fatal(err)
		}
		if got := r.journal.Previous(pod, view("a", runtime.Exited), shown); got != shown {
			t.Errorf("an aborted start: %+v", got.ContainerStatuses)
		}
		r.ends[id] = &runtime.ContainerStatus{ID: id, State: runtime.Exited, ExitCode: 3}
		if err := r.journal.BeforeRemove(t.Context(), "a", "main", id); err != nil {
			t.Fatal(err)
		}
		got := r.journal.Previous(pod, view("a", runtime.Exited), shown).ContainerStatuses[0]
		if got.State.Terminated == nil || got.State.Terminated.ExitCode != 3 {
			t.Errorf("%+v", got.State)
		}
		always := v1.ContainerRestartPolicyAlways
		pod.Spec.Containers[0].RestartPolicy = &always
		pod.Spec.Containers[0].RestartPolicyRules = []v1.ContainerRestartRule{{Action: v1.ContainerRestartRuleActionRestartAllContainers}}
		if got := r.journal.Previous(pod, view("a", runtime.Exited), shown); got != shown {
			t.Errorf("where a reset removes containers: %+v", got.ContainerStatuses)
		}
	})
}

func TestEndIsOnTheDiskBeforeTheContainerIsRemoved(t *testing.T) { // CK3
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, newDisk()).keep()
		j := r.journal
		id := func(n string) runtime.ContainerID { return runtime.ContainerID{Runtime: "fake", ID: n} }
		exited := func(n string, code int32, count int) {
			r.ends[id(n)] = &runtime.ContainerStatus{ID: id(n), State: runtime.Exited, ExitCode: code, RestartCount: count, FinishedAt: time.Now()}
		}
		remove := func(n string) error { return j.BeforeRemove(t.Context(), "a", "main", id(n)) }
		if remove("1") == nil {
			t.Error("a container of which nothing is known may go")
		}
		r.ends[id("gone")], r.ends[id("up")] = nil, &runtime.ContainerStatus{State: runtime.Running}
		if err := errors.Join(remove("gone"), remove("up")); err != nil {
			t.Error(err)
		}
		exited("1", 7, 0)
		if err := remove("1"); err != nil || r.disk.get("a") != nil {
			t.Errorf("something is remembered of a pod that was never desired: %v", err)
		}
		j.Desired(newPod("a"))
		if err := remove("1"); err != nil {
			t.Fatal(err)
		}
		written := r.disk.get("a")
		if end, ok := written.EndOf("main", id("1").String()); !ok || end.ExitCode != 7 {
			t.Fatalf("the end is not on the disk: %+v", written)
		}
		r.disk.fail(nil, errDisk)
		if err := remove("1"); err != nil {
			t.Errorf("an end that is on the disk is written again: %v", err)
		}
		exited("2", 8, 1)
		if err := remove("2"); !errors.Is(err, errDisk) {
			t.Errorf("a container may go though its end is not written: %v", err)
		}
		r.disk.fail(nil, nil)
		exited("3", 9, 2)
		if err := errors.Join(remove("2"), remove("3")); err != nil {
			t.Fatal(err)
		}
		exited("0", 1, -1)
		before := r.disk.get("a")
		if err := remove("0"); err != nil || r.disk.get("a") != before {
			t.Errorf("an end older than the newest two is written: %v", err)
		}
		if c, _ := before.Container("main"); c.RestartCount != 2 || len(c.Ends) != 2 {
			t.Errorf("container: %+v", c)
		}
	})
}

func TestVerdictSurvivesTheAgent(t *testing.T) { // AD5
	synctest.Test(t, func(t *testing.T) {
		d := newDisk()
		down := false
		r := newRig(t, d)
		memory := r.Verdicts(func() bool { return down })
		if _, _, err := memory.Verdict(newPod("a")); !errors.Is(err, ErrNotLoaded) {
			t.Errorf("before the records are loaded: %v", err)
		}
		r.keep()
		for uid, v := range map[types.UID]admission.Verdict{
			"ok": {}, "no": admission.Refuse("OutOfcpu", "taken"), "down": admission.Refuse(admission.ReasonShutdown, "the node stops"),
		} {
			if err := memory.Remember(newPod(uid), v); err != nil {
				t.Fatal(err)
			}
		}
		if err := memory.Remember(newPod("api", fromAPI), admission.Refuse(admission.ReasonShutdown, "the node stops")); err != nil {
			t.Fatal(err)
		}
		pass(time.Minute)

		memory = newRig(t, d).keep().Verdicts(func() bool { return down })
		check := func(uid types.UID, known bool, reason string) {
			t.Helper()
			pod := newPod(uid)
			if uid == "api" {
				fromAPI(pod)
			}
			if v, k, err := memory.Verdict(pod); k != known || v.Reason != reason || err != nil {
				t.Errorf("%s: %t %+v %v", uid, k, v, err)
			}
		}
		check("unknown", false, "")
		if _, known, err := memory.Verdict(newPod("ok", fromAPI)); known || err != nil {
			t.Errorf("the verdict on a pod of another source counts: %v", err)
		}
		check("ok", true, "")
		check("no", true, "OutOfcpu")
		check("down", false, "") // the node is back
		check("api", true, admission.ReasonShutdown)
		down = true
		check("down", true, admission.ReasonShutdown)
		if r.journal.Refused("ok") || !r.journal.Refused("no") || r.journal.Refused("unknown") {
			t.Error("refused pods")
		}
	})
}

func TestVerdictOnAnEarlierLife(t *testing.T) { // AD5, IN10
	synctest.Test(t, func(t *testing.T) {
		d := newDisk(newRecord("done", finished), newRecord("runs"), newRecord("retired", phase(v1.PodSucceeded), finished, retired))
		for _, r := range d.records {
			r.Admission = &checkpoint.Admission{}
		}
		r := newRig(t, d).keep()
		memory := r.Verdicts(func() bool { return false })
		for uid, known := range map[types.UID]bool{"done": false, "runs": true, "retired": false} {
			if _, got, err := memory.Verdict(newPod(uid)); got != known || err != nil {
				t.Errorf("%s: known %t, %v", uid, got, err)
			}
		}
		for _, uid := range []types.UID{"done", "retired"} {
			if err := memory.Remember(newPod(uid), admission.Refuse("OutOfcpu", "full")); err != nil {
				t.Fatal(err)
			}
			if now := r.journal.Get(uid); now.Lives != 1 || now.Finished || now.Retired || !now.Admission.Refused {
				t.Errorf("the verdict has begun no life: %+v", now)
			}
			if v, known, err := memory.Verdict(newPod(uid)); !known || v.Reason != "OutOfcpu" || err != nil {
				t.Errorf("%s: %t %+v %v", uid, known, v, err)
			}
		}
	})
}

// TestAdmittedLifeGoesOn (AD5, PS4): an admitted pod continues unless its life is over or its source gave it up.
func TestAdmittedLifeGoesOn(t *testing.T) {
	refused := func(r *checkpoint.Record) { r.Admission = &checkpoint.Admission{Refused: true} }
	removed := stopping(checkpoint.Termination{Cause: checkpoint.CauseDeleted, Deleted: true})
	for name, test := range map[string]struct {
		record *checkpoint.Record
		want   bool
	}{
		"admitted":            {newRecord("a", admitted), true},
		"ended":               {newRecord("a", admitted, phase(v1.PodSucceeded), finished), true},
		"unknown":             {newRecord("b", admitted), false},
		"refused":             {newRecord("a", refused), false},
		"not judged":          {newRecord("a"), false},
		"over":                {newRecord("a", admitted, retired), false},
		"removed":             {newRecord("a", admitted, removed, finished), false},
		"still being removed": {newRecord("a", admitted, removed), false},
		"of another source":   {newRecord("a", admitted, func(r *checkpoint.Record) { r.Source = "api" }), false},
		"judged again":        {newRecord("a", admitted, renewed), true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, newDisk(test.record)).keep()
				if got := r.journal.Continues(newPod("a")); got != test.want {
					t.Errorf("goes on: %t", got)
				}
			})
		})
	}
}

func TestNewLifeOfAUIDDoesNotCountWhatIsLeft(t *testing.T) { // S5
	synctest.Test(t, func(t *testing.T) {
		onFailure := func(p *v1.Pod) { p.Spec.RestartPolicy = v1.RestartPolicyOnFailure }
		r := newRig(t, newDisk(newRecord("a", finished), newRecord("always", finished))).keep()
		j := r.journal
		id := runtime.ContainerID{Runtime: "fake", ID: "1"}
		r.ends[id] = &runtime.ContainerStatus{ID: id, State: runtime.Exited, ExitCode: 143}
		j.Renew("a")
		j.Renew("always")
		if record := j.Get("a"); record.Finished || record.Admission != nil || record.Pod == nil || record.WrittenAt.IsZero() || j.Handed("a") {
			t.Errorf("the record of the new life: %+v", record)
		}
		j.Desired(newPod("a", onFailure))
		j.Desired(newPod("always"))
		j.Desired(newPod("first", runOnce))
		for uid, want := range map[types.UID]bool{"a": true, "always": false, "first": false, "unknown": false} {
			if j.EarlierLife(uid) != want {
				t.Errorf("%s: an earlier life counts as left: %t, want %t", uid, !want, want)
			}
		}
		if err := j.BeforeRemove(t.Context(), "a", "main", id); err != nil || len(j.Get("a").Containers) > 0 {
			t.Errorf("the end of the earlier life is remembered: %v, %+v", err, j.Get("a").Containers)
		}
		if err := j.EarlierLifeGone(t.Context(), "a"); err != nil || j.EarlierLife("a") || r.disk.get("a").EarlierLife {
			t.Errorf("it is not on the disk that the earlier life is gone: %v", err)
		}
		j.Renew("a")
		j.Desired(newPod("a", runOnce))
		pass(time.Minute)
		if again := newRig(t, r.disk).keep(); !again.journal.EarlierLife("a") {
			t.Error("the next agent does not know of the earlier life")
		}
		r.disk.fail(nil, errDisk)
		if err := j.EarlierLifeGone(t.Context(), "a"); !errors.Is(err, errDisk) {
			t.Errorf("a disk that is full: %v", err)
		}
	})
}

// 9.11: the end of an earlier life on the disk does not stand for that of the present one.
func TestEarlierEndIsNotDurableForTheNextLife(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, newDisk(newRecord("a", phase(v1.PodFailed), finished))).keep()
		if !r.journal.Durable("a", true) {
			t.Error("what was read from the disk is not on it")
		}
		r.disk.fail(nil, errDisk)
		r.journal.Renew("a")
		r.journal.Changed(newPod("a"), &v1.PodStatus{Phase: v1.PodFailed}, 1, true)
		if r.journal.Durable("a", false) || r.journal.Durable("a", true) {
			t.Error("the end of the new life is not on the disk")
		}
		r.disk.fail(nil, nil)
		pass(time.Hour)
		if !r.journal.Durable("a", true) {
			t.Error("the end of the new life is on the disk")
		}
	})
}

// IN10: an acknowledgement that comes while a new life begins is one of the earlier life, and does
// not get into the new record.
func TestLateAcknowledgementIsOfTheEarlierLife(t *testing.T) {
	for name, renew := range map[string]func(r *rig){
		"its first update": func(r *rig) { r.Complete(podworkers.UpdateOptions{Type: podworkers.Create, Pod: newPod("a")}) },
		"its source":       func(r *rig) { r.journal.renewRetired("file", []*v1.Pod{newPod("a")}) },
		"housekeeping": func(r *rig) {
			NewPruner(PrunerOptions{
				Journal: r.journal, Desired: pods{"a": nil}, Workers: workers{"a": true}, Undecided: func() error { return nil }, View: r.Get,
				Forget: func(map[types.UID]struct{}) { r.forgets("a") }, Untold: func(types.UID) bool { return false }, Clock: clock.RealClock{},
			}).RemoveOrphanedStatuses(nil)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, newDisk(newRecord("a", phase(v1.PodFailed), finished, retired))).keep()
				r.forgets = func(uid types.UID) { r.journal.Acknowledged(uid, "s", uid, 37) }
				renew(r)
				if record := r.journal.Get("a"); record.Lives != 1 || len(record.Acks) != 0 {
					t.Errorf("life %d, acknowledged %+v", record.Lives, record.Acks)
				}
			})
		})
	}
}

// CK8: a clock that was set back in a restart makes no pod wait longer for a disk that fails: what
// asks it to stop is on the disk.
func TestClockSetBackDelaysNoTermination(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		later := stopping(checkpoint.Termination{RequestedAt: time.Now().Add(time.Hour), Deleted: true, Cause: checkpoint.CauseDeleted})
		r := newRig(t, newDisk(newRecord("a", later))).keep()
		r.journal.Desired(newPod("a"))
		r.disk.fail(nil, errDisk)
		if err := r.journal.Record(t.Context(), "a", podworkers.Facts{TerminationRequested: true, Deleted: true}); err != nil {
			t.Errorf("the pod is not stopped: %v", err)
		}
	})
}

// TestRefusedPodHoldsNothing: IN4. A pod that was refused before it began is not among those that may still hold something.
func TestRefusedPodHoldsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stops := stopping(checkpoint.Termination{})
		refused := func(r *checkpoint.Record) { r.Admission = &checkpoint.Admission{Refused: true} }
		r := newRig(t, newDisk(
			newRecord("stopping", admitted, stops), newRecord("never judged", stops), newRecord("refused", refused, stops),
			newRecord("refused later", refused, stops, begun), newRecord("over", admitted, stops, finished),
		)).keep()
		var ending []string
		for _, pod := range r.journal.Ending() {
			ending = append(ending, string(pod.UID))
		}
		if slices.Sort(ending); !slices.Equal(ending, []string{"never judged", "refused later", "stopping"}) {
			t.Errorf("%q", ending)
		}
	})
}
