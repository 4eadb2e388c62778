package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"
)

// result is the outcome of a target.
type result struct {
	// tried counts the inputs, interesting those that reached new code.
	tried, interesting int
	// failed says why it failed, "" if it passed.
	failed string
}

// runner runs targets.
type runner struct {
	length time.Duration
	work   string
	out    io.Writer
	mu     sync.Mutex // guards the order of output lines
}

// all builds the test program of each package and runs the targets, jobs at a time. Each target has
// one worker.
func (r *runner) all(targets []target, jobs int) map[target]result {
	results := map[target]result{}
	slots := make(chan struct{}, max(jobs, 1))
	var wait sync.WaitGroup
	var program string
	var buildErr error
	for i, t := range targets {
		if i == 0 || t.shown != targets[i-1].shown {
			// Not in parallel: the go command uses every CPU, and earlier targets are still running.
			program, buildErr = r.build(t, i)
		}
		if buildErr != nil {
			r.note(results, t, result{failed: buildErr.Error()})
			continue
		}
		slots <- struct{}{}
		program := program
		wait.Go(func() {
			defer func() { <-slots }()
			r.note(results, t, r.run(t, program))
		})
	}
	wait.Wait()
	return results
}

func (r *runner) note(results map[target]result, t target, got result) {
	r.mu.Lock()
	defer r.mu.Unlock()
	results[t] = got
	if got.failed != "" {
		fmt.Fprintf(r.out, "FAIL  %s\n%s\n", t, got.failed)
		return
	}
	fmt.Fprintf(r.out, "pass  %s: %d inputs, %d of them new\n", t, got.tried, got.interesting)
}

// build builds the test program of a target's package: with -fuzz, the go command instruments it to
// see which code an input reaches.
func (r *runner) build(t target, n int) (string, error) {
	program := filepath.Join(r.work, strconv.Itoa(n)+".test")
	// Without DWARF tables it links in two thirds of the time.
	c := exec.Command("go", "test", "-c", "-ldflags=-w", "-fuzz", ".", "-o", program, t.pkg)
	c.Dir = t.module
	if output, err := c.CombinedOutput(); err != nil {
		return "", fmt.Errorf("it does not build: %w\n%s", err, output)
	}
	return program, nil
}

// run runs one target. New inputs are kept in the go command's cache, as with go test.
func (r *runner) run(t target, program string) result {
	cache, err := exec.Command("go", "env", "GOCACHE").Output()
	if err != nil {
		return result{failed: err.Error()}
	}
	c := exec.Command(program, "-test.run=^$", "-test.fuzz=^"+t.name+"$", "-test.fuzztime="+r.length.String(), "-test.parallel=1",
		"-test.timeout=0", // next flag: by default an input that reaches new code may be minimized for a minute
		"-test.fuzzminimizetime=100x", "-test.fuzzcachedir="+filepath.Join(strings.TrimSpace(string(cache)), "fuzz", "github.com/podwright/podwright", t.shown))
	c.Dir = filepath.Join(t.module, t.pkg)
	output, err := c.CombinedOutput()
	got := judge(output, err)
	if m := kept.FindSubmatch(output); got.failed != "" && m != nil {
		input, err := os.ReadFile(filepath.Join(c.Dir, string(m[1])))
		got.failed += fmt.Sprintf("\nthe input (%v):\n%.1024s", err, input)
	}
	return got
}

// kept matches the line that names the file with the failing input.
var kept = regexp.MustCompile(`(?m)Failing input written to (\S+)$`)

// progress matches the line in which a target reports its progress.
var progress = regexp.MustCompile(`(?m)^fuzz: elapsed: .*execs: (\d+) .*new interesting: (\d+) `)

// baseline matches the line in which a target says how many of its kept inputs it has tried: on a
// busy machine it may get no further.
var baseline = regexp.MustCompile(`(?m)^fuzz: elapsed: .*gathering baseline coverage: (\d+)/`)

// deadline matches the failure of a target whose time ran out at a bad moment: Go's fuzzing engine
// then reports the end of its own time as a failure of the target. It names no input, because none
// failed.
var deadline = regexp.MustCompile(`(?m)^--- FAIL: \S+ \([0-9.]+s\)\n\s+context deadline exceeded\nFAIL$`)

// judge reads the output of a target's program. A target that tried nothing has not passed: the
// program also succeeds if the target does not exist.
func judge(output []byte, err error) result {
	if err != nil && (kept.Match(output) || !deadline.Match(output)) {
		return result{failed: fmt.Sprintf("%v\n%s", err, bytes.TrimSpace(output))}
	}
	var got result
	if lines := baseline.FindAllSubmatch(output, -1); len(lines) > 0 {
		got.tried, _ = strconv.Atoi(string(lines[len(lines)-1][1]))
	}
	if lines := progress.FindAllSubmatch(output, -1); len(lines) > 0 {
		last := lines[len(lines)-1]
		got.tried, _ = strconv.Atoi(string(last[1]))
		got.interesting, _ = strconv.Atoi(string(last[2]))
	}
	if got.tried == 0 {
		got.failed = fmt.Sprintf("it tried no input\n%s", bytes.TrimSpace(output))
	}
	return got
}

// print writes the last line and reports whether every target passed. A target without a result has
// not passed.
func print(out io.Writer, targets []target, results map[target]result) bool {
	passed := 0
	for _, t := range targets {
		switch got, ran := results[t]; {
		case !ran:
			fmt.Fprintf(out, "FAIL  %s did not run\n", t)
		case got.failed == "":
			passed++
		}
	}
	fmt.Fprintf(out, "fuzz: %d of %d targets passed\n", passed, len(targets))
	return passed == len(targets)
}
