package restarts_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	v1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/podwright/podwright/internal/restarts"
	"github.com/podwright/podwright/runtime"
	"github.com/podwright/podwright/runtime/cri"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// newPod is a pod with the init container setup, the sidecar proxy, the app containers main and other, and the
// ephemeral container debug.
func newPod(policy v1.RestartPolicy) *v1.Pod {
	return &v1.Pod{Spec: v1.PodSpec{
		RestartPolicy:       policy,
		InitContainers:      []v1.Container{{Name: "setup"}, {Name: "proxy", RestartPolicy: ptr.To(v1.ContainerRestartPolicyAlways)}},
		Containers:          []v1.Container{{Name: "main"}, {Name: "other"}},
		EphemeralContainers: []v1.EphemeralContainer{{EphemeralContainerCommon: v1.EphemeralContainerCommon{Name: "debug"}}},
	}}
}

// view makes what the runtime shows, newest first: "main#1=running main#0=exited".
func view(words string) *runtime.PodStatus {
	s := &runtime.PodStatus{}
	for word := range strings.FieldsSeq(words) {
		run, state, _ := strings.Cut(word, "=")
		name, number, _ := strings.Cut(run, "#")
		c := &runtime.ContainerStatus{ID: runtime.ContainerID{Runtime: "t", ID: run}, Name: name}
		_, _ = fmt.Sscan(number, &c.RestartCount)
		c.State = map[string]runtime.State{"running": runtime.Running, "exited": runtime.Exited, "created": runtime.Created, "unknown": runtime.Unknown}[state]
		s.Containers = append(s.Containers, c)
	}
	return s
}

// asked are restarts of runs such as "main#1", after earlier ones.
func asked(runs string, counts map[string]int) *restarts.Asked {
	a := &restarts.Asked{Counts: counts}
	for word := range strings.FieldsSeq(runs) {
		name, number, _ := strings.Cut(word, "#")
		r := restarts.Run{Container: name, ID: "t://" + word}
		_, _ = fmt.Sscan(number, &r.RestartCount)
		a.Runs = append(a.Runs, r)
	}
	return a
}

func say(runs []restarts.Run) string {
	var out []string
	for _, r := range runs {
		out = append(out, strings.TrimPrefix(r.ID, "t://"))
	}
	return strings.Join(out, " ")
}

// TestChoose: OC2: which runs are meant, and what is refused.
func TestChoose(t *testing.T) {
	never := func(name string) func(*v1.Pod) {
		return func(p *v1.Pod) {
			for i := range p.Spec.Containers {
				if p.Spec.Containers[i].Name == name {
					p.Spec.Containers[i].RestartPolicy = ptr.To(v1.ContainerRestartPolicyNever)
				}
			}
		}
	}
	const all = "debug#0=running main#2=running other#0=running proxy#1=running setup#0=exited"
	for _, test := range []struct {
		name, view, pending, names string
		policy                     v1.RestartPolicy
		change                     func(*v1.Pod)
		want                       string
		err                        error
	}{
		{name: "all that run, and no init or ephemeral container", view: all, want: "proxy#1 main#2 other#0"},
		{name: "under OnFailure", view: all, policy: v1.RestartPolicyOnFailure, want: "proxy#1 main#2 other#0"},
		{name: "those that are named", view: all, names: "other proxy", want: "other#0 proxy#1"},
		{name: "one that has ended is left alone", view: "main#2=running other#0=exited proxy#1=running", want: "proxy#1 main#2"},
		{name: "while init goes on: the sidecars", view: "proxy#1=running setup#0=running", want: "proxy#1"},
		{name: "the newest run", view: "main#3=running main#2=exited", want: "main#3"},
		{name: "nothing is there", view: "", err: runtime.ErrFailedPrecondition},
		{name: "nothing runs", view: "main#2=exited other#0=created proxy#1=unknown", err: runtime.ErrFailedPrecondition},
		{name: "policy Never", view: all, policy: v1.RestartPolicyNever, err: runtime.ErrFailedPrecondition},
		{name: "policy Never, the sidecar", view: all, policy: v1.RestartPolicyNever, names: "proxy", want: "proxy#1"},
		{name: "a container of its own policy Never", view: all, change: never("other"), err: runtime.ErrFailedPrecondition},
		{name: "beside such a one", view: all, change: never("other"), names: "main", want: "main#2"},
		{name: "such a one has ended", view: "main#2=running other#0=exited", change: never("other"), want: "main#2"},
		{name: "one that does not run, by name", view: "main#2=running other#0=exited", names: "main other", err: runtime.ErrFailedPrecondition},
		{name: "an init container", view: all, names: "setup", err: runtime.ErrFailedPrecondition},
		{name: "an ephemeral container", view: all, names: "debug", err: runtime.ErrFailedPrecondition},
		{name: "an unknown container", view: all, names: "main nope", err: runtime.ErrNotFound},
		{name: "joins a restart under way: not stopped yet", view: all, pending: "main#2", names: "main", want: "main#2"},
		{name: "joins: stopped", view: "main#2=exited other#0=running", pending: "main#2", want: "main#2 other#0"},
		{name: "joins: the next one is only created", view: "main#3=created main#2=exited", pending: "main#2", want: "main#2"},
		{name: "a new wish for the new run", view: "main#3=running main#2=exited", pending: "main#2", want: "main#3"},
		{name: "one that has ended since", view: "main#3=exited main#2=exited", pending: "main#2", err: runtime.ErrFailedPrecondition},
	} {
		t.Run(test.name, func(t *testing.T) {
			pod := newPod(test.policy)
			if test.change != nil {
				test.change(pod)
			}
			runs, err := restarts.Choose(pod, view(test.view), asked(test.pending, nil), strings.Fields(test.names))
			if say(runs) != test.want || cri.Class(err) != test.err || !errors.Is(err, test.err) {
				t.Errorf("%q, %v; want %q, %v", say(runs), err, test.want, test.err)
			}
		})
	}
}

// TestRunWithALowCount: OC2. The run that goes on has a lower count than an earlier one, which lists had lacked
// (spec/runtime.md 1.3). That one does not replace it.
func TestRunWithALowCount(t *testing.T) {
	pod := newPod(v1.RestartPolicyOnFailure)
	runs, err := restarts.Choose(pod, view("main#0=running main#5=exited"), nil, []string{"main"})
	if err != nil || say(runs) != "main#0" {
		t.Fatalf("%s, %v", say(runs), err)
	}
	a := (*restarts.Asked)(nil).With(runs, "", time.Time{})
	for shown, pending := range map[string]bool{
		"main#5=exited main#0=exited": true, "main#6=created main#5=exited main#0=exited": true, "main#6=running main#5=exited main#0=exited": false,
	} {
		if got := a.After(pod, view(shown)).Pending(); got != pending {
			t.Errorf("%s: pending %v, want %v", shown, got, pending)
		}
	}
	runs, _ = restarts.Choose(pod, view("main#0=running main#1=created"), nil, []string{"main"})
	if (*restarts.Asked)(nil).With(runs, "", time.Time{}).After(pod, view("main#1=running main#0=exited")).Pending() {
		t.Error("the next run took the number of one that was only created, and does not count")
	}
}

// TestAfter: OC2: a run is replaced when a later one of its container has begun, and counted once.
func TestAfter(t *testing.T) {
	for _, test := range []struct {
		name, view, left string
		counted          int // of main, which had one before
	}{
		{"still running", "main#2=running", "main#2", 1},
		{"stopped", "main#2=exited", "main#2", 1},
		{"the next one is made, and not started", "main#3=created main#2=exited", "main#2", 1},
		{"the next one runs", "main#3=running main#2=exited", "", 2},
		{"the next one has ended already", "main#3=exited main#2=exited", "", 2},
		{"the runtime has lost all", "", "main#2", 1},
		{"the runtime has lost it, and another runs", "main#5=running", "", 2},
		{"a list from before the run", "main#1=exited", "main#2", 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			before := asked("main#2", map[string]int{"main": 1})
			after := before.After(newPod(""), view(test.view))
			if say(after.Runs) != test.left || after.Count("main") != test.counted {
				t.Errorf("left %q, counted %d; want %q, %d", say(after.Runs), after.Count("main"), test.left, test.counted)
			}
			if (after == before) != (test.left != "") || before.Count("main") != 1 || len(before.Runs) != 1 {
				t.Errorf("the value was changed, or not replaced: %+v, %+v", before, after)
			}
		})
	}
	gone := asked("gone#0 main#0", nil).After(newPod(""), view("main#0=running"))
	if say(gone.Runs) != "main#0" || gone.Count("gone") != 0 {
		t.Errorf("a container that is no longer part of the pod: %+v", gone)
	}
}

// TestAsked: nil is empty, runs are asked for once, and what was not written down is taken back.
func TestAsked(t *testing.T) {
	var none *restarts.Asked
	id := runtime.ContainerID{Runtime: "t", ID: "main#1"}
	if none.Pending() || none.Has(id) || none.Count("main") != 0 || none.String() != "" || none.After(newPod(""), view("")) != nil || none.Without(nil) != nil {
		t.Error("nil is not empty")
	}
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	first := none.With(asked("main#1", nil).Runs, "The disk is new.", at)
	both := first.With(asked("main#1 other#0", nil).Runs, "The node is new.", at.Add(time.Hour))
	if say(first.Runs) != "main#1" || say(both.Runs) != "main#1 other#0" || !both.Has(id) || !both.Any(first.Runs) {
		t.Errorf("%+v, %+v", first, both)
	}
	if got, want := both.String(), "main, other, requested at 2026-01-02T04:04:05Z: The node is new."; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	main := func(r restarts.Run) bool { return r.Container == "main" }
	if left := both.Without(main); say(left.Runs) != "other#0" || say(both.Runs) != "main#1 other#0" {
		t.Errorf("%+v, %+v", left, both)
	}
	if left := first.Without(main); left != nil {
		t.Errorf("nothing is left: %+v", left)
	}
	if left := asked("main#1", map[string]int{"main": 3}).Without(main); left.Count("main") != 3 || left.Pending() {
		t.Errorf("the count is lost: %+v", left)
	}
}

// TestOwn: spec/runtime.md 6.12: runs that are replaced for a reason of the engine's own are no requests: they are neither told nor counted.
func TestOwn(t *testing.T) {
	var none *restarts.Asked
	id := runtime.ContainerID{Runtime: "t", ID: "main#1"}
	runs := asked("main#1", nil).Runs
	own := none.WithOwn(runs)
	if !own.Pending() || !own.Has(id) || !own.HasID(id.String()) || own.Requested(id) || own.Any(runs) || own.String() != "" {
		t.Errorf("%+v", own)
	}
	if own.WithOwn(slices.Clone(runs)) != own || none.WithOwn(nil) != nil || own.WithOwn(nil) != nil {
		t.Error("the same runs make another value, or none a value")
	}
	if after := own.After(newPod(""), view("main#1=exited")); after != own {
		t.Errorf("nothing has replaced it: %+v", after)
	}
	if after := own.After(newPod(""), view("main#2=running main#1=exited")); after != nil {
		t.Errorf("it is replaced: %+v", after)
	}
	both := own.With(runs, "The disk is new.", time.Unix(1, 0))
	if !both.Requested(id) || say(both.Own) != "main#1" || both.String() == "" {
		t.Errorf("a caller wants it, too: %+v", both)
	}
	if left := both.Without(func(restarts.Run) bool { return true }); left.Requested(id) || !left.Has(id) {
		t.Errorf("the request was taken back: %+v", left)
	}
	if after := both.After(newPod(""), view("main#2=running main#1=exited")); after.Pending() || after.Count("main") != 1 {
		t.Errorf("it was replaced on request: %+v", after)
	}
	runs[0].Container = "gone"
	if after := none.WithOwn(runs).After(newPod(""), view("")); after != nil {
		t.Errorf("its container is no longer part of the pod: %+v", after)
	}
}
