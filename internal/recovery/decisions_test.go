package recovery

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/podwright/podwright/podworkers"
	"github.com/podwright/podwright/status/checkpoint"
	"github.com/podwright/podwright/syncloop/admission"
	"github.com/podwright/podwright/syncloop/shutdown"
)

func TestCompareSortsRecordsByWhatRuns(t *testing.T) { // CK9
	const runs, listed, gone = "runs", "listed", "gone"
	for _, tc := range []struct {
		name   string
		record *checkpoint.Record
		in     string
		want   string
	}{
		{"finished", newRecord("a", finished), runs, "ended"},
		{"terminal, nothing runs", newRecord("a", phase(v1.PodFailed)), listed, "ended"},
		{"terminal, something runs", newRecord("a", phase(v1.PodFailed)), runs, "resumed"},
		{"terminal and told to stop, something runs", newRecord("a", phase(v1.PodFailed), stopping(checkpoint.Termination{})), runs, "stopping"},
		{"told to stop", newRecord("a", stopping(checkpoint.Termination{})), gone, "stopping"},
		{"started, runs", newRecord("a", begun), runs, "resumed"},
		{"runs though no start is known", newRecord("a"), runs, "resumed"},
		{"started, nothing left", newRecord("a", begun), gone, "lost"},
		{"something is left", newRecord("a"), listed, "lost"},
		{"never started", newRecord("a"), gone, "waiting"},
	} {
		in := map[types.UID]bool{}
		if tc.in != gone {
			in["a"] = tc.in == runs
		}
		r := compare([]*checkpoint.Record{tc.record}, in)
		got := map[string][]types.UID{"resumed": r.Resumed, "ended": r.Ended, "stopping": r.Stopping, "lost": r.Lost, "waiting": r.Waiting, "unknown": r.Unknown}
		for list, uids := range got {
			if (len(uids) == 1) != (list == tc.want) {
				t.Errorf("%s: %s is %v, want it in %s", tc.name, list, uids, tc.want)
			}
		}
		if r.Records != 1 {
			t.Errorf("%s: %+v", tc.name, r)
		}
	}
	r := compare([]*checkpoint.Record{newRecord("z", begun), newRecord("a", begun)}, map[types.UID]bool{"y": true, "x": false})
	if !slices.Equal(r.Lost, []types.UID{"a", "z"}) || !slices.Equal(r.Unknown, []types.UID{"x", "y"}) {
		t.Errorf("%+v", r)
	}
	r.Rebooted, r.Bad = true, []checkpoint.Bad{{Trouble: "corrupt", Name: "f"}}
	if text := r.String(); !strings.Contains(text, "lost 2") || !strings.Contains(text, "the machine was restarted") || !strings.Contains(text, "f: corrupt") {
		t.Error(text)
	}
}

func TestRebootedNeedsTwoDifferentBoots(t *testing.T) {
	for _, tc := range []struct {
		record, now string
		want        bool
	}{{"a", "a", false}, {"a", "b", true}, {"", "b", false}, {"a", "", false}} {
		if got := rebooted(&checkpoint.Record{BootID: tc.record}, tc.now); got != tc.want {
			t.Errorf("record of boot %q, now %q: %t", tc.record, tc.now, got)
		}
	}
}

func TestContinuationOfPodWithARecord(t *testing.T) { // CK4, CK6
	now := time.Unix(1000, 0)
	ten := int64(10)
	term := checkpoint.Termination{RequestedAt: now.Add(-20 * time.Second), GracePeriodSeconds: 30}
	evicted, killed := term, term
	evicted.Evicted = true
	killed.Cause = checkpoint.CauseKilled
	shut := func(r *checkpoint.Record) {
		r.Status = &v1.PodStatus{Phase: v1.PodFailed, Reason: shutdown.Reason, Message: shutdown.Message}
	}
	refused := func(r *checkpoint.Record) {
		r.Status = &v1.PodStatus{Phase: v1.PodFailed, Reason: admission.ReasonShutdown}
	}
	failed := newRecord("a", phase(v1.PodFailed))
	for _, tc := range []struct {
		name   string
		pod    *v1.Pod
		record *checkpoint.Record
		want   continuation
	}{
		{"nothing special", newPod("a"), newRecord("a", phase(v1.PodRunning)), continuation{}},
		{"finished without an end of its own: it was removed and is back", newPod("a"), newRecord("a", finished), continuation{newLife: true}},
		{"finished, and its source still deletes it: no other life (RT2)", newPod("a", deleting), newRecord("a", finished), continuation{}},
		{"ended with its node, and its source deletes it (RT2)", newPod("a", deleting), newRecord("a", shut, finished), continuation{ended: newRecord("a", shut).Status}},
		{"ended and finished: it stays so", newPod("a"), newRecord("a", phase(v1.PodFailed), finished), continuation{ended: failed.Status}},
		{"ended: it stays so", newPod("a"), failed, continuation{ended: failed.Status}},
		{"ended, and its source knows", newPod("a", hasFailed), failed, continuation{}},
		{"ended because its source removed it, and is back", newPod("a"), newRecord("a", phase(v1.PodFailed), finished, stopping(killed)), continuation{newLife: true}},
		{"pod of an API that was killed and has ended", newPod("a", fromAPI), newRecord("a", phase(v1.PodFailed), finished, stopping(killed)), continuation{ended: failed.Status}},
		{
			"ended because it was evicted: nothing of it is kept", newPod("a"), newRecord("a", phase(v1.PodFailed), finished, stopping(evicted)),
			continuation{ended: failed.Status, kill: &podworkers.KillOptions{Evict: true, GracePeriodSeconds: &ten}},
		},
		{
			"it ends because its source removed it, and is back", newPod("a"), newRecord("a", phase(v1.PodFailed), stopping(killed)),
			continuation{ended: failed.Status, kill: &podworkers.KillOptions{GracePeriodSeconds: &ten}, again: true},
		},
		{"static pod that ended with its node", newPod("a"), newRecord("a", shut, finished), continuation{newLife: true}},
		{
			"static pod that was ending with its node: that end comes first", newPod("a"), newRecord("a", shut, begun, stopping(killed)),
			continuation{ended: newRecord("a", shut).Status, kill: &podworkers.KillOptions{GracePeriodSeconds: &ten}, began: true, again: true},
		},
		{
			"static pod that had failed, and was ending with its node", newPod("a"), newRecord("a", shut, begun, stopping(term)),
			continuation{ended: newRecord("a", shut).Status, kill: &podworkers.KillOptions{GracePeriodSeconds: &ten}, began: true, again: true},
		},
		{
			"evicted static pod that was ending with its node", newPod("a"), newRecord("a", shut, stopping(evicted)),
			continuation{ended: newRecord("a", shut).Status, kill: &podworkers.KillOptions{Evict: true, GracePeriodSeconds: &ten}, again: true},
		},
		{
			"pod that was ending with its node, and its source deletes it (RT2)", newPod("a", deleting), newRecord("a", shut, stopping(killed)),
			continuation{ended: newRecord("a", shut).Status, kill: &podworkers.KillOptions{GracePeriodSeconds: &ten}},
		},
		{"pod of an API that ended with its node", newPod("a", fromAPI), newRecord("a", shut, finished), continuation{ended: newRecord("a", shut).Status}},
		{"static pod that was refused because its node stopped", newPod("a"), newRecord("a", refused), continuation{newLife: true}},
		{
			"it had to stop: what is left of its grace counts, then it starts again", newPod("a"), newRecord("a", stopping(term)),
			continuation{kill: &podworkers.KillOptions{GracePeriodSeconds: &ten}, again: true},
		},
		{
			"it had to stop, and its source deletes it", newPod("a", deleting), newRecord("a", stopping(term)),
			continuation{kill: &podworkers.KillOptions{GracePeriodSeconds: &ten}},
		},
		{
			"pod of an API that had to stop", newPod("a", fromAPI), newRecord("a", stopping(term)),
			continuation{kill: &podworkers.KillOptions{GracePeriodSeconds: &ten}},
		},
		{
			"evicted", newPod("a"), newRecord("a", stopping(evicted)),
			continuation{kill: &podworkers.KillOptions{Evict: true, GracePeriodSeconds: &ten}},
		},
		{
			"ended, and something of it was to be stopped", newPod("a"), newRecord("a", phase(v1.PodFailed), stopping(checkpoint.Termination{})),
			continuation{ended: failed.Status, kill: &podworkers.KillOptions{}},
		},
	} {
		got := continuationOf(tc.pod, tc.record, now)
		if !reflect.DeepEqual(got, tc.want) {
			t.Errorf("%s: %+v, want %+v", tc.name, got, tc.want)
		}
	}
}

func TestContinuationIsAppliedToTheUpdate(t *testing.T) {
	pod := newPod("a")
	ended := &v1.PodStatus{Phase: v1.PodFailed}
	kill := &podworkers.KillOptions{Evict: true}
	update := podworkers.UpdateOptions{Type: podworkers.Update, Pod: pod}
	if got := (continuation{ended: ended}).complete(update); len(got) != 1 || got[0].Pod.Status.Phase != v1.PodFailed || pod.Status.Phase != "" {
		t.Errorf("ended: %+v", got)
	}
	if got := (continuation{kill: kill}).complete(update); len(got) != 1 || got[0].Type != podworkers.Kill || got[0].Kill != kill {
		t.Errorf("kill: %+v", got)
	}
	if got := (continuation{kill: kill, again: true}).complete(update); len(got) != 2 || got[0].Type != podworkers.Kill ||
		got[1].Type != podworkers.Create || got[1].Kill != nil {
		t.Errorf("again: %+v", got)
	}
}

// TestFirstKillUsesRestOfGrace: IN7. A kill that is the first that a worker hears of a pod
// has no more than what is left of the pod's grace, and adds up with what was decided before.
func TestFirstKillUsesRestOfGrace(t *testing.T) {
	seconds := func(n int64) *podworkers.KillOptions { return &podworkers.KillOptions{GracePeriodSeconds: &n} }
	evicted := seconds(20)
	evicted.Evict = true
	for _, tc := range []struct {
		name              string
		asked, remembered *podworkers.KillOptions
		grace             int64 // 0: the pod's own
		evict             bool
	}{
		{"no opinion", nil, seconds(20), 20, false},
		{"no grace of its own", &podworkers.KillOptions{}, evicted, 20, true},
		{"a longer one", seconds(60), seconds(20), 20, false},
		{"a shorter one", seconds(5), evicted, 5, true},
		{"nothing is remembered", seconds(5), &podworkers.KillOptions{}, 5, false},
		{"neither says anything", nil, &podworkers.KillOptions{}, 0, false},
	} {
		update := podworkers.UpdateOptions{Type: podworkers.Kill, Pod: newPod("a"), Kill: tc.asked}
		got := (continuation{kill: tc.remembered, again: true}).complete(update)
		if len(got) != 1 || got[0].Type != podworkers.Kill {
			t.Fatalf("%s: %+v", tc.name, got)
		}
		if k := got[0].Kill; ptr.Deref(k.GracePeriodSeconds, 0) != tc.grace || k.Evict != tc.evict {
			t.Errorf("%s: %+v", tc.name, k)
		}
	}
}

// TestKillOfRememberedPodHasItsOwnGrace: IN7. One function says how a remembered pod is killed.
func TestKillOfRememberedPodHasItsOwnGrace(t *testing.T) {
	now := time.Unix(1000, 0)
	at := func(grace int64, ago time.Duration) *checkpoint.Termination {
		return &checkpoint.Termination{RequestedAt: now.Add(-ago), GracePeriodSeconds: grace}
	}
	for _, tc := range []struct {
		name        string
		termination *checkpoint.Termination
		want        int64 // 0: the spec's
	}{
		{"it need not stop", nil, 0},
		{"its grace is not known", at(0, time.Hour), 0},
		{"it has just been told", at(60, 0), 60},
		{"it has been stopping", at(60, 45*time.Second), 15},
		{"its time is over", at(60, time.Hour), 1},
	} {
		if got := killOf(&checkpoint.Record{Termination: tc.termination}, now); ptr.Deref(got.GracePeriodSeconds, 0) != tc.want {
			t.Errorf("%s: %+v, want %d s", tc.name, got, tc.want)
		}
	}
}

func TestFateOfRecord(t *testing.T) { // CK7, HI7, status.md 7.10
	gone := situation{readable: true, acknowledged: true}
	with := func(edit func(*situation)) situation { s := gone; edit(&s); return s }
	terminal := func(more ...func(*checkpoint.Record)) *checkpoint.Record {
		return newRecord("a", append(more, phase(v1.PodFailed))...)
	}
	keep, tell, remove, retire := fate{known: true}, fate{known: true, tellEnd: true}, fate{remove: true}, fate{known: true, retire: true}
	api := func(r *checkpoint.Record) { fromAPI(r.Pod) }
	for _, tc := range []struct {
		name   string
		record *checkpoint.Record
		s      situation
		want   fate
	}{
		{"desired", newRecord("a"), with(func(s *situation) { s.inSnapshot = true }), keep},
		{"desired, over, and its worker did not tell", terminal(), with(func(s *situation) { s.inSnapshot, s.hasWorker, s.workerFinished = true, true, true }), tell},
		{"the same, but the runtime does not answer", terminal(), with(func(s *situation) { s.inSnapshot, s.hasWorker, s.workerFinished, s.readable = true, true, true, false }), keep},
		{"the same, but it runs", terminal(), with(func(s *situation) { s.inSnapshot, s.hasWorker, s.workerFinished, s.runs = true, true, true, true }), keep},
		{"the same, and told", terminal(finished), with(func(s *situation) { s.inSnapshot, s.hasWorker, s.workerFinished = true, true, true }), keep},
		{"it came since the pass began", newRecord("a"), with(func(s *situation) { s.desired = true }), keep},
		{"it has a worker", newRecord("a"), with(func(s *situation) { s.hasWorker, s.handed = true, true }), keep},
		{"a new life is about to begin", newRecord("a", finished), with(func(s *situation) { s.desired, s.handed = true, true }), fate{newLife: true}},
		{
			"a new life is about to begin after an end that no agent saw", newRecord("a", phase(v1.PodFailed), stopping(checkpoint.Termination{})),
			with(func(s *situation) { s.desired, s.handed = true, true }),
			fate{newLife: true},
		},
		{
			"its worker is gone, and something of it runs", newRecord("a", stopping(checkpoint.Termination{})),
			with(func(s *situation) { s.desired, s.handed, s.runs = true, true, true }), keep,
		},
		{"no worker has had it", newRecord("a"), with(func(s *situation) { s.desired, s.handed = true, true }), keep},
		{"the runtime does not answer", newRecord("a", finished), with(func(s *situation) { s.handed, s.readable = true, false }), keep},
		{"a source may want it", newRecord("a", finished), with(func(s *situation) { s.undecided = true }), keep},
		{"sources are undecided, but this process had it", newRecord("a", finished), with(func(s *situation) { s.undecided, s.handed = true, true }), remove},
		{"it runs", newRecord("a"), with(func(s *situation) { s.handed, s.runs = true, true }), keep},
		{"it ended unseen", newRecord("a"), gone, tell},
		{"it ended unseen, and is not remembered", newRecord("a", hasNoPod), gone, fate{}},
		{"it ended before its worker looked at it", newRecord("a", begun), with(func(s *situation) { s.handed = true }), tell},
		{"its new life never began", newRecord("a", renewed), gone, remove},
		{"its new life never began, but a source may want it", newRecord("a", renewed), with(func(s *situation) { s.undecided = true }), keep},
		{"its new life never began, and something runs of the earlier one", newRecord("a", renewed), with(func(s *situation) { s.runs = true }), keep},
		{"its new life ended unseen", newRecord("a", renewed, admitted), gone, tell},
		{"it was never started", newRecord("a"), with(func(s *situation) { s.handed = true }), remove},
		{"it is gone and told", newRecord("a", finished), with(func(s *situation) { s.handed = true }), remove},
		{"IN10: a sink does not have its end", terminal(finished), with(func(s *situation) { s.handed, s.acknowledged = true, false }), retire},
		{"IN10: nor that of a refused pod", terminal(), with(func(s *situation) { s.handed, s.acknowledged = true, false }), retire},
		{"IN10: the runtime still has something of it", newRecord("a", finished), with(func(s *situation) { s.handed, s.remains = true, true }), retire},
		{"a sink does not have the end of a pod of an API, which lives once", terminal(finished, api), with(func(s *situation) { s.handed, s.acknowledged = true, false }), keep},
		{"a sink does not have its end, of an earlier process", terminal(finished), with(func(s *situation) { s.acknowledged = false }), keep},
		{"a sink never took its end", terminal(finished), with(func(s *situation) { s.handed, s.acknowledged, s.age = true, false, leftoverAge }), remove},
		{"of an earlier process", terminal(finished), gone, fate{}},
		{"of an earlier process, old", terminal(finished), with(func(s *situation) { s.age = leftoverAge }), remove},
	} {
		if got := fateOf(tc.record, tc.s); got != tc.want {
			t.Errorf("%s: %+v, want %+v", tc.name, got, tc.want)
		}
	}
}

func TestFactsOfALifeAreNoted(t *testing.T) { // CK4, CK5, CK6
	now := time.Unix(1000, 0)
	for _, tc := range []struct {
		name   string
		before *checkpoint.Record
		facts  podworkers.Facts
		class  checkpoint.Class
		check  func(*checkpoint.Record) bool
	}{
		{
			"first setup", &checkpoint.Record{UID: "a"},
			podworkers.Facts{Started: true},
			checkpoint.Durable,
			func(r *checkpoint.Record) bool {
				return r.Admission.At.Equal(now) && r.Name == "a" && r.Pod != nil && r.Source == "file"
			},
		},
		{"nothing new", newRecord("a", admitted), podworkers.Facts{Started: true}, checkpoint.Unchanged, nil},
		{
			"no container runs any more", newRecord("a", admitted),
			podworkers.Facts{Terminated: true},
			checkpoint.Lazy,
			func(r *checkpoint.Record) bool { return r.TerminatedAt.Equal(now) },
		},
		{
			"everything is released", newRecord("a", admitted),
			podworkers.Facts{Finished: true},
			checkpoint.Durable,
			func(r *checkpoint.Record) bool { return r.Finished },
		},
		{
			"deleted", newRecord("a", admitted),
			podworkers.Facts{TerminationRequested: true, Deleted: true, GracePeriodSeconds: 9},
			checkpoint.Durable,
			func(r *checkpoint.Record) bool {
				return *r.Termination == checkpoint.Termination{RequestedAt: now, Cause: checkpoint.CauseDeleted, Deleted: true, GracePeriodSeconds: 9}
			},
		},
		{
			"evicted", newRecord("a", admitted),
			podworkers.Facts{TerminationRequested: true, Evicted: true, Deleted: true},
			checkpoint.Durable,
			func(r *checkpoint.Record) bool {
				return r.Termination.Cause == checkpoint.CauseEvicted && r.Termination.Deleted
			},
		},
		{
			"killed", newRecord("a", admitted),
			podworkers.Facts{TerminationRequested: true},
			checkpoint.Durable,
			func(r *checkpoint.Record) bool { return r.Termination.Cause == checkpoint.CauseKilled },
		},
		{
			"ended by itself", newRecord("a", admitted, phase(v1.PodSucceeded)),
			podworkers.Facts{TerminationRequested: true},
			checkpoint.Durable,
			func(r *checkpoint.Record) bool { return r.Termination.Cause == checkpoint.CauseTerminal },
		},
		{
			"ran over its deadline, and its status was dropped", newRecord("a", admitted, phase(v1.PodRunning)),
			podworkers.Facts{TerminationRequested: true, Amend: func(s *v1.PodStatus) { s.Phase, s.Reason = v1.PodFailed, "DeadlineExceeded" }},
			checkpoint.Durable,
			func(r *checkpoint.Record) bool {
				again := removedBySource(newPod("a"), r)
				return r.Termination.Cause == checkpoint.CauseTerminal && r.Termination.Decision.Reason == "DeadlineExceeded" && !again
			},
		},
		{
			"stopped by a shutdown", newRecord("a", admitted, phase(v1.PodRunning)),
			podworkers.Facts{TerminationRequested: true, Amend: shutdown.Amend},
			checkpoint.Durable,
			func(r *checkpoint.Record) bool { return r.Termination.Cause == checkpoint.CauseKilled },
		},
		{
			"a second decision, as the status tells the last one (I18)", newRecord("a", admitted, stopping(checkpoint.Termination{
				Cause: checkpoint.CauseKilled, Decision: &checkpoint.Decision{Phase: v1.PodFailed, Reason: "Preempting"},
			})),
			podworkers.Facts{TerminationRequested: true, Amend: shutdown.Amend},
			checkpoint.Durable,
			func(r *checkpoint.Record) bool { return *r.Termination.Decision == *decisionOf(shutdown.Amend) },
		},
		{
			"the same decision again", newRecord("a", admitted, stopping(checkpoint.Termination{Cause: checkpoint.CauseKilled, Decision: decisionOf(shutdown.Amend)})),
			podworkers.Facts{TerminationRequested: true, Amend: shutdown.Amend},
			checkpoint.Unchanged, nil,
		},
		{
			"no decision after one", newRecord("a", admitted, stopping(checkpoint.Termination{Cause: checkpoint.CauseKilled, Decision: decisionOf(shutdown.Amend)})),
			podworkers.Facts{TerminationRequested: true},
			checkpoint.Unchanged, nil,
		},
		{
			"the grace of a pod that ended by itself", newRecord("a", admitted, phase(v1.PodSucceeded), stopping(checkpoint.Termination{Cause: checkpoint.CauseTerminal})),
			podworkers.Facts{TerminationRequested: true, GracePeriodSeconds: 5},
			checkpoint.Lazy,
			func(r *checkpoint.Record) bool { return r.Termination.GracePeriodSeconds == 5 },
		},
		{
			"the first cause stays", newRecord("a", admitted, stopping(checkpoint.Termination{Cause: checkpoint.CauseKilled, RequestedAt: now.Add(-time.Hour)})),
			podworkers.Facts{TerminationRequested: true, Deleted: true},
			checkpoint.Durable,
			func(r *checkpoint.Record) bool {
				return r.Termination.Cause == checkpoint.CauseKilled && r.Termination.Deleted && r.Termination.RequestedAt.Equal(now.Add(-time.Hour))
			},
		},
		{
			"grace that shrinks is counted from here", newRecord("a", admitted, stopping(checkpoint.Termination{GracePeriodSeconds: 30, RequestedAt: now.Add(-time.Hour)})),
			podworkers.Facts{TerminationRequested: true, GracePeriodSeconds: 5},
			checkpoint.Durable,
			func(r *checkpoint.Record) bool {
				return r.Termination.GracePeriodSeconds == 5 && r.Termination.RequestedAt.Equal(now)
			},
		},
		{
			"grace does not grow", newRecord("a", admitted, stopping(checkpoint.Termination{GracePeriodSeconds: 5})),
			podworkers.Facts{TerminationRequested: true, GracePeriodSeconds: 30},
			checkpoint.Unchanged,
			func(r *checkpoint.Record) bool { return r.Termination.GracePeriodSeconds == 5 },
		},
	} {
		r := tc.before.Clone()
		if class := noteFacts(r, newPod("a"), tc.facts, now); class != tc.class || tc.check != nil && !tc.check(r) {
			t.Errorf("%s: class %d, want %d; %+v, termination %+v", tc.name, class, tc.class, r, r.Termination)
		}
	}
}

// TestShorterGraceAfterANaturalEnd: CK6, G4, G7. A pod that ended by itself had the grace of its spec, so a shorter one counts from
// the moment at which it came; the spec's own, which any update fixes, counts from the end.
func TestShorterGraceAfterANaturalEnd(t *testing.T) {
	ended := time.Unix(1000, 0)
	for _, tc := range []struct {
		spec, grace, left int64
	}{{3600, 60, 59}, {3600, 3600, 3499}, {30, 5, 4}} {
		pod := newPod("a", func(p *v1.Pod) { p.Spec.TerminationGracePeriodSeconds = &tc.spec })
		r := newRecord("a", admitted)
		describe(r, pod)
		facts := podworkers.Facts{Started: true, TerminationRequested: true}
		noteFacts(r, pod, facts, ended)
		facts.Deleted, facts.GracePeriodSeconds = true, tc.grace
		noteFacts(r, pod, facts, ended.Add(100*time.Second))
		if left := r.Termination.RemainingGrace(ended.Add(101 * time.Second)); left != tc.left {
			t.Errorf("%d s of %d: %d s are left, want %d", tc.grace, tc.spec, left, tc.left)
		}
	}
}

func admitted(r *checkpoint.Record) { r.Admission = &checkpoint.Admission{} }

func TestLastDesiredPodsOfASource(t *testing.T) { // architecture decision 6
	other := func(r *checkpoint.Record) { r.Source = "http" }
	unwanted := func(r *checkpoint.Record) { r.Unwanted = true }
	var got []string
	for _, p := range lastDesired([]*checkpoint.Record{
		newRecord("retired", phase(v1.PodFailed), retired),
		newRecord("wanted"), newRecord("other", other), newRecord("unwanted", unwanted), newRecord("forgotten", hasNoPod),
		newRecord("stopped", stopping(checkpoint.Termination{Deleted: true})), newRecord("evicted", stopping(checkpoint.Termination{Evicted: true})),
		newRecord("ended", phase(v1.PodFailed), stopping(checkpoint.Termination{Cause: checkpoint.CauseTerminal})),
	}, "file") {
		got = append(got, p.Name)
	}
	if want := []string{"wanted", "evicted", "ended"}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}
