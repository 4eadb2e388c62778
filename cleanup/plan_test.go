package cleanup

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/podwright/podwright/internal/podinfo"
	"github.com/podwright/podwright/runtime"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func newPod(uid string, edits ...func(*v1.Pod)) *v1.Pod {
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: types.UID(uid), Name: uid, Namespace: "ns"}}
	for _, e := range edits {
		e(p)
	}
	return p
}

func deleted(p *v1.Pod) { p.DeletionTimestamp = &metav1.Time{} }

func phase(phase v1.PodPhase) func(*v1.Pod) {
	return func(p *v1.Pod) { p.Status.Phase = phase }
}

func fromFile(p *v1.Pod) { p.Annotations = map[string]string{podinfo.AnnotationSource: "file"} }

func runs(uid string) *runtime.Pod {
	return &runtime.Pod{UID: types.UID(uid), Name: uid, Namespace: "ns", Sandboxes: []*runtime.Sandbox{{State: runtime.Running}}}
}

func set(uids ...types.UID) map[types.UID]bool {
	m := map[types.UID]bool{}
	for _, u := range uids {
		m[u] = true
	}
	return m
}

// show renders actions as "what uid", with the id of the rule that forbids it.
func show(p Plan) []string {
	out := []string{}
	for _, a := range p.Actions {
		line := a.Step.String() + " " + string(a.PodUID)
		if !a.Allowed() {
			rule := string(a.Forbidden.Rule)
			line += " not " + rule
		}
		out = append(out, line)
	}
	return out
}

// TestMakePlan: one row per decision of section 3.
func TestMakePlan(t *testing.T) {
	known := func(s WorkerState) map[types.UID]Worker {
		return map[types.UID]Worker{"a": {State: s, HasConfig: true}}
	}
	a := func(edits ...func(*v1.Pod)) []*v1.Pod { return []*v1.Pod{newPod("a", edits...)} }
	down := errors.New("runtime is down")
	unread := errors.New("manifest x has been unreadable since the start")
	tests := []struct {
		name string
		in   input
		want []string
	}{
		{"12 desired without a worker", input{Desired: a()}, []string{"restart a"}},
		{"12 with a worker: converged, ID2", input{Desired: a(), Workers: known(WorkerSync)}, []string{}},
		{"12 HI4, edge 5: still in the runtime, not killed as an orphan", input{Desired: a(fromFile), Running: []*runtime.Pod{runs("a")}}, []string{"restart a"}},
		{"12 edge 8: ended by config", input{Desired: a(phase(v1.PodSucceeded))}, []string{}},
		{"12 edge 9: ended locally (refused)", input{Desired: a(), Phases: map[types.UID]v1.PodPhase{"a": v1.PodFailed}}, []string{}},
		{"12 R2: the local phase is of the old life", input{Desired: a(), Phases: map[types.UID]v1.PodPhase{"a": v1.PodFailed}, Workers: map[types.UID]Worker{"a": {State: WorkerTerminated, HasConfig: true, Restart: true}}}, []string{"restart a"}},
		{"12 R2: ended by config", input{Desired: a(phase(v1.PodFailed)), Workers: map[types.UID]Worker{"a": {State: WorkerTerminated, HasConfig: true, Restart: true}}}, []string{}},
		{"12 R2, B2: setup is held back", input{Desired: a(), SetupHeld: down, Workers: map[types.UID]Worker{"a": {State: WorkerTerminated, HasConfig: true, Restart: true}}}, []string{"restart a not B2"}},
		{"12 B2: setup is held back", input{Desired: a(), SetupHeld: down}, []string{"restart a not B2"}},
		{"12 HK4: no list", input{Desired: a(), RunningErr: down}, []string{"restart a not ND11"}},
		{"12 held back, and 14: it is no orphan either", input{Desired: a(), SetupHeld: down, Running: []*runtime.Pod{runs("a")}}, []string{"restart a not B2"}},
		{"12 B2: not handed over yet, and 14: no orphan", input{Desired: a(), Withheld: set("a"), Running: []*runtime.Pod{runs("a")}}, []string{"restart a not B2"}},
		{"13 edge 6: refused, then deleted", input{Desired: a(deleted), Phases: map[types.UID]v1.PodPhase{"a": v1.PodFailed}}, []string{"finish a"}},
		{"13 ended by config, deleted", input{Desired: a(deleted, phase(v1.PodFailed))}, []string{"finish a"}},
		{"13 edge 6: not every pass", input{Desired: a(deleted, phase(v1.PodFailed)), Workers: known(WorkerTerminated)}, []string{}},
		{"13 edge 7: pending is not touched, it is about to start", input{Desired: a(deleted, phase(v1.PodPending))}, []string{"restart a"}},
		{"13 runs: an orphan of the runtime first", input{Desired: a(deleted, phase(v1.PodFailed)), Running: []*runtime.Pod{runs("a")}}, []string{"kill orphan a"}},
		{"14 edge 4: it is not known", input{Running: []*runtime.Pod{runs("a")}}, []string{"kill orphan a"}},
		{"14 known", input{Running: []*runtime.Pod{runs("a")}, Workers: known(WorkerTerminating)}, []string{}},
		{"14 known and terminated: its worker will see to it", input{Running: []*runtime.Pod{runs("a")}, Workers: known(WorkerTerminated)}, []string{}},
		{"14 HK4, ND11, edge 2: the list failed", input{Running: []*runtime.Pod{runs("a")}, RunningErr: down}, []string{}},
		{
			"SG1, edge 1: a source is missing",
			input{Desired: a(), Running: []*runtime.Pod{runs("b")}, PodDirs: []types.UID{"c"}, Content: []types.UID{"c"}, ContentGoes: set("c")},
			[]string{"remove pod folder c not SG1", "restart a not SG1", "kill orphan b not SG1", "remove content c not SG1"},
		},

		{"9 a folder without a pod", input{PodDirs: []types.UID{"a"}}, []string{"remove pod folder a"}},
		{"9 ND2: desired, ended or not", input{PodDirs: []types.UID{"a"}, Desired: a(phase(v1.PodFailed))}, []string{"remove pod folder a not ND2"}},
		{"9 ND2: runs", input{PodDirs: []types.UID{"a"}, Running: []*runtime.Pod{runs("a")}}, []string{"remove pod folder a not ND2", "kill orphan a"}},
		{"9 ND2, edge 3: an orphan that has not finished", input{PodDirs: []types.UID{"a"}, Workers: known(WorkerTerminated)}, []string{"remove pod folder a not ND2"}},
		{"9 ND11: no list", input{PodDirs: []types.UID{"a"}, RunningErr: down}, []string{"remove pod folder a not ND11"}},
		{"9 OD10: its last removal failed", input{PodDirs: []types.UID{"a"}, Waiting: map[candidate]Denial{{StepDirectories, "a"}: {Rule: "OD10", Why: "busy"}}}, []string{"remove pod folder a not OD10"}},
		{"CG4 a: a gone pod", input{Content: []types.UID{"a"}, ContentGoes: set("a")}, []string{"remove content a"}},
		{"CG4 a: the workers have not released it", input{Content: []types.UID{"a"}}, []string{"remove content a not ND2"}},
		{"CG9 ND3: desired", input{Content: []types.UID{"a"}, ContentGoes: set("a"), Desired: a(phase(v1.PodFailed))}, []string{"remove content a not ND2"}},
		{"ND2: its last status is still read from it", input{Content: []types.UID{"a"}, ContentGoes: set("a"), Workers: known(WorkerTerminated)}, []string{"remove content a not ND2"}},
		{"LG1: logs of a gone pod", input{LogDirs: []types.UID{"a"}, ContentGoes: set("a")}, []string{"remove logs a"}},
		{"LG1 ND2: logs of a pod that is restarted now", input{LogDirs: []types.UID{"a"}, ContentGoes: set("a"), Desired: a()}, []string{"restart a", "remove logs a not ND2"}},
		{
			"ND2: a source is undecided, the pods were never known: nothing is done to them",
			input{
				Undecided: unread, Seen: set("b"), Running: []*runtime.Pod{runs("a")}, PodDirs: []types.UID{"a", "c"},
				Content: []types.UID{"c"}, LogDirs: []types.UID{"c"}, ContentGoes: set("c"),
			},
			[]string{"remove pod folder a not ND2", "remove pod folder c not ND2", "kill orphan a not ND2", "remove content c not ND2", "remove logs c not ND2"},
		},
		{
			"ND2: a source is undecided, the pods were known: all goes on",
			input{
				Undecided: unread, Seen: set("a", "c", "d"), Running: []*runtime.Pod{runs("a")}, PodDirs: []types.UID{"c"},
				Content: []types.UID{"c"}, LogDirs: []types.UID{"c"}, ContentGoes: set("c"), Desired: []*v1.Pod{newPod("d")},
			},
			[]string{"remove pod folder c", "restart d", "kill orphan a", "remove content c", "remove logs c"},
		},
		{"a candidate twice", input{PodDirs: []types.UID{"a", "b", "a"}}, []string{"remove pod folder a", "remove pod folder b"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			test.in.SourcesReady = !strings.HasPrefix(test.name, "SG1")
			test.in.Explain = true
			if diff := cmp.Diff(test.want, show(makePlan(test.in))); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestActive is syncloop.md AD4.
func TestActive(t *testing.T) {
	tests := []struct {
		name   string
		pod    *v1.Pod
		local  v1.PodPhase
		worker *Worker
		want   bool
	}{
		{"new", newPod("a"), "", nil, true},
		{"set up", newPod("a"), v1.PodRunning, &Worker{State: WorkerSync}, true},
		{"ended in config", newPod("a", phase(v1.PodFailed)), "", nil, false},
		{"ended locally", newPod("a"), v1.PodSucceeded, nil, false},
		{"ended locally, its worker has not heard", newPod("a"), v1.PodFailed, &Worker{State: WorkerSync}, false},
		{"ended, but containers are still terminating", newPod("a"), v1.PodFailed, &Worker{State: WorkerTerminating}, true},
		{"known terminated", newPod("a"), v1.PodRunning, &Worker{State: WorkerTerminated}, false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			in := input{SourcesReady: true, Desired: []*v1.Pod{test.pod}, Phases: map[types.UID]v1.PodPhase{"a": test.local}}
			if test.worker != nil {
				in.Workers = map[types.UID]Worker{"a": *test.worker}
			}
			if got := makePlan(in).Active["a"]; got != test.want {
				t.Errorf("active %v, want %v", got, test.want)
			}
		})
	}
}

// TestPlanReads: a plan in JSON tells what and why (DR3, DR4).
func TestPlanReads(t *testing.T) {
	p := makePlan(input{SourcesReady: true, Desired: []*v1.Pod{newPod("a")}, PodDirs: []types.UID{"a"}, SetupHeld: errors.New("runtime is down"), Explain: true})
	got, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	want := `{"actions":[` +
		`{"step":"remove pod folder","kind":"pod folder","podUID":"a","object":"a","reason":"no pod has this folder","forbidden":"ND2: the pod is desired"},` +
		`{"step":"restart","kind":"pod","podUID":"a","object":"ns/a","reason":"desired, but without a worker","forbidden":"B2: setup is held back: runtime is down"}]}`
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestUndecidedReads: the plan names the manifest that keeps a pod alive (DR3).
func TestUndecidedReads(t *testing.T) {
	p := makePlan(input{SourcesReady: true, Undecided: errors.New("source file: manifest x is malformed"), Running: []*runtime.Pod{runs("a")}})
	want := "ND2: the pod may be wanted by a source that cannot name it yet: source file: manifest x is malformed"
	if got := p.Actions[0].Forbidden.String(); got != want {
		t.Errorf("forbidden by %q, want %q", got, want)
	}
}

// TestPlanProperties: over random inputs, equal inputs give equal plans in order
// (ID3, edge 37); everything that runs has a worker or gets one (HI2); no pod is
// both restarted and killed (HI4); nothing of a pod that is desired, known or
// running is removed (ND2); nothing is allowed before all sources are seen (HI1);
// while a source is undecided, only pods that were met are killed or removed (ND2).
func TestPlanProperties(t *testing.T) { rapid.Check(t, planProperties) }

func planProperties(t *rapid.T) {
	in := randomInput(t)
	slices.Reverse(in.PodDirs)
	dirs := slices.Clone(in.PodDirs)
	first, second := makePlan(in), makePlan(in)
	if !slices.Equal(dirs, in.PodDirs) {
		t.Fatal("the input was changed")
	}
	if diff := cmp.Diff(first, second); diff != "" {
		t.Fatalf("two plans differ:\n%s", diff)
	}
	covered, restarted := map[types.UID]bool{}, map[types.UID]bool{}
	for uid := range in.Workers {
		covered[uid] = true
	}
	desired, running := map[types.UID]bool{}, map[types.UID]bool{}
	for _, p := range in.Desired {
		desired[p.UID] = true
	}
	for _, p := range in.Running {
		running[p.UID] = true
	}
	last := Action{}
	for _, a := range first.Actions {
		if a.Step < last.Step || a.Step == last.Step && a.PodUID <= last.PodUID {
			t.Fatalf("%v after %v", a, last)
		}
		last = a
		if !in.SourcesReady && a.Allowed() {
			t.Fatalf("%v is allowed before all sources are seen", a)
		}
		if in.Undecided != nil && a.Allowed() && !desired[a.PodUID] && !in.Seen[a.PodUID] {
			t.Fatalf("%v is allowed, though it is not known whether it is wanted", a)
		}
		switch a.Step {
		case StepRestart:
			covered[a.PodUID], restarted[a.PodUID] = true, true
		case StepKillOrphan:
			covered[a.PodUID] = true
			if restarted[a.PodUID] {
				t.Fatalf("%s is restarted and killed", a.PodUID)
			}
		case StepContent, StepLogs, StepDirectories:
			_, known := in.Workers[a.PodUID]
			if a.Allowed() && (desired[a.PodUID] || running[a.PodUID] || known || in.RunningErr != nil) {
				t.Fatalf("%v is allowed", a)
			}
		}
	}
	for uid := range running {
		if !covered[uid] && in.RunningErr == nil {
			t.Fatalf("%s runs and has no worker after the pass", uid)
		}
	}
}

func randomInput(t *rapid.T) input {
	in := input{
		SourcesReady: rapid.IntRange(0, 9).Draw(t, "ready") > 0,
		Workers:      map[types.UID]Worker{},
		Phases:       map[types.UID]v1.PodPhase{}, ContentGoes: map[types.UID]bool{}, Seen: map[types.UID]bool{},
	}
	if rapid.IntRange(0, 2).Draw(t, "undecided") == 0 {
		in.Undecided = errors.New("undecided")
	}
	if rapid.IntRange(0, 4).Draw(t, "list") == 0 {
		in.RunningErr = errors.New("list failed")
	}
	if rapid.IntRange(0, 4).Draw(t, "gate") == 0 {
		in.SetupHeld = errors.New("held")
	}
	phases := rapid.SampledFrom([]v1.PodPhase{"", v1.PodPending, v1.PodRunning, v1.PodFailed})
	for i := range rapid.IntRange(0, 6).Draw(t, "pods") {
		uid := types.UID(fmt.Sprint("p", i))
		yes := func(what string) bool { return rapid.Bool().Draw(t, what) }
		if yes("desired") {
			p := newPod(string(uid), phase(phases.Draw(t, "phase")))
			if yes("deleted") {
				deleted(p)
			}
			in.Desired = append(in.Desired, p)
		}
		if yes("worker") {
			in.Workers[uid] = Worker{State: WorkerState(rapid.IntRange(0, 2).Draw(t, "state"))}
		} else if yes("over") && len(in.Desired) > 0 && in.Desired[len(in.Desired)-1].UID == uid {
			in.Workers[uid] = Worker{State: WorkerTerminated, Restart: true}
		}
		if yes("running") {
			in.Running = append(in.Running, runs(string(uid)))
		}
		in.Phases[uid] = phases.Draw(t, "local phase")
		in.ContentGoes[uid] = yes("content goes")
		in.Seen[uid] = yes("met")
		for _, list := range []*[]types.UID{&in.Content, &in.LogDirs, &in.PodDirs} {
			if yes("left over") {
				*list = append(*list, uid)
			}
		}
	}
	return in
}

// BenchmarkPlan plans a converged node: the answer is to do nothing.
func BenchmarkPlan(b *testing.B) {
	const n = 1000
	in := input{SourcesReady: true, Workers: map[types.UID]Worker{}, Phases: map[types.UID]v1.PodPhase{}}
	for i := range n {
		uid := fmt.Sprintf("%032x", i)
		in.Desired = append(in.Desired, newPod(uid))
		in.Workers[types.UID(uid)] = Worker{HasConfig: true}
		in.Phases[types.UID(uid)] = v1.PodRunning
		in.Running = append(in.Running, runs(uid))
		for _, list := range []*[]types.UID{&in.PodDirs, &in.LogDirs, &in.Cgroups, &in.UserRanges} {
			*list = append(*list, types.UID(uid))
		}
	}
	b.Run(fmt.Sprintf("pods=%d", n), func(b *testing.B) {
		b.ReportAllocs()
		for range b.N {
			if p := makePlan(in); len(p.Actions) != 0 || len(p.Active) != n {
				b.Fatalf("%d actions", len(p.Actions))
			}
		}
		b.ReportMetric(0, "actions")
	})
}
