package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"
)

// defined matches a rule that opens a list item of a page with lettered rules.
var defined = regexp.MustCompile(`(?m)^- \**([A-Z]{1,3}[0-9]+)\b`)

// TestEveryPageIsLookedAt: a page with rules is in the list of pages, with the letters of each of its rules.
func TestEveryPageIsLookedAt(t *testing.T) {
	files, err := filepath.Glob("../../docs/spec/*.md")
	if err != nil || len(files) < len(pages) {
		t.Fatalf("pages %q, %v", files, err)
	}
	for _, file := range files {
		name := filepath.Base(file)
		if name == "README.md" || name == "DEVIATIONS.md" { // they define no rules
			continue
		}
		i := slices.IndexFunc(pages, func(p page) bool { return p.file == name })
		if i < 0 {
			t.Errorf("%s is not looked at", name)
			continue
		}
		rules, err := pages[i].rules("../..")
		if err != nil || len(rules) == 0 {
			t.Errorf("%s: rules %q, %v", name, rules, err)
		}
		if pages[i].prefixes == nil {
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range defined.FindAllStringSubmatch(string(text), -1) {
			if !slices.Contains(rules, m[1]) {
				t.Errorf("%s: rule %s is not looked at", name, m[1])
			}
		}
		for _, pkg := range pages[i].packages {
			if info, err := os.Stat(filepath.Join("../..", pkg)); err != nil || !info.IsDir() {
				t.Errorf("%s: package %s: %v", name, pkg, err)
			}
		}
	}
}
