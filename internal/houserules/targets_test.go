package houserules

import (
	"go/ast"
	"regexp"
	"strings"
)

// runFlag finds the tests a command of the Makefile chooses.
var runFlag = regexp.MustCompile(`-run '?\^?\(?([A-Za-z0-9_|]+)`)

// documentedTest finds the tests and fuzz targets a page names.
var documentedTest = regexp.MustCompile("`((?:Test|Fuzz)[A-Za-z0-9_]+)`")

// targetsNameTests wants every test that the Makefile runs alone and that
// docs/testing.md or SECURITY.md names to exist: go test passes when its -run matches nothing.
func targetsNameTests(tr *tree, report report) {
	tests := map[string]bool{}
	for _, s := range tr.files {
		for _, d := range s.syntax.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && s.test && f.Recv == nil {
				tests[f.Name.Name] = true
			}
		}
	}
	for _, file := range tr.texts {
		pattern := documentedTest
		switch file.path {
		case "Makefile":
			pattern = runFlag
		case "docs/testing.md", "SECURITY.md":
		default:
			continue
		}
		for _, m := range pattern.FindAllStringSubmatch(file.content, -1) {
			for name := range strings.SplitSeq(m[1], "|") {
				if (strings.HasPrefix(name, "Test") || strings.HasPrefix(name, "Fuzz")) && !tests[name] {
					report("%s names %s, which does not exist", file.path, name)
				}
			}
		}
	}
}
