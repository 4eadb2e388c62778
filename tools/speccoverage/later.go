package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// later returns the rules of the page that wait for a part which the project does not have, from
// docs/spec/later.txt: page, rule and reason, separated by tabs.
func (p page) later(root string) (map[string]bool, error) {
	name := filepath.Join(root, "docs", "spec", "later.txt")
	text, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	out := map[string]bool{}
	for i, line := range strings.Split(string(text), "\n") {
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		fields := strings.Split(line, "\t")
		if len(fields) != 3 || fields[2] == "" {
			return nil, fmt.Errorf("%s:%d: want page, rule and reason, separated by tabs", name, i+1)
		}
		if fields[0] == p.file {
			out[fields[1]] = true
		}
	}
	return out, nil
}
