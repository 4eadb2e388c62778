package main

import (
	"os"
	"path/filepath"
	"testing"
)

func TestLater(t *testing.T) {
	root := t.TempDir()
	if got, err := (page{file: "a.md"}).later(root); len(got) != 0 || err != nil {
		t.Errorf("without a file: %v, %v", got, err)
	}
	dir := filepath.Join(root, "docs", "spec")
	if err := os.MkdirAll(dir, 0o750); err != nil {
		t.Fatal(err)
	}
	write := func(text string) {
		if err := os.WriteFile(filepath.Join(dir, "later.txt"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("# comment\na.md\tA1\tneeds x\nb.md\tB1\tneeds y\na.md\tedge 3\tneeds z\n")
	got, err := (page{file: "a.md"}).later(root)
	if err != nil || len(got) != 2 || !got["A1"] || !got["edge 3"] {
		t.Errorf("read %v, %v", got, err)
	}
	write("a.md A1 no tabs\n")
	if _, err := (page{file: "a.md"}).later(root); err == nil {
		t.Error("a line without tabs was accepted")
	}
	// The project's own list can be read.
	for _, p := range pages {
		rules, err := p.rules("../..")
		if err != nil {
			t.Fatal(err)
		}
		known := map[string]bool{}
		for _, r := range rules {
			known[r] = true
		}
		marked, err := p.later("../..")
		if err != nil {
			t.Fatal(err)
		}
		for r := range marked {
			if !known[r] {
				t.Errorf("%s has no rule %q", p.file, r)
			}
		}
	}
}
