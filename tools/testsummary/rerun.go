package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Limits of what a second and third run may excuse.
const (
	maxFlaky  = 3 // tests
	moreTries = 2 // runs of each
)

// failure is a top-level test that failed.
type failure struct {
	pkg, test string
	// on is the runtime that it ran on, nil for a test without one.
	on *runtimeRun
	// output is the output of the test and its subtests.
	output string
}

// logName returns the name of the file for its output.
func (f *failure) logName() string {
	if f.on == nil {
		return "flaky-" + f.test + ".log"
	}
	return "flaky-" + f.test + "-" + strings.ReplaceAll(f.on.name, " ", "-") + ".log"
}

// name returns the test's name in the summary.
func (f *failure) name() string {
	if f.on == nil {
		return f.pkg + " " + f.test
	}
	return f.pkg + " " + f.test + " on " + f.on.name
}

// fail records a failed test under its top-level test: only that can run alone.
func (s *summary) fail(pkg, test, output string) {
	top, _, _ := strings.Cut(test, "/")
	for _, f := range s.failures {
		if f.pkg == pkg && f.test == top && f.on == s.last() {
			f.output += output
			return
		}
	}
	s.failures = append(s.failures, &failure{pkg: pkg, test: top, on: s.last(), output: output})
}

func (s *summary) failedIn(pkg string) bool {
	for _, f := range s.failures {
		if f.pkg == pkg {
			return true
		}
	}
	return false
}

// marks are outputs after which a repetition would prove nothing: a race exists whether or not it
// shows again, and a process that died skipped tests.
var marks = []struct{ prefix, reason string }{
	{"WARNING: DATA RACE", "data race"},
	{"panic: ", "panic or timeout: the package's other tests did not run"},
	{"fatal error: ", "crash: the package's other tests did not run"},
	{"exit status 2", "the test process died: its other tests did not run"},
	{"signal: ", "the test process was killed: its other tests did not run"},
	{"goleak: ", "goroutine leak"},
}

// watch records outputs that forbid a repetition.
func (s *summary) watch(e event) {
	for _, m := range marks {
		if strings.HasPrefix(e.Output, m.prefix) {
			s.hard[e.Package] = m.reason + " (" + strings.TrimSpace(e.Output) + ")"
		}
	}
}

// tester runs one test alone and reports whether it passed.
type tester interface {
	run(f *failure) (passed bool, output string)
}

// rerun repeats the failed tests and reports whether the run may pass: at most maxFlaky tests
// failed, nothing but tests failed, and each passes all its further runs. The output of the first
// failure stays in dir.
func (s *summary) rerun(again tester, dir string) bool {
	if reason := s.final(); reason != "" {
		fmt.Fprintf(s.out, "no second run: %s\n", reason)
		return false
	}
	ok := true
	var lines []string
	for _, f := range s.failures {
		failed := 1
		for range moreTries {
			passed, output := again.run(f)
			if !passed {
				failed++
				fmt.Fprintf(s.out, "FAIL  %s, alone\n%s", f.name(), output)
			}
		}
		log := filepath.Join(dir, f.logName())
		if err := os.WriteFile(log, []byte(f.output), 0o644); err != nil {
			fmt.Fprintln(s.out, "testsummary:", err)
			ok = false
		}
		word := "FLAKY"
		if failed > 1 {
			word, ok = "FAILED", false
		}
		lines = append(lines, fmt.Sprintf("%s %s: failed %d of %d runs (log: %s)\n", word, f.name(), failed, 1+moreTries, log))
		fmt.Fprintf(s.out, "\nthe output of the first run of %s:\n%s", f.test, f.output)
	}
	bar := strings.Repeat("=", 100) + "\n"
	fmt.Fprint(s.out, "\n"+bar+strings.Join(lines, ""))
	if ok {
		fmt.Fprint(s.out, "The run passes because each of them passed twice alone. Each is a bug of the test or of the code: mend it.\n")
	}
	fmt.Fprint(s.out, bar)
	return ok
}

// final says why further runs cannot make this run pass, "" if they can.
func (s *summary) final() string {
	switch {
	case s.unnamed > 0:
		return "a go test command failed without naming a package"
	case s.passed == 0:
		return "no test passed"
	case len(s.failures) > maxFlaky:
		return fmt.Sprintf("%d tests failed, more than %d", len(s.failures), maxFlaky)
	}
	for name, action := range s.packages {
		if action == "fail" && s.hard[name] != "" {
			return name + ": " + s.hard[name]
		}
	}
	return ""
}

// programsVariable names the variable that internal/containerdtest reads: the folder of the
// containerd to test on, empty for the machine's.
const programsVariable = "PODWRIGHT_CONTAINERD"

// goTest runs tests with the go command.
type goTest struct {
	root  string
	flags []string
}

func (g goTest) run(f *failure) (bool, string) {
	args := append([]string{"test", "-json", "-count=1", "-tags", "containerd,apiserver"}, g.flags...)
	cmd := exec.Command("go", append(args, "-run", "^"+f.test+"$", f.pkg)...)
	cmd.Dir = filepath.Join(g.root, moduleOf(f.pkg))
	if f.on != nil {
		cmd.Env = append(os.Environ(), programsVariable+"="+f.on.programs)
	}
	out, err := cmd.CombinedOutput()
	passed, text := verdict(out, f.test)
	return passed && err == nil, text
}

// moduleOf returns the folder of the module that contains a package.
func moduleOf(pkg string) string {
	inner, _, _ := strings.Cut(strings.TrimPrefix(pkg, module), "/")
	if inner == "examples" || inner == "tools" || inner == "kube" {
		return inner
	}
	return "."
}

// verdict reads the events of one test's run: a test that did not run or was skipped has not
// passed.
func verdict(events []byte, test string) (passed bool, text string) {
	var b strings.Builder
	for line := range bytes.Lines(events) {
		var e event
		if err := json.Unmarshal(line, &e); err != nil {
			b.Write(line)
			continue
		}
		b.WriteString(e.Output)
		if e.Action == "pass" && e.Test == test {
			passed = true
		}
	}
	return passed, b.String()
}
