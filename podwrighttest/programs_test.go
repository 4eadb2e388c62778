package podwrighttest_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/podwright/podwright/podwrighttest"
)

// Programs are data: a file of the test, or a string in the test.
func ExampleParsePrograms() {
	programs, err := podwrighttest.ParsePrograms([]byte(`{"web": {"readyAfter": "5s"}, "job/main": {"runsFor": "1m30s", "exitsWith": 3, "times": 2}}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(programs["web"].ReadyAfter, programs["job/main"].RunsFor, programs["job/main"].ExitsWith)
	_, err = podwrighttest.ParsePrograms([]byte(`{"web": {"runsFor": 5}, "job": {"exitsWith": 300}}`))
	fmt.Println(err)
	// Output:
	// 5s 1m30s 3
	// program "job": exitsWith 300 is not an exit code (0 to 255)
	// program "web": a time is a string such as "1m30s", not 5
}

// Two nodes share a bubble that the test has made.
func ExampleStart() {
	_ = func(t *testing.T) { // TestMove
		synctest.Test(t, func(t *testing.T) {
			a, b := podwrighttest.Start(t, podwrighttest.Options{}), podwrighttest.Start(t, podwrighttest.Options{})
			a.Add(podwrighttest.Pod("web"))
			a.WaitReady("web")
			a.Remove("web")
			b.Add(podwrighttest.Pod("web"))
			b.WaitReady("web")
			a.WaitGone("web")
		})
	}
	fmt.Println("go test -run TestMove")
	// Output: go test -run TestMove
}

func TestProgramsAreReadWhole(t *testing.T) {
	got, err := podwrighttest.ParsePrograms([]byte(`{"c": {"runsFor": "1s", "exitsWith": 2, "exits": true, "reason": "OOMKilled", "times": 3,
		"ignoresTERM": true, "stopsIn": "4s", "stoppedWith": 5, "readyAfter": "6s", "prints": ["a"], "startError": "b"}}`))
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]podwrighttest.Program{"c": {
		RunsFor: time.Second, ExitsWith: 2, Exits: true, Reason: "OOMKilled", Times: 3, IgnoresTERM: true, StopsIn: 4 * time.Second,
		StoppedWith: 5, ReadyAfter: 6 * time.Second, Prints: []string{"a"}, StartError: "b",
	}}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

func TestBadProgramsAreNamed(t *testing.T) {
	for text, want := range map[string]string{
		`{`:                                "programs: ",
		`[]`:                               "programs: ",
		`{"web": {"runFor": "1s"}}`:        `program "web": json: unknown field "runFor"`,
		`{"web": {"runsFor": "-1s"}}`:      "runsFor -1s is negative",
		`{"web": {"stopsIn": "soon"}}`:     `"soon"`,
		`{"web": {"stoppedWith": -1}}`:     "stoppedWith -1 is not an exit code",
		`{"web": {"times": 2}}`:            "does not end by itself",
		`{"web": {"reason": "OOMKilled"}}`: "does not end by itself",
	} {
		if _, err := podwrighttest.ParsePrograms([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %q", text, err, want)
		}
	}
}
