package houserules

import (
	"go/ast"
	"go/token"
	"path"
	"strings"
	"testing"
)

// TestExportedNamesAreDocumented wants a comment on every exported type,
// function, method, constant and variable of the library, and on every exported
// field of an options or config struct. A comment on a group of constants or
// variables counts for its members.
func TestExportedNamesAreDocumented(t *testing.T) {
	tr := load(t)
	for _, s := range tr.files {
		if !s.library() {
			continue
		}
		for _, d := range s.syntax.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				if d.Name.IsExported() && exportedReceiver(d) && d.Doc == nil {
					t.Errorf("%s: %s has no comment", tr.at(s, d.Pos()), d.Name.Name)
				}
			case *ast.GenDecl:
				checkDocs(t, tr, s, d)
			}
		}
	}
}

func checkDocs(t *testing.T, tr *tree, s *source, d *ast.GenDecl) {
	for _, spec := range d.Specs {
		switch spec := spec.(type) {
		case *ast.TypeSpec:
			if !spec.Name.IsExported() {
				continue
			}
			if d.Doc == nil && spec.Doc == nil {
				t.Errorf("%s: type %s has no comment", tr.at(s, spec.Pos()), spec.Name.Name)
			}
			name := spec.Name.Name
			if !s.internal() && (strings.HasSuffix(name, "Options") || strings.HasSuffix(name, "Config")) {
				checkFields(t, tr, s, spec)
			}
		case *ast.ValueSpec:
			for _, n := range spec.Names {
				if n.IsExported() && d.Doc == nil && spec.Doc == nil && spec.Comment == nil {
					t.Errorf("%s: %s has no comment", tr.at(s, n.Pos()), n.Name)
				}
			}
		}
	}
}

func checkFields(t *testing.T, tr *tree, s *source, spec *ast.TypeSpec) {
	st, ok := spec.Type.(*ast.StructType)
	if !ok {
		return
	}
	documented := false
	for _, f := range st.Fields.List {
		// A comment may cover a run of fields without blank lines between them.
		documented = f.Doc != nil || f.Comment != nil || documented
		for _, n := range f.Names {
			if n.IsExported() && !documented {
				t.Errorf("%s: %s.%s has no comment", tr.at(s, n.Pos()), spec.Name.Name, n.Name)
			}
		}
	}
}

func exportedReceiver(f *ast.FuncDecl) bool {
	if f.Recv == nil {
		return true
	}
	e := f.Recv.List[0].Type
	for {
		switch x := e.(type) {
		case *ast.StarExpr:
			e = x.X
		case *ast.IndexExpr:
			e = x.X
		case *ast.Ident:
			return x.IsExported()
		default:
			return false
		}
	}
}

// TestPackagesHaveDocAndExample wants a doc.go in every package, and a runnable
// example with checked output in every package users import.
func TestPackagesHaveDocAndExample(t *testing.T) {
	tr := load(t)
	docs, examples, public := map[string]bool{}, map[string]bool{}, map[string]bool{}
	for _, s := range tr.files {
		if s.room() == "examples" || s.room() == "tools" {
			continue
		}
		if s.library() && !s.internal() {
			public[s.dir] = true
			if path.Base(s.path) == "doc.go" && s.syntax.Doc != nil {
				docs[s.dir] = true
			}
			continue
		}
		if !s.test {
			continue
		}
		for _, d := range s.syntax.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && strings.HasPrefix(f.Name.Name, "Example") && checked(tr, s, f) {
				examples[s.dir] = true
			}
		}
	}
	for dir := range public {
		if !docs[dir] {
			t.Errorf("%s has no doc.go", dir)
		}
		if !examples[dir] {
			t.Errorf("%s has no example with checked output", dir)
		}
	}
}

// checked reports whether an example ends in an output comment.
func checked(tr *tree, s *source, f *ast.FuncDecl) bool {
	for _, group := range s.syntax.Comments {
		if group.Pos() > f.Pos() && group.End() < f.End() {
			text := strings.ToLower(group.Text())
			if strings.HasPrefix(text, "output:") || strings.HasPrefix(text, "unordered output:") {
				return true
			}
		}
	}
	return false
}

// Budgets of the library's code.
const (
	maxFileLines     = 500
	maxFunctionLines = 80
)

func TestSizeBudgets(t *testing.T) {
	tr := load(t)
	for _, s := range tr.files {
		if !s.library() {
			continue
		}
		if s.lines > maxFileLines {
			t.Errorf("%s has %d lines, budget %d", s.path, s.lines, maxFileLines)
		}
		for _, d := range s.syntax.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || f.Body == nil {
				continue
			}
			if n := tr.lines(f.Pos(), f.End()); n > maxFunctionLines {
				t.Errorf("%s: %s has %d lines, budget %d", tr.at(s, f.Pos()), f.Name.Name, n, maxFunctionLines)
			}
		}
	}
}

func (tr *tree) lines(from, to token.Pos) int {
	return tr.fset.Position(to).Line - tr.fset.Position(from).Line + 1
}

// TestGoleak wants every package with tests that start goroutines to verify that
// none is left: a TestMain that calls goleak.
func TestGoleak(t *testing.T) {
	tr := load(t)
	tests, verified := map[string]bool{}, map[string]bool{}
	for _, s := range tr.files {
		if !s.test || s.room() == "tools" {
			continue
		}
		tests[s.dir] = true
		for _, imported := range s.imports {
			if imported == "go.uber.org/goleak" {
				verified[s.dir] = true
			}
		}
	}
	for dir := range tests {
		if verified[dir] || goleakExempt[dir] != "" {
			continue
		}
		t.Errorf("%s has tests but no goleak check", dir)
	}
}

// goleakExempt are packages whose tests start no goroutine, and why.
var goleakExempt = map[string]string{
	"internal/houserules":         "parses files",
	"internal/restartpolicy":      "pure functions",
	"podworkers/internal/machine": "pure functions; imports nothing that could start one",
}
