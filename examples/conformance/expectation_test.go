package conformance

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

// observed is a pod with a finished init container "one" and a running "main".
func observed() Observed {
	at := func(s int) metav1.Time { return metav1.NewTime(time.Unix(int64(1000+s), 0)) }
	return Observed{
		Status: v1.PodStatus{
			Phase:      v1.PodRunning,
			Conditions: []v1.PodCondition{{Type: v1.PodReady, Status: v1.ConditionTrue}},
			InitContainerStatuses: []v1.ContainerStatus{{Name: "one", State: v1.ContainerState{Terminated: &v1.ContainerStateTerminated{
				Reason: "Completed", Message: "well", StartedAt: at(0), FinishedAt: at(2),
			}}}},
			ContainerStatuses: []v1.ContainerStatus{{Name: "main", RestartCount: 2, State: v1.ContainerState{
				Running: &v1.ContainerStateRunning{StartedAt: at(3)},
			}}},
		},
		Logs:   map[string]string{"main": "a\nb\n"},
		Events: []string{"Started"},
	}
}

func TestCheck(t *testing.T) {
	for _, tc := range []struct {
		name, want string
		ok         bool
	}{
		{"phase", "Running", true},
		{"phase", "Failed", false},
		{"reason", "", true},
		{"reason", "Evicted", false},
		{"ready", "true", true},
		{"ready", "false", false},
		{"state.main", "Running", true},
		{"state.one", "Terminated 0 Completed", true},
		{"state.one", "Terminated 1 Error", false},
		{"state.one", "Waiting PodInitializing|ContainerCreating", false},
		{"state.nobody", "Running", false},
		{"restarts.main", "2", true},
		{"restarts.main", ">=1", true},
		{"restarts.main", ">=3", false},
		{"restarts.main", "1", false},
		{"restarts.main", "many", false},
		{"message.one", "well", true},
		{"message.one", "~w.*l", true},
		{"message.one", "~w", false},
		{"message.main", "well", false},
		{"logs.main", "a\nb", true},
		{"logs.main", "a", false},
		{"event", "Started", true},
		{"event", "Started\nKilling", false},
		{"order", "one.started <= one.finished\none.finished <= main.started", true},
		{"order", "main.started <= one.finished", false},
		{"order", "one.finished + 1s <= main.started", true},
		{"order", "one.finished + 2s <= main.started", false},
		{"order", "one.finished <= main.finished", false},
		{"order", "one.finished before main.finished", false},
		{"nonsense", "", false},
	} {
		wrong := Expectation{tc.name: tc.want}.Check(observed())
		if (wrong == nil) != tc.ok {
			t.Errorf("%s: %s: found wrong: %v, want ok %v", tc.name, tc.want, wrong, tc.ok)
		}
	}
}

// TestAlternativesHoldTogether: a runtime does all of what the alternative says, or nothing of it.
func TestAlternativesHoldTogether(t *testing.T) {
	for name, tc := range map[string]struct {
		e  Expectation
		ok bool
	}{
		"as usual":         {Expectation{"phase": "Running", "or.phase": "Failed"}, true},
		"the other way":    {Expectation{"phase": "Failed", "or.phase": "Running", "restarts.main": "2"}, true},
		"neither":          {Expectation{"phase": "Failed", "or.phase": "Pending"}, false},
		"half of each":     {Expectation{"phase": "Running", "restarts.main": "0", "or.phase": "Failed", "or.restarts.main": "2"}, false},
		"the rest differs": {Expectation{"phase": "Failed", "or.phase": "Running", "restarts.main": "0"}, false},
	} {
		if wrong := tc.e.Check(observed()); (len(wrong) == 0) != tc.ok {
			t.Errorf("%s: %q", name, wrong)
		}
	}
}

func TestOf(t *testing.T) {
	pod := &v1.Pod{}
	pod.Annotations = map[string]string{"expect/phase": "Running", "expect/delete": "true", "expect/deleted.state.main": "Running", "note": "x"}
	life, deleted := Of(pod)
	if len(life) != 1 || life["phase"] != "Running" || len(deleted) != 1 || deleted["state.main"] != "Running" {
		t.Errorf("read %v and %v", life, deleted)
	}
}

// TestManifests: every manifest is a pod that expects something we understand.
func TestManifests(t *testing.T) {
	files, err := filepath.Glob("manifests/*.yaml")
	if err != nil || len(files) < 120 {
		t.Fatalf("%d manifests, want at least 120 (%v)", len(files), err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var pod v1.Pod
		if err := yaml.UnmarshalStrict(text, &pod); err != nil {
			t.Errorf("%s: %v", file, err)
			continue
		}
		if pod.Name+".yaml" != filepath.Base(file) {
			t.Errorf("%s holds pod %q", file, pod.Name)
		}
		life, deleted := Of(&pod)
		if len(life) == 0 {
			t.Errorf("%s expects nothing", file)
		}
		for _, e := range []Expectation{life, deleted} {
			for _, problem := range e.Check(observed()) {
				if strings.Contains(problem, "unknown expectation") || strings.Contains(problem, "is no ") {
					t.Errorf("%s: %s", file, problem)
				}
			}
		}
	}
}
