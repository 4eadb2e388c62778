package houserules

import (
	"go/ast"
	"go/token"
	"strings"
)

// noPackageState allows package variables that cannot change: interface
// checks, error sentinels, compiled patterns, and unexported tables that no code
// of the package assigns to or takes the address of.
func noPackageState(tr *tree, report report) {
	written := writes(tr)
	for _, s := range tr.files {
		if !s.library() {
			continue
		}
		for _, d := range s.syntax.Decls {
			g, ok := d.(*ast.GenDecl)
			if !ok || g.Tok != token.VAR {
				continue
			}
			for _, spec := range g.Specs {
				v := spec.(*ast.ValueSpec)
				for i, name := range v.Names {
					if name.Name == "_" || constant(v, i) {
						continue
					}
					if table(v, i) && !name.IsExported() && !written[s.dir+"."+name.Name] {
						continue
					}
					report("%s: package variable %s holds state", tr.at(s, name.Pos()), name.Name)
				}
			}
		}
	}
}

// constant reports whether the value of a variable is an error sentinel, another
// package's or our own, or a compiled pattern.
func constant(v *ast.ValueSpec, i int) bool {
	if i >= len(v.Values) {
		return false
	}
	if alias, ok := v.Values[i].(*ast.SelectorExpr); ok {
		return strings.HasPrefix(alias.Sel.Name, "Err")
	}
	call, ok := v.Values[i].(*ast.CallExpr)
	if !ok {
		return false
	}
	sel, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	pkg, ok := sel.X.(*ast.Ident)
	if !ok {
		return false
	}
	switch pkg.Name + "." + sel.Sel.Name {
	case "errors.New", "fmt.Errorf", "regexp.MustCompile", "template.Must", "resource.MustParse":
		return true
	}
	return false
}

// table reports whether a variable is initialised with a literal.
func table(v *ast.ValueSpec, i int) bool {
	if i >= len(v.Values) {
		return false
	}
	switch e := v.Values[i].(type) {
	case *ast.CompositeLit, *ast.BasicLit:
		return true
	case *ast.CallExpr:
		// A conversion or a builder of a set: no selector, so a function of
		// this package over literals.
		_, ok := e.Fun.(*ast.Ident)
		return ok
	}
	return false
}

// writes returns the package-level names, as dir.name, that some statement
// assigns to, takes the address of, increments, deletes from or clears.
func writes(tr *tree) map[string]bool {
	out := map[string]bool{}
	for _, s := range tr.files {
		if s.test {
			continue
		}
		mark := func(e ast.Expr) {
			if name := rootName(e); name != "" {
				out[s.dir+"."+name] = true
			}
		}
		for _, d := range s.syntax.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || f.Body == nil {
				continue
			}
			local := locals(f)
			ast.Inspect(f.Body, func(n ast.Node) bool {
				switch x := n.(type) {
				case *ast.AssignStmt:
					if x.Tok != token.DEFINE {
						for _, l := range x.Lhs {
							if !local[rootName(l)] {
								mark(l)
							}
						}
					}
				case *ast.IncDecStmt:
					if !local[rootName(x.X)] {
						mark(x.X)
					}
				case *ast.UnaryExpr:
					if x.Op == token.AND && !local[rootName(x.X)] {
						mark(x.X)
					}
				}
				return true
			})
		}
	}
	return out
}

// locals returns the names a function declares itself.
func locals(f *ast.FuncDecl) map[string]bool {
	out := map[string]bool{}
	fields := func(list *ast.FieldList) {
		if list == nil {
			return
		}
		for _, field := range list.List {
			for _, n := range field.Names {
				out[n.Name] = true
			}
		}
	}
	fields(f.Recv)
	fields(f.Type.Params)
	fields(f.Type.Results)
	ast.Inspect(f.Body, func(n ast.Node) bool {
		switch x := n.(type) {
		case *ast.AssignStmt:
			if x.Tok == token.DEFINE {
				for _, l := range x.Lhs {
					out[rootName(l)] = true
				}
			}
		case *ast.RangeStmt:
			for _, e := range []ast.Expr{x.Key, x.Value} {
				if e != nil {
					out[rootName(e)] = true
				}
			}
		case *ast.ValueSpec:
			for _, n := range x.Names {
				out[n.Name] = true
			}
		case *ast.FuncLit:
			fields(x.Type.Params)
			fields(x.Type.Results)
		}
		return true
	})
	return out
}

func rootName(e ast.Expr) string {
	for {
		switch x := e.(type) {
		case *ast.IndexExpr:
			e = x.X
		case *ast.SelectorExpr:
			e = x.X
		case *ast.StarExpr:
			e = x.X
		case *ast.ParenExpr:
			e = x.X
		case *ast.Ident:
			return x.Name
		default:
			return ""
		}
	}
}
