package houserules

import (
	"go/ast"
	"slices"
)

// noBackReference: nothing holds or receives the Engine or its parts, but the Engine itself,
// which embeds them. Their own methods and the functions that return them are the only ones
// that name them. Packages outside the root cannot import the root (allowedImports).
func noBackReference(tr *tree, report report) {
	for _, s := range tr.files {
		if s.dir != "." || !s.library() {
			continue
		}
		ast.Inspect(s.syntax, func(n ast.Node) bool {
			var fields *ast.FieldList
			switch n := n.(type) {
			case *ast.TypeSpec:
				if n.Name.Name == "Engine" {
					return false
				}
				if names(n.Type, "Engine", "parts") {
					report("%s: another name for the Engine or its parts, which no rule would find", tr.at(s, n.Pos()))
				}
				return true
			case *ast.ValueSpec:
				if n.Type != nil && names(n.Type, "Engine", "parts") {
					report("%s: holds the Engine or its parts; declare the few methods it needs", tr.at(s, n.Pos()))
				}
				return true
			case *ast.StructType:
				fields = n.Fields
			case *ast.FuncType:
				fields = n.Params
			default:
				return true
			}
			for _, f := range fields.List {
				if names(f.Type, "Engine", "parts") {
					report("%s: holds or receives the Engine or its parts; declare the few methods it needs", tr.at(s, f.Pos()))
				}
			}
			return true
		})
	}
}

// names reports whether a type is made with one of these types of its own package.
func names(e ast.Expr, types ...string) bool {
	found := false
	ast.Inspect(e, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.StructType, *ast.FuncType:
			return false // visited on its own
		case *ast.SelectorExpr:
			return false // another package's
		case *ast.Ident:
			found = found || slices.Contains(types, n.Name)
		}
		return true
	})
	return found
}

// Budgets of the root package, which composes and decides nothing.
const (
	maxRootFiles     = 10
	maxRootLines     = 2000
	maxEngineMethods = 35
)

// rootIsSmall counts the root package's files and lines, tests apart, and the methods
// of Engine, with those that it has from its parts.
func rootIsSmall(tr *tree, report report) {
	files, lines, methods := 0, 0, 0
	for _, s := range tr.files {
		if s.dir != "." || !s.library() {
			continue
		}
		files++
		lines += s.lines
		for _, d := range s.syntax.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || f.Recv == nil {
				continue
			}
			receiver := f.Recv.List[0].Type
			if names(receiver, "Engine") || names(receiver, "parts") && f.Name.IsExported() {
				methods++
			}
		}
	}
	if files > maxRootFiles {
		report("the root has %d files, budget %d", files, maxRootFiles)
	}
	if lines > maxRootLines {
		report("the root has %d lines, budget %d", lines, maxRootLines)
	}
	if methods > maxEngineMethods {
		report("Engine has %d methods, budget %d", methods, maxEngineMethods)
	}
}
