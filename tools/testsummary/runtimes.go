package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
)

// runtimeRun is the result of the tests on one container runtime.
type runtimeRun struct {
	name, programs          string
	passed, failed, skipped int
	// packages counts the cases that passed, by package.
	packages map[string]int
	// reasons says why a test did not apply, by package and test.
	reasons map[string]string
}

// last returns the runtime of the current events, nil for tests without one.
func (s *summary) last() *runtimeRun {
	if len(s.runtimes) == 0 {
		return nil
	}
	return s.runtimes[len(s.runtimes)-1]
}

// on is the text after the name of a test that says which runtime the current events are from.
func (s *summary) on() string {
	if r := s.last(); r != nil {
		return " on " + r.name
	}
	return ""
}

// suiteKey distinguishes the conformance runs on different runtimes.
func (s *summary) suiteKey(pkg, test string) string { return pkg + " " + test + s.on() }

// countOnRuntime adds a finished test, with its output text, to its runtime.
func (s *summary) countOnRuntime(e event, text string) {
	r := s.last()
	if r == nil {
		return
	}
	name := strings.TrimPrefix(e.Package, module)
	switch e.Action {
	case "pass":
		r.passed++
		if r.packages == nil {
			r.packages = map[string]int{}
		}
		r.packages[name]++
	case "fail":
		r.failed++
	case "skip":
		r.skipped++
		if r.reasons == nil {
			r.reasons = map[string]string{}
		}
		r.reasons[name+" "+e.Test] = skipReason(text)
	}
}

// skipReason returns the message of a skipped test, without its source location.
func skipReason(text string) string {
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "=== ") || strings.HasPrefix(line, "--- ") {
			continue
		}
		if _, reason, ok := strings.Cut(line, ".go:"); ok {
			_, line, _ = strings.Cut(reason, ": ")
		}
		return line
	}
	return "no reason given"
}

// compareRuntimes prints what passed on each runtime, side by side, and what did not apply, with
// the reason.
func (s *summary) compareRuntimes() {
	if len(s.runtimes) == 0 {
		return
	}
	table := tabwriter.NewWriter(s.out, 0, 0, 3, ' ', 0)
	row := func(title string, cell func(*runtimeRun) any) {
		fmt.Fprint(table, title)
		for _, r := range s.runtimes {
			fmt.Fprintf(table, "\t%v", cell(r))
		}
		fmt.Fprintln(table)
	}
	row("cases on a real runtime", func(r *runtimeRun) any { return r.name })
	packages := map[string]bool{}
	for _, r := range s.runtimes {
		for name := range r.packages {
			packages[name] = true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(packages)) {
		row("passed in "+name, func(r *runtimeRun) any { return r.packages[name] })
	}
	row("passed", func(r *runtimeRun) any { return r.passed })
	row("failed", func(r *runtimeRun) any { return r.failed })
	row("not applicable", func(r *runtimeRun) any { return r.skipped })
	// If writing to the output fails, there is nowhere to report it.
	_ = table.Flush()
	for _, r := range s.runtimes {
		for _, name := range slices.Sorted(maps.Keys(r.reasons)) {
			fmt.Fprintf(s.out, "not applicable on %s: %s: %s\n", r.name, name, r.reasons[name])
		}
	}
}
