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

// interfacesAreSmall counts the methods an interface declares and, where it embeds
// one of the same package, the methods of that.
func interfacesAreSmall(tr *tree, report report) {
	methods := map[string]*ast.InterfaceType{}
	for _, s := range tr.files {
		for name, i := range interfaces(s) {
			methods[s.dir+"."+name] = i
		}
	}
	for _, s := range tr.files {
		if !s.library() {
			continue
		}
		for name, i := range interfaces(s) {
			n := countMethods(methods, s.dir, i)
			if n > maxInterfaceMethods && interfaceExempt[s.dir+"."+name] == "" {
				report("%s: interface %s has %d methods, budget %d", tr.at(s, i.Pos()), name, n, maxInterfaceMethods)
			}
		}
	}
}

// interfaceExempt are larger interfaces, and why.
var interfaceExempt = map[string]string{
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

func countMethods(all map[string]*ast.InterfaceType, dir string, i *ast.InterfaceType) int {
	n := 0
	for _, f := range i.Methods.List {
		n += len(f.Names)
		if id, ok := f.Type.(*ast.Ident); ok && all[dir+"."+id.Name] != nil {
			n += countMethods(all, dir, all[dir+"."+id.Name])
		}
	}
	return n
}
