package houserules

import (
	"go/ast"
	"go/token"
)

// Budgets of the library's code.
const (
	maxFileLines        = 500
	maxFunctionLines    = 80
	maxInterfaceMethods = 7
)

func sizeBudgets(tr *tree, report report) {
	for _, s := range tr.files {
		if !s.library() {
			continue
		}
		if s.lines > maxFileLines {
			report("%s has %d lines, budget %d", s.path, s.lines, maxFileLines)
		}
		for _, d := range s.syntax.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || f.Body == nil {
				continue
			}
			if n := tr.lines(f.Pos(), f.End()); n > maxFunctionLines {
				report("%s: %s has %d lines, budget %d", tr.at(s, f.Pos()), f.Name.Name, n, maxFunctionLines)
			}
		}
	}
}

func (tr *tree) lines(from, to token.Pos) int {
	return tr.fset.Position(to).Line - tr.fset.Position(from).Line + 1
}

// interfacesAreSmall counts the methods an interface declares and those of the module's
// interfaces that it embeds.
func interfacesAreSmall(tr *tree, report report) {
	methods := map[string]declaredInterface{}
	for _, s := range tr.files {
		for name, i := range interfaces(s) {
			methods[s.dir+"."+name] = declaredInterface{i, s.importedDirs()}
		}
	}
	for _, s := range tr.files {
		if !s.library() {
			continue
		}
		named := map[*ast.InterfaceType]bool{}
		for name, i := range interfaces(s) {
			named[i] = true
			n := countMethods(methods, s.dir, s.importedDirs(), i)
			if n > maxInterfaceMethods && interfaceExempt[s.dir+"."+name] == "" {
				report("%s: interface %s has %d methods, budget %d", tr.at(s, i.Pos()), name, n, maxInterfaceMethods)
			}
		}
		ast.Inspect(s.syntax, func(n ast.Node) bool {
			if i, ok := n.(*ast.InterfaceType); ok && !named[i] {
				if n := countMethods(methods, s.dir, s.importedDirs(), i); n > maxInterfaceMethods {
					report("%s: an interface without a name has %d methods, budget %d", tr.at(s, i.Pos()), n, maxInterfaceMethods)
				}
			}
			return true
		})
	}
}

// interfaceExempt are larger interfaces, and why.
var interfaceExempt = map[string]string{
	"kube.Engine":                "what the agent's server and its statistics need, put together",
	"runtime/cri.RuntimeService": "the runtime service of the CRI, put together from small ones",
}

func interfaces(s *source) map[string]*ast.InterfaceType {
	out := map[string]*ast.InterfaceType{}
	ast.Inspect(s.syntax, func(n ast.Node) bool {
		if spec, ok := n.(*ast.TypeSpec); ok {
			if i, ok := spec.Type.(*ast.InterfaceType); ok {
				out[spec.Name.Name] = i
			}
		}
		return true
	})
	return out
}

// declaredInterface is an interface, and the folders of the packages that its file imports.
type declaredInterface struct {
	methods *ast.InterfaceType
	dirs    map[string]string
}

func countMethods(all map[string]declaredInterface, dir string, dirs map[string]string, i *ast.InterfaceType) int {
	n := 0
	for _, f := range i.Methods.List {
		n += len(f.Names)
		from, name := dir, ""
		switch t := f.Type.(type) {
		case *ast.Ident:
			name = t.Name
		case *ast.SelectorExpr:
			if id, ok := t.X.(*ast.Ident); ok {
				from, name = dirs[id.Name], t.Sel.Name
			}
		}
		if embedded, ok := all[from+"."+name]; ok && len(f.Names) == 0 {
			n += countMethods(all, from, embedded.dirs, embedded.methods)
		}
	}
	return n
}
