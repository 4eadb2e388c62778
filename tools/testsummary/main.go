// Command testsummary reads `go test -json` output on standard input and prints a line per package,
// the full output of failures, which runtimes passed the conformance suite, and the counts.
//
//	go test -json ./... | testsummary [-log FILE] [-rerun DIR [-- GO TEST FLAGS]]
//
// It exits 1 if anything failed, if a package did not build, or if no test ran.
//
// With -rerun, which only continuous integration uses, a failed test runs twice more, alone;
// rerun.go says what that may and may not excuse.
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
)

// module is removed from package names in output for us.
const module = "github.com/podwright/podwright/"

func main() {
	log := flag.String("log", "", "also write all test output to this file")
	rerun := flag.String("rerun", "", "run failed tests twice more in this repository; arguments are flags for go test")
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
	ok := s.print()
	if !ok && *rerun != "" {
		ok = s.rerun(goTest{root: *rerun, flags: flag.Args()}, *rerun+"/bin")
	}
	if !ok {
		os.Exit(1)
	}
}
