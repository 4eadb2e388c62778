package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// allowance is a line of allowed.txt: "ID DATE REASON", where DATE is the last day on which the
// reason is valid.
type allowance struct {
	id, reason string
	until      time.Time
}

// parseAllowed parses the list. Empty lines and lines that begin with # are ignored.
func parseAllowed(text string) ([]allowance, error) {
	var list []allowance
	for n, line := range strings.Split(text, "\n") {
		if line = strings.TrimSpace(line); line == "" || line[0] == '#' {
			continue
		}
		words := strings.SplitN(line, " ", 3)
		if len(words) < 3 || len(strings.Fields(words[2])) < 3 {
			return nil, fmt.Errorf("line %d: want an ID, a date such as 2027-01-31, and a reason in words", n+1)
		}
		until, err := time.Parse(time.DateOnly, words[1])
		if err != nil {
			return nil, fmt.Errorf("line %d: %q is no date such as 2027-01-31", n+1, words[1])
		}
		list = append(list, allowance{id: words[0], reason: words[2], until: until})
	}
	return list, nil
}

// judge returns what is wrong: findings without an explanation, and explanations that have expired
// or explain nothing.
func judge(found map[string]finding, allowed []allowance, now time.Time) []error {
	var problems []error
	explained := map[string]bool{}
	for _, a := range allowed {
		_, there := found[a.id]
		switch {
		case !there:
			problems = append(problems, fmt.Errorf("allowed.txt explains %s, which is not found any more: remove the line", a.id))
		case now.After(a.until.AddDate(0, 0, 1)):
			problems = append(problems, fmt.Errorf("allowed.txt explains %s until %s: mend it, or say why it may stay", a.id, a.until.Format(time.DateOnly)))
		}
		explained[a.id] = true
	}
	for _, id := range slices.Sorted(maps.Keys(found)) {
		if !explained[id] {
			problems = append(problems, fmt.Errorf("%s in %s: %s (https://pkg.go.dev/vuln/%s)", id, found[id].module, found[id], id))
		}
	}
	return problems
}
