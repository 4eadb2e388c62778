package tale

import (
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/runtime"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func status(phase v1.PodPhase, containers ...v1.ContainerStatus) *v1.PodStatus {
	return &v1.PodStatus{Phase: phase, ContainerStatuses: containers, Conditions: []v1.PodCondition{{Type: v1.PodReadyToStartContainers, Status: v1.ConditionTrue}}}
}

func runs(restarts int32) v1.ContainerStatus {
	return v1.ContainerStatus{Name: "main", RestartCount: restarts, State: v1.ContainerState{Running: &v1.ContainerStateRunning{}}}
}

func ended(restarts, code int32) v1.ContainerStatus {
	return v1.ContainerStatus{Name: "main", RestartCount: restarts, State: v1.ContainerState{Terminated: &v1.ContainerStateTerminated{ExitCode: code}}}
}

// told is a life that ends well, but for what the options change.
func told(statuses ...*v1.PodStatus) *Tale {
	t := New()
	for i, s := range statuses {
		t.Tell("pod", s, i == len(statuses)-1)
	}
	t.See([]string{"b", "a"})
	t.Started("pod/main", 1)
	t.Note("node", "ready")
	return t
}

func undisturbed() *Tale {
	return told(status(v1.PodPending), status(v1.PodRunning, runs(0)), status(v1.PodFailed, ended(0, 7)))
}

// TestDifferences: each kind of difference is found, and only these.
func TestDifferences(t *testing.T) {
	for name, c := range map[string]struct {
		other *Tale
		after func(*Tale)
		want  string
	}{
		"the same":              {other: undisturbed()},
		"a status is missed":    {other: told(status(v1.PodPending), status(v1.PodFailed, ended(0, 7)))},
		"a status is repeated":  {other: told(status(v1.PodPending), status(v1.PodPending), status(v1.PodFailed, ended(0, 7)))},
		"ended, not yet over":   {other: told(status(v1.PodPending), status(v1.PodRunning, ended(0, 7)), status(v1.PodFailed, ended(0, 7)))},
		"never over":            {other: told(status(v1.PodPending), status(v1.PodRunning, ended(0, 7))), want: "does not end as"},
		"a status goes back":    {other: told(status(v1.PodRunning, runs(0)), status(v1.PodPending), status(v1.PodFailed, ended(0, 7))), want: "status 1 is not what"},
		"the last is missed":    {other: told(status(v1.PodPending), status(v1.PodRunning, runs(0))), want: "does not end as"},
		"another exit code":     {other: told(status(v1.PodPending), status(v1.PodFailed, ended(0, 137))), want: "ends of containers"},
		"an unknown pod":        {other: undisturbed(), after: func(o *Tale) { o.Tell("stranger", status(v1.PodPending), false) }, want: "stranger: the undisturbed life reports nothing of it"},
		"a note that differs":   {other: undisturbed(), after: func(o *Tale) { o.Note("node", "not ready") }, want: "node: status 1"},
		"started twice":         {other: undisturbed(), after: func(o *Tale) { o.Started("pod/main", 2) }, want: "starts:"},
		"another look":          {other: undisturbed(), after: func(o *Tale) { o.See(nil) }, want: "2 looks"},
		"a look that differs":   {other: undisturbed(), after: func(o *Tale) { o.views[0] = "c" }, want: "look 0"},
		"restarts go back":      {other: told(status(v1.PodRunning, runs(1)), status(v1.PodFailed, ended(0, 7))), want: "restart count 0 after 1"},
		"finished, and then no": {other: undisturbed(), after: func(o *Tale) { o.Tell("pod", status(v1.PodFailed, ended(0, 7)), false) }, want: "finished, and then not"},
		"the sandbox's end":     {other: undisturbed(), after: func(o *Tale) { o.sandbox["pod"] = v1.ConditionFalse }, want: "PodReadyToStartContainers"},
	} {
		t.Run(name, func(t *testing.T) {
			if c.after != nil {
				c.after(c.other)
			}
			found := strings.Join(c.other.Differences(undisturbed()), "\n")
			if c.want == "" && found != "" || !strings.Contains(found, c.want) {
				t.Errorf("found %q, want %q", found, c.want)
			}
		})
	}
}

// TestJoin: a status that one of two undisturbed lives has missed is no difference.
func TestJoin(t *testing.T) {
	calm := told(status(v1.PodPending), status(v1.PodFailed, ended(0, 7)))
	calm.Join(undisturbed())
	if found := undisturbed().Differences(calm); len(found) > 0 {
		t.Errorf("%q", found)
	}
}

// TestObjects: what differs between two lives of the same pod is left out.
func TestObjects(t *testing.T) {
	lines := Objects("pod", &runtime.PodStatus{
		Sandboxes:  []*runtime.SandboxStatus{{ID: "x", Attempt: 1, State: runtime.Running}},
		Containers: []*runtime.ContainerStatus{{Name: "main", RestartCount: 2, State: runtime.Exited, ExitCode: 7, Reason: "Error"}},
	})
	if got := strings.Join(lines, "; "); got != "pod sandbox #1 running; pod main #2 exited 7 Error" {
		t.Error(got)
	}
}

func TestSeed(t *testing.T) {
	t.Setenv("PODWRIGHT_CRASH_SEED", "")
	now := time.Unix(5*24*60*60+1, 0)
	if seed := Seed(t, false, now); seed != 1 {
		t.Errorf("seed %d of a normal run, want 1", seed)
	}
	if seed := Seed(t, true, now); seed != 5 {
		t.Errorf("seed %d of a full run, want 5, the day", seed)
	}
	t.Setenv("PODWRIGHT_CRASH_SEED", "7")
	if seed := Seed(t, true, now); seed != 7 {
		t.Errorf("seed %d, want 7 as demanded", seed)
	}
}
