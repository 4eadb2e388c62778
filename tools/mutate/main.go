// Command mutate checks that tests notice small changes of the code.
//
//	mutate [-root DIR] [-package DIR] [-tests STEPS] [-jobs N] [-list] [-v]
//
// It changes one thing at a time in every function of a package: it inverts a comparison or moves
// its bound, swaps && and ||, negates a condition, removes a "!", drops a statement, swaps true and
// false. A mutant is killed if a test fails or does not end. For speed, the tests are built once,
// with all mutants in the code and an environment variable that selects the active one; the
// checkout itself is not changed.
//
// Survivors are listed with their explanation from testdata/mutants.txt of the package (lines of
// "file:function: change # why it changes nothing that matters"). It exits 1 if less than -score
// percent are killed or a survivor is not explained.
package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// defaultTests runs the quickest tests first. The first step skips by name what the second runs, so
// that every test of the package runs, whatever it is called.
const defaultTests = "./podworkers/internal/machine,-test.skip=Explore|Walk " +
	"./podworkers/internal/machine,-test.run=Explore|Walk,-explore.depth=4,-explore.one=6,-walk.steps=200000 " +
	"./podworkers"

type config struct {
	root, pkg, tests, only string
	jobs                   int
	score                  float64
	limit                  time.Duration
	verbose, list          bool
}

func main() {
	var c config
	flag.StringVar(&c.root, "root", "..", "the module to change")
	flag.StringVar(&c.pkg, "package", "podworkers/internal/machine", "the package to change, relative to the root")
	flag.StringVar(&c.tests, "tests", defaultTests, "what to test, one after the other until one fails: packages, each with flags after commas")
	flag.IntVar(&c.jobs, "jobs", 2, "tests at once")
	flag.Float64Var(&c.score, "score", 95, "percentage that has to be killed")
	flag.DurationVar(&c.limit, "limit", time.Minute, "a test run that takes longer counts as failed")
	flag.BoolVar(&c.verbose, "v", false, "print killed mutants too")
	flag.StringVar(&c.only, "only", "", "try only the mutants named in this file, as an earlier run printed its survivors")
	flag.BoolVar(&c.list, "list", false, "only list the mutants")
	flag.Parse()
	ok, err := run(context.Background(), c)
	if err != nil {
		fmt.Fprintln(os.Stderr, "mutate:", err)
		os.Exit(2)
	}
	if !ok {
		os.Exit(1)
	}
}

func run(ctx context.Context, c config) (bool, error) {
	root, err := filepath.Abs(c.root)
	if err != nil {
		return false, err
	}
	c.root = root
	explained, err := readExplained(filepath.Join(root, c.pkg, "testdata", "mutants.txt"))
	if err != nil {
		return false, err
	}
	dir, err := os.MkdirTemp("", "mutate")
	if err != nil {
		return false, err
	}
	defer os.RemoveAll(dir)
	mutants, overlay, err := prepare(c, dir)
	if err != nil {
		return false, err
	}
	if c.only != "" {
		printed, err := os.ReadFile(c.only)
		if err != nil {
			return false, err
		}
		mutants = slices.DeleteFunc(mutants, func(m mutant) bool { return !strings.Contains(string(printed), "survivor "+m.name()+" # ") })
	}
	if c.list {
		for _, m := range mutants {
			fmt.Println(m.where())
		}
		fmt.Printf("%d mutants\n", len(mutants))
		return true, nil
	}
	steps, err := build(ctx, c, dir, overlay)
	if err != nil {
		return false, err
	}
	if err := try(ctx, c, steps, 0); err != nil {
		return false, fmt.Errorf("the tests fail without any change: %w", err)
	}
	survivors := hunt(ctx, c, steps, mutants)
	return report(c, mutants, survivors, explained), nil
}

// prepare writes the changed package and returns the overlay that replaces it.
func prepare(c config, dir string) ([]mutant, string, error) {
	files, err := filepath.Glob(filepath.Join(c.root, c.pkg, "*.go"))
	if err != nil {
		return nil, "", err
	}
	g := &generator{}
	replace := map[string]string{}
	name := ""
	put := func(file string, source []byte) error {
		changed := filepath.Join(dir, filepath.Base(file))
		replace[file] = changed
		return os.WriteFile(changed, source, 0o600)
	}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		pkg, source, err := g.rewrite(file)
		if err != nil {
			return nil, "", err
		}
		name = pkg
		if err := put(file, source); err != nil {
			return nil, "", err
		}
	}
	if err := put(filepath.Join(c.root, c.pkg, "mutant_switchboard.go"), fmt.Appendf(nil, switchboard, name)); err != nil {
		return nil, "", err
	}
	overlay, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return nil, "", err
	}
	path := filepath.Join(dir, "overlay.json")
	return g.mutants, path, os.WriteFile(path, overlay, 0o600)
}

// step is one run of a test binary.
type step struct {
	binary, dir string
	args        []string
}

// build builds the test binaries.
func build(ctx context.Context, c config, dir, overlay string) ([]step, error) {
	var steps []step
	built := map[string]string{}
	for _, field := range strings.Fields(c.tests) {
		parts := strings.Split(field, ",")
		pkg := parts[0]
		if built[pkg] == "" {
			built[pkg] = filepath.Join(dir, fmt.Sprintf("test-%d", len(built)))
			cmd := exec.CommandContext(ctx, "go", "test", "-c", "-overlay", overlay, "-o", built[pkg], pkg)
			cmd.Dir = c.root
			if out, err := cmd.CombinedOutput(); err != nil {
				return nil, fmt.Errorf("build %s: %w\n%s", pkg, err, out)
			}
		}
		steps = append(steps, step{built[pkg], filepath.Join(c.root, pkg), parts[1:]})
	}
	return steps, nil
}

// hunt runs the tests against every mutant and returns those that survive.
func hunt(ctx context.Context, c config, steps []step, mutants []mutant) []mutant {
	var mu sync.Mutex
	var survivors []mutant
	work := make(chan mutant)
	var workers sync.WaitGroup
	for range c.jobs {
		workers.Go(func() {
			for m := range work {
				err := try(ctx, c, steps, m.id)
				mu.Lock()
				if err == nil {
					survivors = append(survivors, m)
				}
				if err == nil || c.verbose {
					fmt.Printf("%-8s %s\n", map[bool]string{true: "SURVIVED", false: "killed"}[err == nil], m.where())
				}
				mu.Unlock()
			}
		})
	}
	for _, m := range mutants {
		work <- m
	}
	close(work)
	workers.Wait()
	return survivors
}

// try runs the steps with one mutant active, 0 for none. The error says what failed.
func try(ctx context.Context, c config, steps []step, id int) error {
	for _, s := range steps {
		if err := s.run(ctx, c.limit, id); err != nil {
			return err
		}
	}
	return nil
}

func (s step) run(ctx context.Context, limit time.Duration, id int) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, s.binary, append([]string{"-test.failfast"}, s.args...)...)
	cmd.Dir = s.dir
	cmd.Env = append(os.Environ(), "MUTANT="+strconv.Itoa(id), "GOMEMLIMIT=1GiB")
	cmd.WaitDelay = time.Second
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s %v: %w\n%s", s.dir, s.args, err, bytes.TrimSpace(out))
	}
	return nil
}

// readExplained reads which survivors are known, and why they do not matter.
func readExplained(path string) (map[string]string, error) {
	explained := map[string]string{}
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return explained, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		if what, why, ok := strings.Cut(lines.Text(), " # "); ok {
			explained[strings.TrimSpace(what)] = why
		}
	}
	return explained, lines.Err()
}

func report(c config, mutants, survivors []mutant, explained map[string]string) bool {
	slices.SortFunc(survivors, func(a, b mutant) int { return a.id - b.id })
	unexplained := 0
	for _, m := range survivors {
		why, ok := explained[m.name()]
		if !ok {
			unexplained++
			why = "NOT EXPLAINED"
		}
		fmt.Printf("survivor %s # %s\n", m.name(), why)
	}
	killed := len(mutants) - len(survivors)
	score := 100 * float64(killed) / float64(max(len(mutants), 1))
	fmt.Printf("%s: %d mutants, %d killed (%.1f %%), %d survive, %d of them not explained\n",
		c.pkg, len(mutants), killed, score, len(survivors), unexplained)
	return score >= c.score && unexplained == 0
}
