package houserules

import (
	"go/ast"
	"maps"
	"path"
	"slices"
	"strings"
)

// exportedNamesAreDocumented wants a comment on every exported type,
// function, method, constant and variable of the library, and on every exported
// field of an options or config struct. A comment on a group of constants or
// variables counts for its members.
func exportedNamesAreDocumented(tr *tree, report report) {
	for _, s := range tr.files {
		if !s.library() {
			continue
		}
		for _, d := range s.syntax.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				if d.Name.IsExported() && exportedReceiver(d) && d.Doc == nil {
					report("%s: %s has no comment", tr.at(s, d.Pos()), d.Name.Name)
				}
			case *ast.GenDecl:
				checkDocs(report, tr, s, d)
			}
		}
	}
}

func checkDocs(report report, tr *tree, s *source, d *ast.GenDecl) {
	for _, spec := range d.Specs {
		switch spec := spec.(type) {
		case *ast.TypeSpec:
			if !spec.Name.IsExported() {
				continue
			}
			if d.Doc == nil && spec.Doc == nil {
				report("%s: type %s has no comment", tr.at(s, spec.Pos()), spec.Name.Name)
			}
			name := spec.Name.Name
			if !s.internal() && (strings.HasSuffix(name, "Options") || strings.HasSuffix(name, "Config")) {
				checkFields(report, tr, s, spec)
			}
		case *ast.ValueSpec:
			for _, n := range spec.Names {
				if n.IsExported() && d.Doc == nil && spec.Doc == nil && spec.Comment == nil {
					report("%s: %s has no comment", tr.at(s, n.Pos()), n.Name)
				}
			}
		}
	}
}

func checkFields(report report, tr *tree, s *source, spec *ast.TypeSpec) {
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
				report("%s: %s.%s has no comment", tr.at(s, n.Pos()), spec.Name.Name, n.Name)
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

// packagesHaveDocAndExample wants a doc.go in every package, and a runnable
// example with checked output in every package users import.
func packagesHaveDocAndExample(tr *tree, report report) {
	docs, examples, public, packages := map[string]bool{}, map[string]bool{}, map[string]bool{}, map[string]bool{}
	for _, s := range tr.files {
		if s.room() == "examples" || s.room() == "tools" {
			continue
		}
		if path.Base(s.path) == "doc.go" && s.syntax.Doc != nil {
			docs[s.dir] = true
		}
		if !s.test && s.syntax.Name.Name != "main" {
			packages[s.dir] = true
		}
		if s.library() && !s.internal() {
			public[s.dir] = true
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
	for _, dir := range slices.Sorted(maps.Keys(packages)) {
		if !docs[dir] {
			report("%s has no doc.go", dir)
		}
		if public[dir] && !examples[dir] {
			report("%s has no example with checked output", dir)
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
