package problem_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/podwright/podwright/internal/problem"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// Example shows what an operator reads.
func Example() {
	p := problem.Problem{
		Kind: problem.Pod, Severity: problem.Listed, Name: "default/web", UID: "u1", Since: start,
		Waits: "its record to be written", Advice: "look at the disk of the engine's folder",
	}
	fmt.Println(p.Because(errors.New("no space left on device")))
	// Output:
	// pod default/web (u1): since 2026-01-02T03:04:05Z waits for its record to be written: no space left on device; look at the disk of the engine's folder
}

// TestListIsSorted: IN2. Problems are sorted by since, then name.
func TestListIsSorted(t *testing.T) {
	at := func(name string, seconds int) problem.Problem {
		return problem.Problem{Name: name, Since: start.Add(time.Duration(seconds) * time.Second)}
	}
	all := problem.List(
		func() []problem.Problem { return []problem.Problem{at("c", 2), at("b", 1)} },
		func() []problem.Problem { return nil },
		func() []problem.Problem { return []problem.Problem{at("a", 1), at("d", 0)} },
	)
	var names []string
	for _, p := range all {
		names = append(names, p.Name)
	}
	if got := strings.Join(names, " "); got != "d a b c" {
		t.Error(got)
	}
	if problem.List(func() []problem.Problem { return nil }) != nil {
		t.Error("no problems are a list")
	}
}

// TestHealthIsWhatHarmsAll: IN2. A problem of one pod does not make the engine unhealthy, and
// the error behind one that does can be found.
func TestHealthIsWhatHarmsAll(t *testing.T) {
	disk := errors.New("the disk is gone")
	one := problem.Problem{Kind: problem.Pod, Severity: problem.Listed, Name: "web"}
	all := problem.Problem{Kind: problem.Record, Severity: problem.Unhealthy, Name: "store"}.Because(disk)
	if err := problem.Health([]problem.Problem{one}); err != nil {
		t.Errorf("one pod: %v", err)
	}
	if err := problem.Health([]problem.Problem{one, all}); !errors.Is(err, disk) || strings.Contains(err.Error(), "web") {
		t.Errorf("the store: %v", err)
	}
}

// TestProblemIsOneLine: a panic's stack, and an error of several lines, fit into one line.
func TestProblemIsOneLine(t *testing.T) {
	for text, want := range map[string]string{
		"panic: no\ngoroutine 7 [running]:\nmain.main()": "panic: no",
		"source a: down\nsource b: down":                 "source a: down; source b: down",
	} {
		p := problem.Problem{Kind: problem.Source}.Because(errors.New(text))
		if p.Cause != want || strings.Contains(p.String(), "\n") {
			t.Errorf("cause %q, want %q, in %q", p.Cause, want, p)
		}
	}
}

// TestProblemEncodes: the names of the JSON are those that dashboards read.
func TestProblemEncodes(t *testing.T) {
	p := problem.Problem{Kind: problem.Sink, Severity: problem.Listed, Name: "api", Since: start, Waits: "an answer", Advice: "look"}
	text, err := json.Marshal(p)
	want := `{"kind":"sink","severity":"listed","name":"api","since":"2026-01-02T03:04:05Z","waitsFor":"an answer","advice":"look"}`
	if err != nil || string(text) != want {
		t.Errorf("%s, %v", text, err)
	}
}
