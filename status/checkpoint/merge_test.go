package checkpoint_test

import (
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/status/checkpoint"
)

const guessed = "ContainerStatusUnknown"

// Shorthand for container states.
func terminated(id string, code int32, reason string) v1.ContainerState {
	return v1.ContainerState{Terminated: &v1.ContainerStateTerminated{ContainerID: id, ExitCode: code, Reason: reason}}
}

func runs() v1.ContainerState { return v1.ContainerState{Running: &v1.ContainerStateRunning{}} }

func waits() v1.ContainerState {
	return v1.ContainerState{Waiting: &v1.ContainerStateWaiting{Reason: "ContainerCreating"}}
}

func statusOf(phase v1.PodPhase, cs ...v1.ContainerStatus) *v1.PodStatus {
	return &v1.PodStatus{Phase: phase, ContainerStatuses: cs}
}

// codeOf is the exit code of a state, -1 if it is no end.
func codeOf(state v1.ContainerState) int32 {
	if state.Terminated == nil {
		return -1
	}
	return state.Terminated.ExitCode
}

// TestProtectBothStates: status.md 9.4: no end that is known is shown as a guess, neither
// that of the newest run nor that of the run before.
func TestProtectBothStates(t *testing.T) {
	r := &checkpoint.Record{UID: "a", Status: statusOf(v1.PodRunning), Containers: []checkpoint.Container{{Name: "main", Ends: []checkpoint.End{
		{ID: "x://2", ExitCode: 3, Reason: "Error", RestartCount: 1}, {ID: "x://1", ExitCode: 2, Reason: "Error"},
	}}}}
	next := statusOf(v1.PodRunning, v1.ContainerStatus{
		Name: "main", State: terminated("x://2", 137, guessed), LastTerminationState: terminated("x://1", 137, guessed),
	})
	got := checkpoint.Protect(r, next).ContainerStatuses[0]
	if codeOf(got.State) != 3 || codeOf(got.LastTerminationState) != 2 {
		t.Errorf("state %+v, last state %+v", got.State.Terminated, got.LastTerminationState.Terminated)
	}
}

// TestWithEnds: status.md 9.4: how a container ended counts even if it was removed before any
// status showed it.
func TestWithEnds(t *testing.T) {
	r := &checkpoint.Record{UID: "a", Containers: []checkpoint.Container{{Name: "main", Ends: []checkpoint.End{
		{ID: "x://2", ExitCode: 3, Reason: "Error", RestartCount: 1}, {ID: "x://1", ExitCode: 2, Reason: "Error"},
	}}}}
	shown := statusOf(v1.PodRunning, v1.ContainerStatus{
		Name: "main", ContainerID: "x://2", State: runs(), Ready: true, LastTerminationState: terminated("x://1", 137, guessed),
	})
	got := r.WithEnds(shown).ContainerStatuses[0]
	if codeOf(got.State) != 3 || codeOf(got.LastTerminationState) != 2 || got.Ready {
		t.Errorf("%+v", got)
	}
	if shown.ContainerStatuses[0].State.Running == nil {
		t.Error("the argument was changed")
	}
	other := statusOf(v1.PodRunning, v1.ContainerStatus{Name: "main", ContainerID: "x://3", State: runs()})
	if r.WithEnds(other) != other || (&checkpoint.Record{}).WithEnds(shown) != shown {
		t.Error("a status that nothing is known about was copied")
	}
}

// TestProtect: status.md 9.4.
func TestProtect(t *testing.T) {
	end := func(id string, code int32, reason string) []checkpoint.End {
		return []checkpoint.End{{ID: id, ExitCode: code, Reason: reason}}
	}
	for _, tc := range []struct {
		name     string
		recorded v1.PodPhase
		ends     []checkpoint.End
		next     *v1.PodStatus
		phase    v1.PodPhase
		code     int32
	}{
		{"a terminal phase stays", v1.PodFailed, nil, statusOf(v1.PodRunning), v1.PodFailed, -1},
		{"and does not become the other", v1.PodSucceeded, nil, statusOf(v1.PodFailed), v1.PodSucceeded, -1},
		{"one that is not may change", v1.PodRunning, nil, statusOf(v1.PodPending), v1.PodPending, -1},
		{
			"a guess does not replace an end", v1.PodRunning, end("x://1", 3, "Error"),
			statusOf(v1.PodRunning, v1.ContainerStatus{Name: "main", State: terminated("x://1", 137, guessed)}), v1.PodRunning, 3,
		},
		{
			"an end replaces a guess", v1.PodRunning, end("x://1", 137, guessed),
			statusOf(v1.PodRunning, v1.ContainerStatus{Name: "main", State: terminated("x://1", 3, "Error")}), v1.PodRunning, 3,
		},
		{
			"a guess about another run stays", v1.PodRunning, end("x://1", 3, "Error"),
			statusOf(v1.PodRunning, v1.ContainerStatus{Name: "main", State: terminated("x://2", 137, guessed)}), v1.PodRunning, 137,
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := &checkpoint.Record{UID: "a", Status: statusOf(tc.recorded), Containers: []checkpoint.Container{{Name: "main", Ends: tc.ends}}}
			before := tc.next.DeepCopy()
			got := checkpoint.Protect(r, tc.next)
			if got.Phase != tc.phase {
				t.Errorf("phase %s, want %s", got.Phase, tc.phase)
			}
			if tc.code >= 0 && got.ContainerStatuses[0].State.Terminated.ExitCode != tc.code {
				t.Errorf("exit code %d, want %d", got.ContainerStatuses[0].State.Terminated.ExitCode, tc.code)
			}
			if len(before.ContainerStatuses) > 0 && *before.ContainerStatuses[0].State.Terminated != *tc.next.ContainerStatuses[0].State.Terminated {
				t.Error("the argument was changed")
			}
		})
	}
	c := checkpoint.Container{Ends: end("x://1", 3, "Error")}
	if c.AddEnd(checkpoint.End{ID: "x://1", ExitCode: 137, Reason: guessed}) || c.Ends[0].ExitCode != 3 {
		t.Errorf("9.4: a guess replaced a recorded end: %+v", c.Ends)
	}
}

// TestRemembered: status.md 9.6 (of one run an end beats Running and Waiting, the
// higher restart count counts) and 9.7 (after a reboot nothing is ready or started).
func TestRemembered(t *testing.T) {
	yes := true
	ready := v1.ContainerStatus{Name: "main", ContainerID: "x://1", State: runs(), Ready: true, Started: &yes, RestartCount: 1}
	for _, tc := range []struct {
		name     string
		status   v1.ContainerStatus
		kept     checkpoint.Container
		rebooted bool
		code     int32 // -1: not terminated
		count    int32
		ready    bool
	}{
		{"nothing new", ready, checkpoint.Container{}, false, -1, 1, true},
		{"the end of this run was recorded later", ready, checkpoint.Container{Ends: []checkpoint.End{{ID: "x://1", ExitCode: 5, RestartCount: 1}}}, false, 5, 1, false},
		{"the end of an earlier run", ready, checkpoint.Container{Ends: []checkpoint.End{{ID: "x://0", ExitCode: 5}}}, false, -1, 1, true},
		{"the end of a run the status never showed", ready, checkpoint.Container{Ends: []checkpoint.End{{ID: "x://2", ExitCode: 6, RestartCount: 2}}}, false, 6, 2, false},
		{"a higher restart count", ready, checkpoint.Container{RestartCount: 4}, false, -1, 4, true},
		{"another boot", ready, checkpoint.Container{}, true, -1, 1, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tc.kept.Name = "main"
			r := &checkpoint.Record{UID: "a", Status: statusOf(v1.PodRunning, tc.status), Containers: []checkpoint.Container{tc.kept}}
			got := r.Remembered(tc.rebooted).ContainerStatuses[0]
			code := int32(-1)
			if got.State.Terminated != nil {
				code = got.State.Terminated.ExitCode
			}
			if code != tc.code || got.RestartCount != tc.count || got.Ready != tc.ready || *got.Started != tc.ready {
				t.Errorf("%+v", got)
			}
			if !r.Status.ContainerStatuses[0].Ready {
				t.Error("the record was changed")
			}
		})
	}
	// CK3, 9.6: killed right after the start, the agent recorded no status of the run; the next
	// agent recorded the run's end and removed the container.
	first := v1.ContainerStatus{Name: "main", State: v1.ContainerState{Waiting: &v1.ContainerStateWaiting{Reason: "ContainerCreating"}}}
	r := &checkpoint.Record{UID: "a", Status: statusOf(v1.PodPending, first), Containers: []checkpoint.Container{
		{Name: "main", Ends: []checkpoint.End{{ID: "x://1", ExitCode: 5}}},
	}}
	if got := r.Remembered(false).ContainerStatuses[0]; got.State.Terminated == nil || got.State.Terminated.ExitCode != 5 || got.ContainerID != "x://1" {
		t.Errorf("the end of the first run, which the status never showed: %+v", got)
	}
	waiting := func(id string, last v1.ContainerState, count int32) v1.ContainerStatus {
		return v1.ContainerStatus{Name: "main", ContainerID: id, State: waits(), LastTerminationState: last, RestartCount: count}
	}
	for name, tc := range map[string]struct {
		status     v1.ContainerStatus
		ends       []checkpoint.End
		code, last int32 // -1: not terminated
	}{
		"two runs that the status never showed": {ready, []checkpoint.End{
			{ID: "x://3", ExitCode: 7, RestartCount: 3}, {ID: "x://2", ExitCode: 6, RestartCount: 2},
		}, 7, 6},
		"the run after the one whose end it shows": {
			v1.ContainerStatus{Name: "main", ContainerID: "x://1", State: terminated("x://1", 5, "Error"), RestartCount: 1},
			[]checkpoint.End{{ID: "x://2", ExitCode: 6, RestartCount: 2}},
			6, 5,
		},
		"its own end, after that of the run before": {
			ready, []checkpoint.End{{ID: "x://1", ExitCode: 5, RestartCount: 1}, {ID: "x://0", ExitCode: 4}}, 5, 4,
		},
		"the run that a guess has counted": {
			waiting("x://1", terminated("x://1", 137, guessed), 2), []checkpoint.End{{ID: "x://2", ExitCode: 6, RestartCount: 2}}, 6, 137,
		},
		"a guess about an end that is known": {
			waiting("x://1", terminated("x://1", 137, guessed), 2), []checkpoint.End{{ID: "x://1", ExitCode: 5, RestartCount: 1}}, -1, 5,
		},
		"in back-off": {
			waiting("x://1", terminated("x://1", 5, "Error"), 1), []checkpoint.End{{ID: "x://1", ExitCode: 5, RestartCount: 1}}, -1, 5,
		},
	} {
		// As BeforeRemove leaves it: the count of the container is that of its newest end.
		r := &checkpoint.Record{UID: "a", Status: statusOf(v1.PodRunning, tc.status), Containers: []checkpoint.Container{
			{Name: "main", RestartCount: tc.ends[0].RestartCount, Ends: tc.ends},
		}}
		got := r.Remembered(false).ContainerStatuses[0]
		if codeOf(got.State) != tc.code || codeOf(got.LastTerminationState) != tc.last {
			t.Errorf("%s: %+v", name, got)
		}
	}
	if (&checkpoint.Record{}).Remembered(false) != nil {
		t.Error("a status out of nothing")
	}
}

// TestInterrupted: CK5, HI8: which containers count as having run in a pod that the runtime has lost.
func TestInterrupted(t *testing.T) {
	never, always := v1.ContainerRestartPolicyNever, v1.ContainerRestartPolicyAlways
	inits := []v1.Container{{Name: "i1"}, {Name: "i2"}}
	app := []v1.Container{{Name: "main"}}
	done := v1.ContainerStatus{Name: "i1", State: terminated("x://1", 0, "Completed")}
	for _, tc := range []struct {
		name   string
		policy v1.RestartPolicy
		spec   v1.PodSpec
		status v1.PodStatus
		want   string // states of init and app containers: T terminated, W waiting, R running
	}{
		{"it ran", v1.RestartPolicyNever, v1.PodSpec{Containers: app}, *statusOf(v1.PodRunning, v1.ContainerStatus{Name: "main", State: runs()}), "T"},
		{"it was about to", v1.RestartPolicyNever, v1.PodSpec{Containers: app}, *statusOf(v1.PodPending, v1.ContainerStatus{Name: "main", State: waits()}), "T"},
		{"no status was written yet", v1.RestartPolicyNever, v1.PodSpec{Containers: app}, v1.PodStatus{}, "T"},
		{"it had ended", v1.RestartPolicyNever, v1.PodSpec{Containers: app}, *statusOf(v1.PodRunning, v1.ContainerStatus{Name: "main", State: terminated("x://1", 3, "Error")}), "T"},
		{"it may run again", v1.RestartPolicyAlways, v1.PodSpec{Containers: app}, *statusOf(v1.PodRunning, v1.ContainerStatus{Name: "main", State: runs()}), "R"},
		{
			"its own policy", v1.RestartPolicyAlways,
			v1.PodSpec{Containers: []v1.Container{{Name: "main", RestartPolicy: &never}, {Name: "other"}}},
			*statusOf(v1.PodRunning, v1.ContainerStatus{Name: "main", State: runs()}, v1.ContainerStatus{Name: "other", State: runs()}), "TR",
		},
		{"an init container was next", v1.RestartPolicyNever, v1.PodSpec{InitContainers: inits, Containers: app}, v1.PodStatus{}, "TWW"},
		{
			"the second one was", v1.RestartPolicyNever,
			v1.PodSpec{InitContainers: inits, Containers: app},
			v1.PodStatus{
				InitContainerStatuses: []v1.ContainerStatus{done, {Name: "i2", State: waits()}},
				ContainerStatuses:     []v1.ContainerStatus{{Name: "main", State: waits()}},
			},
			"TTW",
		},
		{ // 6.4: the kernel's kill is a failure whatever the code, so no other container was started
			"the first one was killed for its memory", v1.RestartPolicyNever,
			v1.PodSpec{InitContainers: inits, Containers: app},
			v1.PodStatus{
				InitContainerStatuses: []v1.ContainerStatus{{Name: "i1", State: terminated("x://1", 0, "OOMKilled")}, {Name: "i2", State: waits()}},
				ContainerStatuses:     []v1.ContainerStatus{{Name: "main", State: waits()}},
			},
			"TWW",
		},
		{
			"beside a sidecar", v1.RestartPolicyNever,
			v1.PodSpec{InitContainers: []v1.Container{{Name: "s", RestartPolicy: &always}}, Containers: app},
			v1.PodStatus{
				InitContainerStatuses: []v1.ContainerStatus{{Name: "s", State: runs()}},
				ContainerStatuses:     []v1.ContainerStatus{{Name: "main", State: waits()}},
			},
			"RT",
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tc.spec.RestartPolicy = tc.policy
			got := checkpoint.Interrupted(&v1.Pod{Spec: tc.spec}, &tc.status)
			text := ""
			for _, list := range [][]v1.ContainerStatus{got.InitContainerStatuses, got.ContainerStatuses} {
				for _, cs := range list {
					switch {
					case cs.State.Terminated != nil:
						text += "T"
						if end := cs.State.Terminated; end.Reason == guessed && end.ExitCode != 137 {
							t.Errorf("%+v", end)
						}
					case cs.State.Running != nil:
						text += "R"
					default:
						text += "W"
					}
				}
			}
			if text != tc.want {
				t.Errorf("%s, want %s", text, tc.want)
			}
		})
	}
	got := checkpoint.Interrupted(&v1.Pod{Spec: v1.PodSpec{RestartPolicy: v1.RestartPolicyNever, Containers: app}},
		statusOf(v1.PodRunning, v1.ContainerStatus{Name: "main", State: terminated("x://1", 3, "Error")}))
	if got.ContainerStatuses[0].State.Terminated.ExitCode != 3 {
		t.Error("HI9: a recorded exit code was replaced")
	}
}

// CK6, cleanup edge case 33.
func TestRemainingGraceShrinksWithTime(t *testing.T) {
	begin := time.Unix(1000, 0)
	for _, tc := range []struct{ grace, passed, want int64 }{{30, 25, 5}, {30, 0, 30}, {30, 30, 1}, {30, 3600, 1}, {1, 0, 1}, {0, 5, 0}, {30, -60, 30}} {
		term := checkpoint.Termination{RequestedAt: begin, GracePeriodSeconds: tc.grace}
		if got := term.RemainingGrace(begin.Add(time.Duration(tc.passed) * time.Second)); got != tc.want {
			t.Errorf("%d s of %d s passed: %d left, want %d", tc.passed, tc.grace, got, tc.want)
		}
	}
}
