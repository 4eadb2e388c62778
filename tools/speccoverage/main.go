// Command speccoverage lists the rules of docs/spec that no test names.
//
//	speccoverage [-root DIR] [-missing] [FILE ...]
//
// A rule is named by a test if its name (U13, 6.4, CK3, "edge case 12") appears in a _test.go file
// or in test data of the packages that own the specification file; ranges such as U1-U4 name every
// rule in them. Naming is not proving: the list finds forgotten rules, reviewers judge the tests.
// Rules in docs/spec/later.txt wait for a part that the project does not have. It exits 1 if a rule
// of one of the FILEs given on the command line is missing.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// page is one specification file: how its rules are written and who owns it.
type page struct {
	file string
	// prefixes of lettered rule names; none means numbered rules (6.4).
	prefixes []string
	packages []string
}

var pages = []page{
	{"podworkers.md", []string{"U", "W", "C", "G", "X", "Q", "V", "S", "N", "R", "O", "E", "P", "I", "L", "TR", "IN"}, []string{"podworkers", "internal/tracing", "internal/enginetest"}},
	{"pleg.md", []string{"S", "R", "E", "H", "C", "D", "V", "EV", "B", "PI"}, []string{"pleg", "."}},
	{"syncloop.md", []string{"SRC", "D", "F", "H", "A", "P", "M", "R", "PM", "MC", "L", "AD", "W", "RH", "PR", "PE", "B", "SI", "OB", "PS", "OS", "SN", "RO", "OC", "IN"}, []string{"syncloop", "internal/node", "internal/enginetest", "."}},
	{"cleanup.md", []string{"SG", "HK", "OD", "CG", "SB", "LG", "IG", "CK", "ND", "ID", "DR", "HI", "RD", "IN"}, []string{"cleanup", "runtime/pods", "status", "internal/node", "internal/recovery", "internal/enginetest", "."}},
	{"status.md", nil, []string{"status", "."}},
	{"runtime.md", nil, []string{"runtime", "runtime/pods", "runtime/cri", "internal/restartpolicy", "."}},
	{"probe.md", nil, []string{"probe", "."}},
	{"kube.md", []string{"KC", "KF", "KG", "KH", "KK", "KN", "KO", "KP", "KS", "KT", "KV", "KW", "KZ"}, []string{"kube", "examples/kubenode"}},
	{"fields.md", []string{"FD"}, []string{"internal/fields", "runtime/pods", "syncloop", "cleanup", "status"}},
}

func main() {
	root := flag.String("root", ".", "the repository")
	missing := flag.Bool("missing", true, "name each rule without a test")
	flag.Parse()
	failed := false
	for _, p := range pages {
		rules, err := p.rules(*root)
		if err != nil {
			fmt.Fprintln(os.Stderr, "speccoverage:", err)
			os.Exit(2)
		}
		named, err := p.named(*root, rules)
		if err != nil {
			fmt.Fprintln(os.Stderr, "speccoverage:", err)
			os.Exit(2)
		}
		later, err := p.later(*root)
		if err != nil {
			fmt.Fprintln(os.Stderr, "speccoverage:", err)
			os.Exit(2)
		}
		var without []string
		waiting := 0
		for _, r := range rules {
			switch {
			case named[r]:
			case later[r]:
				waiting++
			default:
				without = append(without, r)
			}
		}
		fmt.Printf("%-14s %3d rules, %3d named by a test, %d for later, %3d not\n",
			p.file, len(rules), len(rules)-len(without)-waiting, waiting, len(without))
		if *missing && len(without) > 0 {
			fmt.Printf("  %s\n", strings.Join(without, ", "))
		}
		failed = failed || len(without) > 0 && slices.Contains(flag.Args(), p.file)
	}
	if failed {
		os.Exit(1)
	}
}

// rules returns the names of the page's rules in order of appearance.
func (p page) rules(root string) ([]string, error) {
	text, err := os.ReadFile(filepath.Join(root, "docs", "spec", p.file))
	if err != nil {
		return nil, err
	}
	return findRules(string(text), p.prefixes), nil
}

// named returns which of the rules some test of the page's packages names.
func (p page) named(root string, rules []string) (map[string]bool, error) {
	out := map[string]bool{}
	for _, pkg := range p.packages {
		err := filepath.WalkDir(filepath.Join(root, pkg), func(path string, d os.DirEntry, err error) error {
			if err != nil {
				if os.IsNotExist(err) {
					return nil
				}
				return err
			}
			if d.IsDir() {
				// Only the root's own tests; rooms are listed by name.
				if pkg == "." && path != filepath.Join(root, pkg) {
					return filepath.SkipDir
				}
				return nil
			}
			if !strings.HasSuffix(path, "_test.go") && !strings.Contains(path, "/testdata/") {
				return nil
			}
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			for _, r := range findMentions(string(text), rules) {
				out[r] = true
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}
