package houserules

import "go/ast"

// noBackReference: nothing holds or receives the Engine. Its own methods and the
// functions that return it are the only ones that name it. Packages outside the root
// cannot import the root (allowedImports).
func noBackReference(tr *tree, report report) {
	for _, s := range tr.files {
		if s.dir != "." || !s.library() {
			continue
		}
		ast.Inspect(s.syntax, func(n ast.Node) bool {
			var fields *ast.FieldList
			switch n := n.(type) {
			case *ast.StructType:
				fields = n.Fields
			case *ast.FuncType:
				fields = n.Params
			default:
				return true
			}
			for _, f := range fields.List {
				if namesEngine(f.Type) {
					report("%s: holds or receives the Engine; declare the few methods it needs", tr.at(s, f.Pos()))
				}
			}
			return true
		})
	}
}

func namesEngine(e ast.Expr) bool {
	found := false
	ast.Inspect(e, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.StructType, *ast.FuncType:
			return false // visited on its own
		case *ast.SelectorExpr:
			return false // another package's
		case *ast.Ident:
			found = found || n.Name == "Engine"
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
// of Engine.
func rootIsSmall(tr *tree, report report) {
	files, lines, methods := 0, 0, 0
	for _, s := range tr.files {
		if s.dir != "." || !s.library() {
			continue
		}
		files++
		lines += s.lines
		for _, d := range s.syntax.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Recv != nil && namesEngine(f.Recv.List[0].Type) {
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
