// Command fuzz runs every fuzz target of the repository for a limited time, as `make fuzz`, `make
// test` and `make marathon` do:
//
//	fuzz [-root DIR] [-time 10s] [-jobs N] [-run REGEXP] [-list]
//
// It finds the targets in every module, so that none can be forgotten. It exits 1 if a target
// fails, does not build or tried no input. The failing input is written to testdata/fuzz of its
// package, where every later test run repeats it: commit that file with the fix.
package main

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"runtime"
	"time"
)

func main() {
	root := flag.String("root", ".", "the repository")
	length := flag.Duration("time", 10*time.Second, "how long each target runs")
	jobs := flag.Int("jobs", runtime.NumCPU(), "how many targets run side by side, each with one worker")
	chosen := flag.String("run", "", "only targets whose PACKAGE.NAME matches")
	list := flag.Bool("list", false, "only list the targets")
	flag.Parse()
	ok, err := fuzz(*root, *length, *jobs, *chosen, *list)
	if err != nil {
		fmt.Fprintln(os.Stderr, "fuzz:", err)
	}
	if err != nil || !ok {
		os.Exit(1)
	}
}

func fuzz(root string, length time.Duration, jobs int, chosen string, list bool) (bool, error) {
	pattern, err := regexp.Compile(chosen)
	if err != nil {
		return false, err
	}
	all, err := find(root)
	if err != nil {
		return false, err
	}
	var targets []target
	for _, t := range all {
		if pattern.MatchString(t.String()) {
			targets = append(targets, t)
		}
	}
	if len(targets) == 0 {
		return false, fmt.Errorf("no fuzz target of %s matches %q", root, chosen)
	}
	if list {
		for _, t := range targets {
			fmt.Println(t)
		}
		return true, nil
	}
	work, err := os.MkdirTemp("", "fuzz-")
	if err != nil {
		return false, err
	}
	defer os.RemoveAll(work) //nolint:errcheck // a temporary folder
	r := runner{length: length, work: work, out: os.Stdout}
	return print(os.Stdout, targets, r.all(targets, jobs)), nil
}
