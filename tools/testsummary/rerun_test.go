package main

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// results answers further runs of tests from a list, by test.
type results map[string][]bool

func (r results) run(f *failure) (bool, string) {
	passed := r[f.test][0]
	r[f.test] = r[f.test][1:]
	return passed, "output of another run\n"
}

const (
	passA    = `{"Action":"pass","Package":"p","Test":"TestA"}`
	outB     = `{"Action":"output","Package":"p","Test":"TestB","Output":"b.go:1: boom\\n"}`
	failB    = `{"Action":"fail","Package":"p","Test":"TestB"}`
	packageP = `{"Action":"fail","Package":"p"}`
	exit1    = `{"Action":"exit","Code":1}`
)

func output(text string) string {
	return `{"Action":"output","Package":"p","Test":"TestB","Output":"` + text + `\\n"}`
}

func TestOnlyRareFailuresOfTestsAreExcused(t *testing.T) {
	twice := func(first, second bool) results { return results{"TestB": {first, second}} }
	tests := []struct {
		name   string
		events []string
		more   results
		ok     bool
		want   string
	}{
		{"passes twice alone", []string{passA, outB, failB, packageP, exit1}, twice(true, true), true, "FLAKY p TestB: failed 1 of 3 runs (log: "},
		{"fails the second run", []string{passA, outB, failB, packageP, exit1}, twice(false, true), false, "FAILED p TestB: failed 2 of 3 runs"},
		{"fails the third run", []string{passA, outB, failB, packageP, exit1}, twice(true, false), false, "FAILED p TestB: failed 2 of 3 runs"},
		{"subtests count as their test", []string{
			passA, outB, `{"Action":"fail","Package":"p","Test":"TestB/one"}`, `{"Action":"fail","Package":"p","Test":"TestB/two"}`, failB, packageP, exit1,
		}, twice(true, true), true, "FLAKY p TestB"},
		{"data race", []string{passA, output("WARNING: DATA RACE"), failB, packageP, exit1}, nil, false, "no second run: p: data race"},
		{"panic", []string{passA, output("panic: boom"), failB, packageP, exit1}, nil, false, "no second run: p: panic or timeout"},
		{"process died", []string{
			passA, failB, `{"Action":"output","Package":"p","Output":"exit status 2\n"}`, packageP, exit1,
		}, nil, false, "no second run: p: the test process died"},
		{"process ended in a test after another had failed", []string{
			passA, outB, failB, `{"Action":"output","Package":"p","Test":"TestC","Output":"ThreadSanitizer: CHECK failed\n"}`, packageP, exit1,
		}, nil, false, "no second run: p: the test process ended in a test: its other tests did not run; no end of TestC"},
		{"time limit of the package", []string{
			passA, `{"Action":"output","Package":"p","Test":"TestC","Output":"panic: test timed out after 45m0s\n"}`, packageP, exit1,
		}, nil, false, "no second run: p: panic or timeout: the package's other tests did not run (panic: test timed out after 45m0s); no end of TestC"},
		{"goroutine leak", []string{passA, `{"Action":"output","Package":"p","Output":"goleak: Errors on successful test run\n"}`, packageP, exit1}, nil, false, "no second run: p: goroutine leak"},
		{"package without a failed test", []string{passA, packageP, exit1}, nil, false, "no second run: p: failed without a failing test"},
		{"leak in another package", []string{passA, failB, packageP, `{"Action":"fail","Package":"q"}`, exit1}, nil, false, "no second run: q: failed without a failing test"},
		{"build failure", []string{passA, failB, packageP, `{"Action":"build-fail","ImportPath":"q"}`, exit1}, nil, false, "no second run: q: does not build"},
		{"command failure", []string{passA, failB, packageP, exit1, exit1}, nil, false, "no second run: a go test command failed"},
		{"nothing passed", []string{failB, packageP, exit1}, nil, false, "no second run: no test passed"},
		{"four tests", []string{
			passA, failB, `{"Action":"fail","Package":"p","Test":"TestC"}`, `{"Action":"fail","Package":"p","Test":"TestD"}`,
			`{"Action":"fail","Package":"q","Test":"TestB"}`, packageP, exit1,
		}, nil, false, "no second run: 4 tests failed, more than 3"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var out bytes.Buffer
			s := newSummary(&out)
			if err := s.read(strings.NewReader(strings.Join(test.events, "\n")), io.Discard); err != nil {
				t.Fatal(err)
			}
			if s.print() {
				t.Fatalf("the first run passed:\n%s", &out)
			}
			out.Reset()
			if ok := s.rerun(test.more, t.TempDir()); ok != test.ok || !strings.Contains(out.String(), test.want) {
				t.Errorf("ok = %v, output:\n%swant ok = %v and %q", ok, &out, test.ok, test.want)
			}
		})
	}
}

func TestFlakyTestKeepsItsFirstOutput(t *testing.T) {
	var out bytes.Buffer
	s := newSummary(&out)
	if err := s.read(strings.NewReader(strings.Join([]string{passA, outB, failB, packageP}, "\n")), io.Discard); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if !s.rerun(results{"TestB": {true, true}}, dir) {
		t.Errorf("the run failed:\n%s", &out)
	}
	text, err := os.ReadFile(filepath.Join(dir, "flaky-TestB.log"))
	if err != nil || !strings.Contains(string(text), "b.go:1: boom") || !strings.Contains(out.String(), "b.go:1: boom") {
		t.Errorf("%v: log %q, printed %q: want the failure in both", err, text, &out)
	}
}

// A test that fails on two runtimes failed twice, and each is repeated where it failed.
func TestFailuresOnTwoRuntimesAreTwo(t *testing.T) {
	var out bytes.Buffer
	s := newSummary(&out)
	err := s.read(strings.NewReader(strings.Join([]string{
		passA, `{"Action":"runtime","Runtime":"old 1"}`, failB, packageP, exit1,
		`{"Action":"runtime","Runtime":"new 2","Programs":"/new"}`, failB, packageP, exit1,
	}, "\n")), io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	var where []string
	again := testerFunc(func(f *failure) (bool, string) {
		where = append(where, f.on.programs)
		return f.on.programs == "", ""
	})
	if s.rerun(again, t.TempDir()) {
		t.Error("passes though the test fails again on one of the runtimes")
	}
	if want := []string{"", "", "/new", "/new"}; !slices.Equal(where, want) {
		t.Errorf("repeated with programs of %q, want %q", where, want)
	}
	for _, want := range []string{"FLAKY p TestB on old 1: failed 1 of 3", "FAILED p TestB on new 2: failed 3 of 3"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in:\n%s", want, &out)
		}
	}
}

// testerFunc is a tester made of a function.
type testerFunc func(*failure) (bool, string)

func (f testerFunc) run(failed *failure) (bool, string) { return f(failed) }

func TestTestThatDidNotRunHasNotPassed(t *testing.T) {
	pass, skip, other := passA, `{"Action":"skip","Package":"p","Test":"TestA"}`, `{"Action":"pass","Package":"p"}`
	for events, want := range map[string]bool{pass: true, skip: false, other: false, "no such thing": false} {
		if got, _ := verdict([]byte(events), "TestA"); got != want {
			t.Errorf("verdict of %s = %v, want %v", events, got, want)
		}
	}
}

func TestModuleOfAPackage(t *testing.T) {
	for pkg, want := range map[string]string{
		module + "runtime/cri": ".", "github.com/podwright/podwright": ".", module + "examples/nodeagent": "examples", module + "tools/api": "tools", module + "kube/node": "kube",
	} {
		if got := moduleOf(pkg); got != want {
			t.Errorf("moduleOf(%s) = %s, want %s", pkg, got, want)
		}
	}
}
