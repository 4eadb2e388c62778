package houserules

import (
	"go/ast"
	"go/token"
	"path"
	"slices"
	"strings"
)

// exportsHaveUsers wants a user for every exported package-level name that users can
// import: code of another package, an example, or a signature or field of an
// exported name (its type has to be named in a doc). The names of a test kit are used
// by tests. Constants of one type come together, as a vocabulary.
func exportsHaveUsers(tr *tree, report report) {
	exportsWithout(tr, exportExempt, report)
}

func exportsWithout(tr *tree, exempt map[string]string, report report) {
	used := usedNames(tr)
	for _, s := range tr.files {
		if !s.library() || s.internal() {
			continue
		}
		for _, e := range exportsOf(s) {
			name := s.dir + "." + e.name
			isError := strings.HasPrefix(e.name, "Err") || strings.HasSuffix(e.name, "Error")
			if isError || used[name] || exempt[name] != "" {
				continue
			}
			if !slices.ContainsFunc(e.group, func(other string) bool { return used[s.dir+"."+other] || exempt[s.dir+"."+other] != "" }) {
				report("%s: %s has no user outside its package, no example, and is in no signature: unexport or delete it", tr.at(s, e.pos), e.name)
			}
		}
	}
}

// export is one exported name.
type export struct {
	name string
	// group are the names it comes with: the type of a constant and the others of
	// its declaration.
	group []string
	pos   token.Pos
}

func exportsOf(s *source) []export {
	var out []export
	for _, d := range s.syntax.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if d.Recv == nil && d.Name.IsExported() {
				out = append(out, export{name: d.Name.Name, pos: d.Pos()})
			}
		case *ast.GenDecl:
			group := groupOf(d)
			for _, spec := range d.Specs {
				switch spec := spec.(type) {
				case *ast.TypeSpec:
					if spec.Name.IsExported() {
						out = append(out, export{name: spec.Name.Name, pos: spec.Pos()})
					}
				case *ast.ValueSpec:
					for _, n := range spec.Names {
						if n.IsExported() {
							out = append(out, export{name: n.Name, group: group, pos: n.Pos()})
						}
					}
				}
			}
		}
	}
	return out
}

// groupOf returns the names and types of a declaration of constants.
func groupOf(d *ast.GenDecl) []string {
	if d.Tok != token.CONST {
		return nil
	}
	var out []string
	for _, spec := range d.Specs {
		spec := spec.(*ast.ValueSpec)
		if id, ok := spec.Type.(*ast.Ident); ok {
			out = append(out, id.Name)
		}
		for _, n := range spec.Names {
			out = append(out, n.Name)
		}
	}
	return out
}

// usedNames returns dir.name of what other packages and examples name, and of the
// types in exported declarations.
func usedNames(tr *tree) map[string]bool {
	used := map[string]bool{}
	for _, s := range tr.files {
		dirs := s.importedDirs()
		for _, d := range s.syntax.Decls {
			f, isFunc := d.(*ast.FuncDecl)
			example := isFunc && s.test && strings.HasPrefix(f.Name.Name, "Example")
			ast.Inspect(d, func(n ast.Node) bool {
				sel, ok := n.(*ast.SelectorExpr)
				if !ok {
					return true
				}
				id, ok := sel.X.(*ast.Ident)
				if !ok || dirs[id.Name] == "" {
					return true
				}
				if dir := dirs[id.Name]; example || dir != s.dir && (!s.test || testKit(dir)) {
					used[dir+"."+sel.Sel.Name] = true
				}
				return true
			})
			if !s.test {
				markDeclared(used, s.dir, d)
			}
		}
	}
	return used
}

// testKit reports whether a package is for tests.
func testKit(dir string) bool {
	base := path.Base(dir)
	return strings.HasSuffix(base, "test") || base == "fake"
}

// markDeclared marks the types of the same package that an exported declaration
// mentions outside function bodies.
func markDeclared(used map[string]bool, dir string, d ast.Decl) {
	switch d := d.(type) {
	case *ast.FuncDecl:
		if d.Name.IsExported() && exportedReceiver(d) {
			markTypes(used, dir, d.Type)
		}
	case *ast.GenDecl:
		for _, spec := range d.Specs {
			switch spec := spec.(type) {
			case *ast.TypeSpec:
				if spec.Name.IsExported() {
					markTypes(used, dir, spec.Type)
				}
			case *ast.ValueSpec:
				if spec.Names[0].IsExported() && spec.Type != nil && d.Tok == token.VAR {
					markTypes(used, dir, spec.Type)
				}
			}
		}
	}
}

// markTypes marks the exported names in a type, unexported fields of structs left out.
func markTypes(used map[string]bool, dir string, n ast.Node) {
	ast.Inspect(n, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.SelectorExpr:
			return false // of another package
		case *ast.StructType:
			for _, f := range n.Fields.List {
				if len(f.Names) == 0 || f.Names[0].IsExported() {
					markTypes(used, dir, f.Type)
				}
			}
			return false
		case *ast.Field:
			markTypes(used, dir, n.Type) // not the names
			return false
		case *ast.Ident:
			if n.IsExported() {
				used[dir+"."+n.Name] = true
			}
		}
		return true
	})
}

// exportExempt are names without a user here, and the job a user has for them. One
// constant stands for its declaration.
var exportExempt = map[string]string{
	"podworkers.Cause":            "what context.Cause tells a PodSyncer",
	"runtime/runtimetest.Forever": "a value that factories meet in Program.Run",
	"status.NewChannelSink":       "a sink for users that handle statuses in a goroutine of their own",
	"syncloop/source.Default":     "a source of users defaults its pods as ours do",
	"syncloop/source.Validate":    "a source of users checks its pods as ours do",
}
