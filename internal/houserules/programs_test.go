package houserules

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
)

const (
	// programsPage names the small programs that embedders start from.
	programsPage = "docs/guide/programs.md"
	// programsDir has most of them.
	programsDir = "examples/programs/"
	// programCount is how many the page promises.
	programCount = 7
	// maxProgramLines is what one takes in at a sitting.
	maxProgramLines = 120
)

// notPrograms are the other tests among them.
var notPrograms = []string{"main_test.go", "conformance_test.go"}

// programRow is the link in a row of the page's table.
var programRow = regexp.MustCompile(`(?m)^\| .*\]\(([^)\s]+_test\.go)\) \|$`)

// programRules keep the small programs small, and all on their page.
func programRules() []rule {
	row := func(file string) string { return fmt.Sprintf("| a | b | [f](../../%s) |\n", file) }
	others := strings.Repeat(row("other/a_test.go"), programCount-1)
	program := "package p_test\n\nfunc TestP(t *testing.T) {}\n"
	return []rule{{
		name: "programs are small and on their page", check: programsAreSmall,
		breach: map[string]string{
			programsPage:                   row(programsDir+"long_test.go") + row(programsDir+"empty_test.go"),
			programsDir + "long_test.go":   program + strings.Repeat("\n", maxProgramLines),
			programsDir + "empty_test.go":  "package p_test\n",
			programsDir + "absent_test.go": program,
		},
		keeps: map[string]string{
			programsPage:                 row(programsDir+"a_test.go") + others,
			programsDir + "a_test.go":    program,
			programsDir + "main_test.go": "package p_test\n", "other/a_test.go": program,
		},
		finds: []string{"has 2 programs, not 7", "long_test.go has 123 lines, budget 120", "empty_test.go has no test", "absent_test.go is not in " + programsPage},
	}}
}

func programsAreSmall(tr *tree, report report) {
	var named []string
	for _, t := range tr.texts {
		if t.path != programsPage {
			continue
		}
		rows := programRow.FindAllStringSubmatch(t.content, -1)
		if len(rows) != programCount {
			report("%s has %d programs, not %d", t.path, len(rows), programCount)
		}
		for _, m := range rows {
			named = append(named, path.Join(path.Dir(programsPage), m[1]))
		}
	}
	for _, file := range named {
		s := tr.file(file)
		if s == nil {
			continue // a link to nowhere is another rule's
		}
		if s.lines > maxProgramLines {
			report("%s has %d lines, budget %d", file, s.lines, maxProgramLines)
		}
		if !slices.ContainsFunc(tr.texts, func(t text) bool { return t.path == file && strings.Contains(t.content, "\nfunc Test") }) {
			report("%s has no test", file)
		}
	}
	for _, s := range tr.files {
		if strings.HasPrefix(s.path, programsDir) && s.test && !slices.Contains(notPrograms, path.Base(s.path)) && !slices.Contains(named, s.path) {
			report("%s is not in %s", s.path, programsPage)
		}
	}
}
