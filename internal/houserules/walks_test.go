package houserules

import (
	"go/ast"
	"regexp"
	"strings"
)

const (
	// walksHeading begins the table of the questions a maintainer asks.
	walksHeading = "## Where is it decided?"
	maxWalk      = 4  // files per row
	minWalks     = 14 // rows
)

// walkRules keep the table "Where is it decided?" true.
func walkRules() []rule {
	row := func(steps string) string { return "| a question | an answer | " + steps + " |\n" }
	table := func(rows ...string) string {
		return "# The house\n\n" + walksHeading + "\n| question | answer | where |\n|---|---|---|\n" + strings.Join(rows, "") + "\n## Next\n| x | y | z |\n"
	}
	good := row("`pleg/a.go` `F`, `T.G`, `C`")
	code := "package p\n\nfunc F() {}\n\ntype T[X any] struct{}\n\nfunc (*T[X]) G() {}\n\nconst C = 1\n"
	many := make([]string, minWalks)
	for i := range many {
		many[i] = good
	}
	return []rule{{
		name: "where it is decided", check: walksAreTrue,
		breach: map[string]string{
			"docs/ARCHITECTURE.md": table(good, row("in the workers"), row("`pleg/a.go` `H`"), row("`pleg/b.go` `F`"), row("`pleg/a.go`"),
				row("`pleg/a.go` `F` `pleg/a1.go` `F` `pleg/a2.go` `F` `pleg/a3.go` `F` `pleg/a4.go` `F`")),
			"pleg/a.go": code, "pleg/a1.go": code, "pleg/a2.go": code, "pleg/a3.go": code, "pleg/a4.go": code,
		},
		keeps: map[string]string{"docs/ARCHITECTURE.md": table(many...), "pleg/a.go": code},
		finds: []string{"names no file", "pleg/a.go has no H", "pleg/b.go does not exist", "pleg/a.go without what decides", "opens 5 files", "answers 6 questions"},
	}}
}

var (
	walkStep = regexp.MustCompile("`([^`]+)`")
	goFile   = regexp.MustCompile(`^[A-Za-z0-9_./-]+\.go$`)
)

// walksAreTrue wants every file of the table to have what the table says it has, and
// few files per row.
func walksAreTrue(tr *tree, report report) {
	rows := walkRows(tr)
	if len(rows) < minWalks {
		report("the table %q answers %d questions, want %d", walksHeading, len(rows), minWalks)
	}
	for _, row := range rows {
		if files := tr.walkFiles(row, report); files > maxWalk {
			report("%q opens %d files, want %d", row.question, files, maxWalk)
		}
	}
}

// walkFiles checks that each file of a row has what the row names there, and returns how many
// files that are.
func (tr *tree) walkFiles(row walk, report report) (files int) {
	steps := 0
	var at *source
	atPath := ""
	bare := func() {
		if atPath != "" && steps == 0 {
			report("%q: %s without what decides there", row.question, atPath)
		}
	}
	for _, m := range walkStep.FindAllStringSubmatch(row.where, -1) {
		if goFile.MatchString(m[1]) {
			bare()
			files, steps, atPath = files+1, 0, m[1]
			if at = tr.file(m[1]); at == nil {
				report("%q: %s does not exist", row.question, m[1])
			}
			continue
		}
		steps++
		if at != nil && !declares(at, m[1]) {
			report("%q: %s has no %s", row.question, at.path, m[1])
		}
	}
	bare()
	if files == 0 {
		report("%q names no file", row.question)
	}
	return files
}

type walk struct{ question, where string }

// walkRows are the rows of the table.
func walkRows(tr *tree) (out []walk) {
	for _, text := range tr.texts {
		if text.path != "docs/ARCHITECTURE.md" {
			continue
		}
		_, section, _ := strings.Cut(text.content, walksHeading)
		section, _, _ = strings.Cut(section, "\n## ")
		for line := range strings.Lines(section) {
			cells := cellsOf(line)
			if len(cells) != 3 || strings.HasPrefix(cells[0], "---") || cells[0] == "question" {
				continue
			}
			out = append(out, walk{cells[0], cells[2]})
		}
	}
	return out
}

func (tr *tree) file(path string) *source {
	for _, s := range tr.files {
		if s.path == path {
			return s
		}
	}
	return nil
}

// declares reports whether a file declares a function, a method as Type.Method, a type, a
// constant or a variable.
func declares(s *source, name string) bool {
	for _, d := range s.syntax.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			full := d.Name.Name
			if d.Recv != nil {
				full = receiverName(d.Recv.List[0].Type) + "." + full
			}
			if full == name {
				return true
			}
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				switch spec := spec.(type) {
				case *ast.TypeSpec:
					if spec.Name.Name == name {
						return true
					}
				case *ast.ValueSpec:
					for _, n := range spec.Names {
						if n.Name == name {
							return true
						}
					}
				}
			}
		}
	}
	return false
}

// funcOf returns a function of a file, nil if it has none of that name.
func funcOf(s *source, name string) *ast.FuncDecl {
	for _, d := range s.syntax.Decls {
		if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil && f.Name.Name == name {
			return f
		}
	}
	return nil
}

func receiverName(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return receiverName(e.X)
	case *ast.IndexExpr:
		return receiverName(e.X)
	case *ast.IndexListExpr:
		return receiverName(e.X)
	case *ast.Ident:
		return e.Name
	}
	return ""
}
