// Command testsummary reads `go test -json` output on standard input and prints
// what a person wants to see: a line per package, the full output of what
// failed, which runtimes passed the conformance suite, and the counts.
//
//	go test -json ./... | testsummary [-log FILE]
//
// It exits 1 if anything failed, if a package did not build, or if no test ran.
package main

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
)

// module is cut from package names where only we read them.
const module = "github.com/podwright/podwright/"

// event is one line of `go test -json` (cmd/test2json).
type event struct {
	Action     string
	Package    string
	ImportPath string
	Test       string
	Output     string
	Elapsed    float64
}

// summary collects the events of one run.
type summary struct {
	passed, failed, skipped int
	packages                map[string]string // package -> last action
	output                  map[string][]string
	// suites are the runs of runtime/runtimetest: package and test -> cases.
	suites map[string]*suite
	// explored are the results of the state machine's exploration.
	explored []string
	skips    []string
	out      io.Writer
}

// suite is one run of the conformance suite for runtimes.
type suite struct {
	pkg, test       string
	passed, skipped int
	ok              bool
}

// suiteMark is how the first case of the suite is called below the test that
// runs it.
const suiteMark = "/runtime/version_names_the_runtime"

func newSummary(out io.Writer) *summary {
	return &summary{packages: map[string]string{}, output: map[string][]string{}, suites: map[string]*suite{}, out: out}
}

func main() {
	log := flag.String("log", "", "also write all test output to this file")
	flag.Parse()
	s := newSummary(os.Stdout)
	var w io.Writer = io.Discard
	if *log != "" {
		f, err := os.Create(*log)
		if err != nil {
			fmt.Fprintln(os.Stderr, "testsummary:", err)
			os.Exit(2)
		}
		defer f.Close()
		w = f
	}
	if err := s.read(os.Stdin, w); err != nil {
		fmt.Fprintln(os.Stderr, "testsummary:", err)
		os.Exit(2)
	}
	if !s.print() {
		os.Exit(1)
	}
}

func (s *summary) read(r io.Reader, log io.Writer) error {
	scanner := bufio.NewScanner(r)
	scanner.Buffer(make([]byte, 1<<20), 64<<20)
	for scanner.Scan() {
		var e event
		if err := json.Unmarshal(scanner.Bytes(), &e); err != nil {
			// Not an event: the go command itself speaks.
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
	case "output", "build-output":
		if e.Action == "build-output" {
			fmt.Fprint(s.out, e.Output)
			return
		}
		s.output[key] = append(s.output[key], e.Output)
		if strings.Contains(e.Output, " invariants, ") {
			_, text, _ := strings.Cut(e.Output, ": ")
			s.explored = append(s.explored, strings.TrimSpace(text))
		}
	case "run":
		if parent, ok := strings.CutSuffix(e.Test, suiteMark); ok {
			s.suites[e.Package+" "+parent] = &suite{pkg: e.Package, test: parent}
		}
	case "build-fail":
		s.packages[e.ImportPath] = "fail"
	case "pass", "fail", "skip":
		s.finish(e, key)
	}
}

func (s *summary) finish(e event, key string) {
	if e.Test == "" {
		s.packages[e.Package] = e.Action
		if e.Action != "skip" {
			fmt.Fprintf(s.out, "%-5s %s  %.1fs\n", e.Action, e.Package, e.Elapsed)
		}
		if e.Action == "fail" {
			fmt.Fprint(s.out, strings.Join(s.output[key], ""))
		}
		delete(s.output, key)
		return
	}
	s.count(e)
	switch e.Action {
	case "pass":
		s.passed++
	case "skip":
		s.skipped++
		s.skips = append(s.skips, key)
	case "fail":
		s.failed++
		fmt.Fprintf(s.out, "FAIL  %s\n%s", key, strings.Join(s.output[key], ""))
	}
	delete(s.output, key)
}

// count adds a finished test to the conformance run it is a case of.
func (s *summary) count(e event) {
	if run := s.suites[e.Package+" "+e.Test]; run != nil {
		run.ok = e.Action == "pass"
		return
	}
	for _, run := range s.suites {
		rest, ok := strings.CutPrefix(e.Test, run.test+"/")
		if !ok || run.pkg != e.Package || strings.Count(rest, "/") != 1 {
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

// print writes the closing lines and reports whether all is well.
func (s *summary) print() bool {
	ok := s.failed == 0 && s.passed > 0
	for name, action := range s.packages {
		if action == "fail" {
			fmt.Fprintf(s.out, "package failed: %s\n", name)
			ok = false
		}
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
		fmt.Fprintf(s.out, "runtimetest %s: %s %s (%d cases, %d not applicable)\n", verdict, strings.TrimPrefix(run.pkg, module), run.test, run.passed, run.skipped)
	}
	fmt.Fprintf(s.out, "%d passed, %d failed, %d skipped\n", s.passed, s.failed, s.skipped)
	return ok
}
