package houserules

import (
	"go/ast"
	"regexp"
	"strings"
)

// snippet is a block of a page: code, or what it prints.
var snippet = regexp.MustCompile("(?ms)^```(go|output)\n(.*?)^```$")

// snippetRules keep the programs of the guide equal to examples, which run.
func snippetRules() []rule {
	code := "package p_test\n\ntype t struct {\n\tn int\n}\n\nfunc ExampleF() {\n\tprintln(1)\n\tprintln(2)\n\t// Output:\n\t// 1\n\t// 2\n}\n"
	page := func(language, text string) map[string]string {
		return map[string]string{"docs/guide/a.md": "# A\n\n```" + language + "\n" + text + "```\n", "docs/guide/a_test.go": code, "p/p.go": "package p\n\nfunc other() {}\n"}
	}
	return []rule{
		{
			name: "snippets are examples", check: snippetsAreExamples,
			breach: page("go", "type t struct {\n\tm int\n}\n```\n```go\nfunc other() {}\n```\n```output\n2\n1\n"),
			keeps:  page("go", "type t struct {\n\tn int\n}\n\nprintln(1)\n```\n\nIt prints\n\n```output\n1\n2\n```\n```yaml\na: b\n"),
			finds:  []string{"type t struct {", "func other() {}", "no example prints"},
		},
	}
}

// snippetsAreExamples wants every run of lines in a Go block of the guide to be in a test or an example
// program, and every output to be that of an example.
func snippetsAreExamples(tr *tree, report report) {
	code, outputs := map[string]string{}, map[string]bool{}
	for _, s := range tr.files {
		if !s.test && s.room() != "examples" {
			continue
		}
		for _, t := range tr.texts {
			if t.path == s.path {
				code[s.path] = flat(t.content)
			}
		}
		for _, d := range s.syntax.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && strings.HasPrefix(f.Name.Name, "Example") && checked(tr, s, f) {
				outputs[tr.output(s, f)] = true
			}
		}
	}
	for _, t := range tr.texts {
		if !strings.HasPrefix(t.path, "docs/guide/") || !strings.HasSuffix(t.path, ".md") {
			continue
		}
		for _, m := range snippet.FindAllStringSubmatch(t.content, -1) {
			if m[1] == "output" {
				if !outputs[flat(m[2])] {
					report("%s: no example prints\n%s", t.path, m[2])
				}
				continue
			}
			for part := range strings.SplitSeq(m[2], "\n\n") {
				if !inAny(code, flat(part)) {
					report("%s: no test or example has\n%s", t.path, part)
				}
			}
		}
	}
}

func inAny(code map[string]string, part string) bool {
	for _, text := range code {
		if strings.Contains(text, part) {
			return true
		}
	}
	return false
}

// output is what an example is to print.
func (tr *tree) output(s *source, f *ast.FuncDecl) string {
	for _, group := range s.syntax.Comments {
		if group.Pos() < f.Pos() || group.End() > f.End() {
			continue
		}
		if _, out, found := strings.Cut(group.Text(), "Output:"); found {
			return flat(out)
		}
	}
	return ""
}

// flat is text without indentation and empty lines.
func flat(text string) string {
	var lines []string
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" {
			lines = append(lines, line)
		}
	}
	return "\n" + strings.Join(lines, "\n") + "\n"
}
