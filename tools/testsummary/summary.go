package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
)

// event is one line of `go test -json` (cmd/test2json).
type event struct {
	Action     string
	Package    string
	ImportPath string
	Test       string
	Output     string
	Elapsed    float64
	// Code is the exit code in an "exit" event, which tools/ci/test.sh writes
	// after each go test command.
	Code int
	// Runtime names the container runtime of all later events, and Programs is the folder of its
	// programs, in a "runtime" event, which tools/ci/test.sh writes before it tests on a runtime.
	Runtime, Programs string
}

// summary collects the events of one run.
type summary struct {
	passed, failed, skipped int
	packages                map[string]string // package -> its worst action
	output                  map[string][]string
	// failures are the top-level tests that failed, in order.
	failures []*failure
	// hard says why a failure must not be repeated, by package.
	hard map[string]string
	// named counts failed packages since the last "exit" event; unnamed are go
	// test commands that failed without naming a package.
	named, unnamed int
	// suites are the runs of runtime/runtimetest: package and test -> cases.
	suites map[string]*suite
	// runtimes are the container runtimes that the tests ran on, in order; the last one is the next
	// event's.
	runtimes []*runtimeRun
	// explored are the results of the state machine's exploration.
	explored []string
	skips    []string
	out      io.Writer
}

// suite is one run of the conformance suite for runtimes.
type suite struct {
	pkg, test, on   string
	passed, skipped int
	ok              bool
}

// suiteMark is the name of the suite's first case, below the test that runs the suite.
const suiteMark = "/runtime/version_names_the_runtime"

func newSummary(out io.Writer) *summary {
	return &summary{
		packages: map[string]string{}, output: map[string][]string{}, suites: map[string]*suite{}, hard: map[string]string{}, out: out,
	}
}

func (s *summary) read(r io.Reader, log io.Writer) error {
	scanner := bufio.NewScanner(r)
	scanner.Buffer(make([]byte, 1<<20), 64<<20)
	for scanner.Scan() {
		var e event
		if err := json.Unmarshal(scanner.Bytes(), &e); err != nil {
			// Not an event, but a message of the go command itself.
			fmt.Fprintln(s.out, scanner.Text())
			continue
		}
		if _, err := io.WriteString(log, e.Output); err != nil {
			return err
		}
		s.take(e)
	}
	return scanner.Err()
}

func (s *summary) take(e event) {
	key := e.Package + " " + e.Test
	switch e.Action {
	case "runtime":
		s.runtimes = append(s.runtimes, &runtimeRun{name: e.Runtime, programs: e.Programs})
	case "output", "build-output":
		if e.Action == "build-output" {
			fmt.Fprint(s.out, e.Output)
			return
		}
		s.output[key] = append(s.output[key], e.Output)
		s.watch(e)
		if strings.Contains(e.Output, " invariants, ") {
			_, text, _ := strings.Cut(e.Output, ": ")
			s.explored = append(s.explored, strings.TrimSpace(text))
		}
	case "run":
		if parent, ok := strings.CutSuffix(e.Test, suiteMark); ok {
			s.suites[s.suiteKey(e.Package, parent)] = &suite{pkg: e.Package, test: parent, on: s.on()}
		}
	case "build-fail":
		s.packages[e.ImportPath] = "fail"
		s.hard[e.ImportPath] = "does not build"
	case "exit":
		if e.Code != 0 && s.named == 0 {
			s.unnamed++
		}
		s.named = 0
	case "pass", "fail", "skip":
		s.finish(e, key)
	}
}

func (s *summary) finish(e event, key string) {
	if e.Test == "" {
		s.finishPackage(e, key)
		return
	}
	s.count(e)
	text := strings.Join(s.output[key], "")
	delete(s.output, key)
	switch e.Action {
	case "pass":
		s.passed++
	case "skip":
		s.skipped++
		s.skips = append(s.skips, key+s.on())
	case "fail":
		s.failed++
		fmt.Fprintf(s.out, "FAIL  %s%s\n%s", key, s.on(), text)
		s.fail(e.Package, e.Test, text)
	}
	s.countOnRuntime(e, text)
}

// finishPackage keeps a package's failure even if a later command passes it: the unit tests and the
// containerd tests of a package are two runs.
func (s *summary) finishPackage(e event, key string) {
	if s.packages[e.Package] != "fail" {
		s.packages[e.Package] = e.Action
	}
	if e.Action != "skip" {
		fmt.Fprintf(s.out, "%-5s %s%s  %.1fs\n", e.Action, e.Package, s.on(), e.Elapsed)
	}
	if e.Action == "fail" {
		s.named++
		fmt.Fprint(s.out, strings.Join(s.output[key], ""))
		delete(s.output, key)
		unfinished := s.tellUnfinished(e.Package)
		switch {
		case len(unfinished) > 0:
			reason := cmp.Or(s.hard[e.Package], "the test process ended in a test: its other tests did not run")
			s.hard[e.Package] = reason + "; no end of " + strings.Join(unfinished, ", ")
		case s.hard[e.Package] == "" && !s.failedIn(e.Package):
			s.hard[e.Package] = "failed without a failing test"
		}
	}
	delete(s.output, key)
}

// tellUnfinished prints what the tests said that a package's process ended in, and returns their
// names: the last words of a process are in their output, not in the package's.
func (s *summary) tellUnfinished(pkg string) (names []string) {
	for _, key := range slices.Sorted(maps.Keys(s.output)) {
		if test, ok := strings.CutPrefix(key, pkg+" "); ok {
			fmt.Fprintf(s.out, "NO END  %s %s%s\n%s", pkg, test, s.on(), strings.Join(s.output[key], ""))
			delete(s.output, key)
			names = append(names, test)
		}
	}
	return names
}

// count adds a finished test to the conformance run that it is a case of.
func (s *summary) count(e event) {
	if run := s.suites[s.suiteKey(e.Package, e.Test)]; run != nil {
		run.ok = e.Action == "pass"
		return
	}
	for _, run := range s.suites {
		rest, ok := strings.CutPrefix(e.Test, run.test+"/")
		if !ok || run.pkg != e.Package || run.on != s.on() || strings.Count(rest, "/") != 1 {
			continue
		}
		switch e.Action {
		case "pass":
			run.passed++
		case "skip":
			run.skipped++
		}
	}
}

// print writes the closing lines and reports whether everything passed.
func (s *summary) print() bool {
	ok := s.failed == 0 && s.passed > 0 && s.unnamed == 0
	for _, name := range slices.Sorted(maps.Keys(s.packages)) {
		if s.packages[name] == "fail" {
			fmt.Fprintf(s.out, "package failed: %s\n", name)
			ok = false
		}
	}
	if s.unnamed > 0 {
		fmt.Fprintf(s.out, "%d go test commands failed without naming a package: see above\n", s.unnamed)
	}
	slices.Sort(s.skips)
	for _, name := range s.skips {
		fmt.Fprintf(s.out, "skipped: %s\n", name)
	}
	for _, text := range s.explored {
		fmt.Fprintf(s.out, "explored: %s\n", text)
	}
	for _, key := range slices.Sorted(maps.Keys(s.suites)) {
		run := s.suites[key]
		verdict := "FAILED"
		if run.ok {
			verdict = "passed"
		}
		fmt.Fprintf(s.out, "runtimetest %s: %s %s%s (%d cases, %d not applicable)\n", verdict, strings.TrimPrefix(run.pkg, module), run.test, run.on, run.passed, run.skipped)
	}
	s.compareRuntimes()
	fmt.Fprintf(s.out, "%d passed, %d failed, %d skipped\n", s.passed, s.failed, s.skipped)
	return ok
}
