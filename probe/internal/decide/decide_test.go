package decide_test

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"

	"github.com/podwright/podwright/probe/internal/decide"
	"github.com/podwright/podwright/runtime"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func id(n string) runtime.ContainerID { return runtime.ContainerID{Runtime: "x", ID: n} }

// live is a running container of this ID.
func live(n string, started bool, age time.Duration) *decide.Container {
	return &decide.Container{ID: id(n), Running: true, Started: started, StartedAt: now.Add(-age)}
}

// TestTick is section 3, row by row, for each kind it matters for.
func TestTick(t *testing.T) {
	const su, li, re = decide.Startup, decide.Liveness, decide.Readiness
	seen := decide.State{ID: id("1"), Last: decide.Failure, Run: 2}
	held := decide.State{ID: id("1"), Hold: true}
	stopped := decide.State{ID: id("1"), Last: decide.Failure, Run: 2, Since: -1}
	for _, c := range []struct {
		name  string
		state decide.State
		look  decide.Look
		want  decide.Outcome // Why is not compared
	}{
		{"row 1: no status", seen, decide.Look{Kind: li}, decide.Outcome{State: seen}},
		{"row 2: ended", seen, decide.Look{Kind: re, Known: true, Ended: true, Container: live("1", true, 0)}, decide.Outcome{State: seen, Step: decide.End}},
		{"row 3: no container", seen, decide.Look{Kind: re, Known: true}, decide.Outcome{State: seen}},
		{
			"row 4: new container, 3.2 the run starts from zero", seen,
			decide.Look{Kind: li, Known: true, Container: live("2", true, 0)},
			decide.Outcome{State: decide.State{ID: id("2")}, Drop: id("1"), Store: true, Result: decide.Success, Step: decide.Execute},
		},
		{
			"row 4: the hold is cleared (edge case 5)", held,
			decide.Look{Kind: re, Known: true, Container: live("2", true, 0)},
			decide.Outcome{State: decide.State{ID: id("2")}, Drop: id("1"), Store: true, Result: decide.Failure, Step: decide.Execute},
		},
		{
			"row 4: startup begins unknown",
			decide.State{},
			decide.Look{Kind: su, Known: true, Container: live("2", false, 0)},
			decide.Outcome{State: decide.State{ID: id("2")}, Store: true, Result: decide.Unknown, Step: decide.Execute},
		},
		{
			"row 4 with what was kept (8.3)",
			decide.State{},
			decide.Look{Kind: re, Known: true, Container: live("2", true, 0), Before: &decide.Before{Result: decide.Success, Last: decide.Failure, Run: 1}},
			decide.Outcome{State: decide.State{ID: id("2"), Last: decide.Failure, Run: 1}, Store: true, Quiet: true, Result: decide.Success, Step: decide.Execute},
		},
		{
			"row 4: what was kept counts for nothing if it does not run (8.6)",
			decide.State{},
			decide.Look{Kind: re, Known: true, Container: &decide.Container{ID: id("2")}, Before: &decide.Before{Result: decide.Success}},
			decide.Outcome{State: decide.State{ID: id("2"), Since: -1}, Store: true, Result: decide.Failure},
		},
		{"row 5: on hold", held, decide.Look{Kind: li, Known: true, Container: live("1", true, 0)}, decide.Outcome{State: held}},
		{
			"row 6: stopped, will run again", seen,
			decide.Look{Kind: re, Known: true, Container: &decide.Container{ID: id("1")}},
			decide.Outcome{State: stopped, Store: true, Result: decide.Failure},
		},
		{
			"row 6: stopped for good", seen,
			decide.Look{Kind: li, Known: true, Container: &decide.Container{ID: id("1"), Stays: true}},
			decide.Outcome{State: stopped, Store: true, Result: decide.Failure, Step: decide.End},
		},
		{
			"row 6: waiting to run, 3.3 no kill as soon as it runs",
			decide.State{},
			decide.Look{Kind: li, Known: true, Container: &decide.Container{ID: id("1"), Waits: true}},
			decide.Outcome{State: decide.State{ID: id("1"), Since: -1}, Store: true, Result: decide.Success},
		},
		{
			"row 6: waiting to run, startup",
			decide.State{},
			decide.Look{Kind: su, Known: true, Container: &decide.Container{ID: id("1"), Waits: true}},
			decide.Outcome{State: decide.State{ID: id("1"), Since: -1}, Store: true, Result: decide.Unknown},
		},
		{
			"row 6: waiting, readiness", seen,
			decide.Look{Kind: re, Known: true, Container: &decide.Container{ID: id("1"), Waits: true}},
			decide.Outcome{State: stopped, Store: true, Result: decide.Failure},
		},
		{
			"row 7: liveness of a pod being deleted", seen,
			decide.Look{Kind: li, Known: true, Deleting: true, Container: live("1", true, 0)},
			decide.Outcome{State: seen, Store: true, Result: decide.Success, Step: decide.End},
		},
		{
			"row 7: startup of a pod being deleted", seen,
			decide.Look{Kind: su, Known: true, Deleting: true, Container: live("1", false, 0)},
			decide.Outcome{State: seen, Store: true, Result: decide.Success, Step: decide.End},
		},
		{"row 7: readiness goes on", seen, decide.Look{Kind: re, Known: true, Deleting: true, Container: live("1", true, 0)}, decide.Outcome{State: seen, Step: decide.Execute}},
		{
			"row 8: initial delay", seen,
			decide.Look{Kind: re, Known: true, InitialDelay: 5 * time.Second, Container: live("1", true, 2*time.Second)},
			decide.Outcome{State: seen, After: 3 * time.Second},
		},
		{
			"row 8: a clock that was set back (9.7)", seen,
			decide.Look{Kind: re, Known: true, InitialDelay: 5 * time.Second, Container: live("1", true, -time.Hour)},
			decide.Outcome{State: seen, After: 5 * time.Second},
		},
		{"row 8: over", seen, decide.Look{Kind: re, Known: true, InitialDelay: 5 * time.Second, Container: live("1", true, 5*time.Second)}, decide.Outcome{State: seen, Step: decide.Execute}},
		{"row 9: startup of a started container", seen, decide.Look{Kind: su, Known: true, Container: live("1", true, 0)}, decide.Outcome{State: seen}},
		{"row 9: 3.1 liveness waits for startup (edge case 3)", seen, decide.Look{Kind: li, Known: true, Container: live("1", false, time.Hour)}, decide.Outcome{State: seen}},
		{"row 9: readiness waits for startup", seen, decide.Look{Kind: re, Known: true, Container: live("1", false, time.Hour)}, decide.Outcome{State: seen}},
		{"row 10: startup", seen, decide.Look{Kind: su, Known: true, Container: live("1", false, 0)}, decide.Outcome{State: seen, Step: decide.Execute}},
		{"row 10: liveness", seen, decide.Look{Kind: li, Known: true, Container: live("1", true, 0)}, decide.Outcome{State: seen, Step: decide.Execute}},
	} {
		c.look.Now = now
		got := decide.Tick(c.state, c.look)
		if (got.Why == "") != (got.Step == decide.Execute) {
			t.Errorf("%s: why %q", c.name, got.Why)
		}
		got.Why = ""
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", c.name, diff)
		}
	}
}

// TestJudge is section 4.
func TestJudge(t *testing.T) {
	const s, f = decide.Success, decide.Failure
	for _, c := range []struct {
		name    string
		kind    decide.Kind
		limits  decide.Thresholds
		results []decide.Result
		// want is what is stored after each result; Unknown for nothing.
		want []decide.Result
		hold bool
	}{
		{"4.2, edge case 1", decide.Liveness, decide.Thresholds{Success: 1, Failure: 3}, []decide.Result{f, f, s, f, f, f}, []decide.Result{0, 0, s, 0, 0, f}, true},
		{"edge case 2", decide.Readiness, decide.Thresholds{Success: 3, Failure: 2}, []decide.Result{s, s, f, s, s, s, f, s, f, f}, []decide.Result{0, 0, 0, 0, 0, s, 0, 0, 0, f}, false},
		{"4.5 readiness goes on", decide.Readiness, decide.Thresholds{Success: 1, Failure: 1}, []decide.Result{f, f, s, f}, []decide.Result{f, f, s, f}, false},
		{"4.4 startup success holds", decide.Startup, decide.Thresholds{Success: 1, Failure: 3}, []decide.Result{f, s}, []decide.Result{0, s}, true},
		{"4.4 startup failure holds (edge case 8)", decide.Startup, decide.Thresholds{Success: 1, Failure: 2}, []decide.Result{f, f}, []decide.Result{0, f}, true},
		{"4.4 liveness success does not", decide.Liveness, decide.Thresholds{Success: 1, Failure: 1}, []decide.Result{s}, []decide.Result{s}, false},
	} {
		state := decide.State{ID: id("1")}
		for i, r := range c.results {
			next, store := decide.Judge(c.kind, c.limits, state, r)
			if want := c.want[i] != decide.Unknown; store != want {
				t.Errorf("%s: result %d stored %v, want %v", c.name, i, store, want)
			}
			state = next
		}
		if state.Hold != c.hold || state.Hold && state.Run != 0 {
			t.Errorf("%s: ends as %+v", c.name, state)
		}
	}
	full := decide.State{ID: id("1"), Last: s, Run: math.MaxInt32}
	if next, _ := decide.Judge(decide.Readiness, decide.Thresholds{Success: 1, Failure: 1}, full, s); next.Run != math.MaxInt32 {
		t.Errorf("the run overflows: %+v", next)
	}
}

// TestRestore is section 8, row by row.
func TestRestore(t *testing.T) {
	const s, f = decide.Success, decide.Failure
	fact := func(stored, last decide.Result, run int32, age time.Duration) decide.Fact {
		return decide.Fact{Stored: stored, Last: last, Run: run, At: now.Add(-age)}
	}
	with := func(started bool, k decide.Kind, f decide.Fact) decide.Record {
		r := decide.Record{Started: started}
		r.Facts[k] = f
		return r
	}
	for _, c := range []struct {
		name   string
		kind   decide.Kind
		record decide.Record
		lost   bool
		want   decide.Before
	}{
		{"8.3 startup: started", decide.Startup, decide.Record{Started: true}, false, decide.Before{Result: s, Hold: true}},
		{"8.3 startup: not started", decide.Startup, decide.Record{}, false, decide.Before{}},
		{"8.3 startup: failing, young", decide.Startup, with(false, decide.Startup, fact(0, f, 2, 19*time.Second)), false, decide.Before{Last: f, Run: 2}},
		{"8.3 startup: failing, 2 periods old", decide.Startup, with(false, decide.Startup, fact(0, f, 2, 20*time.Second)), false, decide.Before{}},
		{"8.4 startup: killed", decide.Startup, with(false, decide.Startup, fact(f, f, 0, time.Minute)), false, decide.Before{Last: f, Run: 2}},
		{"8.6 startup: killed, older than 5 min", decide.Startup, with(false, decide.Startup, fact(f, f, 0, 6*time.Minute)), false, decide.Before{}},
		{"8.3 liveness: success", decide.Liveness, with(true, decide.Liveness, fact(s, s, 9, time.Second)), false, decide.Before{Result: s}},
		{"8.3 liveness: failing, young", decide.Liveness, with(true, decide.Liveness, fact(s, f, 1, time.Second)), false, decide.Before{Result: s, Last: f, Run: 1}},
		{"8.4 liveness: killed", decide.Liveness, with(true, decide.Liveness, fact(f, f, 0, time.Minute)), false, decide.Before{Result: s, Last: f, Run: 2}},
		{"8.3 readiness: ready", decide.Readiness, with(true, decide.Readiness, fact(s, s, 5, time.Minute)), false, decide.Before{Result: s}},
		{"8.3 readiness: ready and failing", decide.Readiness, with(true, decide.Readiness, fact(s, f, 2, time.Second)), false, decide.Before{Result: s, Last: f, Run: 2}},
		{"8.3 readiness: not ready (edge case 26)", decide.Readiness, with(true, decide.Readiness, fact(f, f, 9, time.Hour)), false, decide.Before{Result: f}},
		{"8.6 older than 5 min: not ready", decide.Readiness, with(true, decide.Readiness, fact(s, s, 5, 5*time.Minute+1)), false, decide.Before{Result: f}},
		{"8.6 older than 5 min: no kill", decide.Liveness, with(true, decide.Liveness, fact(f, f, 1, 6*time.Minute)), false, decide.Before{Result: s}},
		{"8.6 older than 5 min: still started", decide.Startup, with(true, decide.Startup, fact(s, s, 0, time.Hour)), false, decide.Before{Result: s, Hold: true}},
		{"8.6 declared lost", decide.Readiness, with(true, decide.Readiness, fact(s, s, 5, time.Second)), true, decide.Before{Result: f}},
		{"8.5 status: ready", decide.Readiness, decide.Record{Status: true, Started: true, Ready: true}, false, decide.Before{Result: s}},
		{"8.5 status: not ready", decide.Readiness, decide.Record{Status: true, Started: true}, false, decide.Before{Result: f}},
		{"8.5 status: declared lost", decide.Readiness, decide.Record{Status: true, Started: true, Ready: true}, true, decide.Before{Result: f}},
		{"8.5 status: started", decide.Startup, decide.Record{Status: true, Started: true}, false, decide.Before{Result: s, Hold: true}},
		{"8.5 status: liveness", decide.Liveness, decide.Record{Status: true, Started: true}, false, decide.Before{Result: s}},
	} {
		rules := decide.Rules{Kind: c.kind, Period: 10 * time.Second, Failure: 3, MaxAge: 5 * time.Minute, Lost: c.lost}
		if diff := cmp.Diff(c.want, decide.Restore(rules, &c.record, now)); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", c.name, diff)
		}
	}
}

// TestFromStatus: 8.2 and 8.5, what an API's status says of a container.
func TestFromStatus(t *testing.T) {
	running := v1.ContainerState{Running: &v1.ContainerStateRunning{StartedAt: metav1.NewTime(now)}}
	status := &v1.PodStatus{
		ContainerStatuses: []v1.ContainerStatus{{Name: "app", ContainerID: "x://1", State: running, Started: ptr.To(true), Ready: true}},
		InitContainerStatuses: []v1.ContainerStatus{
			{Name: "side", ContainerID: "x://2", State: running},
			{Name: "gone", ContainerID: "x://3"},
		},
	}
	if got := decide.FromStatus(status, "app", id("1")); got == nil || !got.Started || !got.Ready || !got.Status {
		t.Errorf("app: %+v", got)
	}
	if got := decide.FromStatus(status, "side", id("2")); got == nil || got.Started || got.Ready {
		t.Errorf("side: %+v", got)
	}
	for name, other := range map[string]runtime.ContainerID{"app": id("9"), "gone": id("3"), "none": id("1"), "side": {}} {
		if got := decide.FromStatus(status, name, other); got != nil {
			t.Errorf("8.6: %s %v: %+v", name, other, got)
		}
	}
}

func TestDeclaredLost(t *testing.T) {
	conditions := func(ready, containers v1.ConditionStatus, reason string) *v1.PodStatus {
		return &v1.PodStatus{Conditions: []v1.PodCondition{
			{Type: v1.PodReady, Status: ready, Reason: reason}, {Type: v1.ContainersReady, Status: containers},
		}}
	}
	for _, c := range []struct {
		status *v1.PodStatus
		want   bool
	}{
		{conditions("False", "True", "NodeLost"), true},
		{conditions("False", "True", ""), true},
		{conditions("False", "True", "ReadinessGatesNotReady"), false},
		{conditions("False", "False", "ContainersNotReady"), false},
		{conditions("True", "True", ""), false},
		{&v1.PodStatus{}, false},
	} {
		if got := decide.DeclaredLost(c.status); got != c.want {
			t.Errorf("8.5: %+v: %v", c.status.Conditions, got)
		}
	}
}

// TestInvariants: whatever is seen, a container that does not run is never probed, a
// held one neither, and a run never crosses from one container to the next (6.3).
func TestInvariants(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		kind := decide.Kind(rapid.IntRange(0, 2).Draw(t, "kind"))
		var state decide.State
		for i := range rapid.IntRange(1, 30).Draw(t, "ticks") {
			look := decide.Look{Kind: kind, Known: rapid.Bool().Draw(t, "known"), Deleting: rapid.Bool().Draw(t, "deleting"), Now: now}
			if rapid.Bool().Draw(t, "container") {
				look.Container = &decide.Container{
					ID: id(fmt.Sprint(rapid.IntRange(1, 3).Draw(t, "id"))), Running: rapid.Bool().Draw(t, "running"), Started: rapid.Bool().Draw(t, "started"),
				}
			}
			out := decide.Tick(state, look)
			switch {
			case out.Step == decide.Execute && (look.Container == nil || !look.Container.Running || out.State.Hold || out.State.ID != look.Container.ID):
				t.Fatalf("tick %d executes: %+v of %+v", i, out, look)
			case out.State.ID != state.ID && (out.State.Run != 0 || out.State.Hold || !out.Store):
				t.Fatalf("tick %d carries over: %+v", i, out)
			case out.Store && look.Container == nil:
				t.Fatalf("tick %d stores for no container", i)
			}
			state = out.State
			if out.Step == decide.Execute {
				r := decide.Result(rapid.IntRange(1, 2).Draw(t, "result"))
				state, _ = decide.Judge(kind, decide.Thresholds{Success: 1, Failure: 2}, state, r)
			}
		}
	})
}

func TestNames(t *testing.T) {
	if got := fmt.Sprint(decide.Startup, decide.Liveness, decide.Readiness, decide.Kind(9), decide.Unknown, decide.Success, decide.Failure); got != "Startup Liveness Readiness Unknown Unknown Success Failure" {
		t.Error(got)
	}
}
