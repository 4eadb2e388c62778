package main

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/build/constraint"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// target is one fuzz function.
type target struct {
	// module is the folder of its go.mod, pkg the package's folder below the module.
	module, pkg string
	// shown is the package's folder below the root.
	shown, name string
}

func (t target) String() string { return t.shown + "." + t.name }

// find lists the targets below root, in every module, by package and name.
func find(root string) ([]target, error) {
	var found []target
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != root && ignored(d.Name()):
			return filepath.SkipDir
		case d.IsDir() || !strings.HasSuffix(path, "_test.go"):
			return nil
		}
		names, err := targetsOf(path)
		if err != nil || len(names) == 0 {
			return err
		}
		t, err := place(root, filepath.Dir(path))
		for _, t.name = range names {
			found = append(found, t)
		}
		return err
	})
	slices.SortFunc(found, func(a, b target) int { return cmp.Or(cmp.Compare(a.shown, b.shown), cmp.Compare(a.name, b.name)) })
	return found, err
}

// ignored reports folders that the go command ignores too.
func ignored(name string) bool {
	return name == "testdata" || name == "vendor" || name[0] == '.' || name[0] == '_'
}

// targetsOf lists the fuzz functions of a file. One behind a build constraint would be skipped
// silently, so it is an error.
func targetsOf(path string) ([]string, error) {
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, d := range file.Decls {
		f, ok := d.(*ast.FuncDecl)
		if ok && f.Recv == nil && strings.HasPrefix(f.Name.Name, "Fuzz") && takesF(f.Type.Params.List) {
			names = append(names, f.Name.Name)
		}
	}
	if len(names) > 0 && constrained(file) {
		return nil, fmt.Errorf("%s: %s is behind a build constraint and would never be fuzzed: move it to a file without one", path, names[0])
	}
	return names, nil
}

// takesF reports whether a function takes one *testing.F.
func takesF(params []*ast.Field) bool {
	if len(params) != 1 {
		return false
	}
	star, ok := params[0].Type.(*ast.StarExpr)
	if !ok {
		return false
	}
	selector, ok := star.X.(*ast.SelectorExpr)
	return ok && selector.Sel.Name == "F"
}

// constrained reports a build constraint that not every Linux satisfies.
func constrained(file *ast.File) bool {
	for _, group := range file.Comments {
		for _, c := range group.List {
			if expr, err := constraint.Parse(c.Text); err == nil && !expr.Eval(func(tag string) bool { return tag == "linux" || tag == "unix" }) {
				return true
			}
		}
	}
	return false
}

// place finds the module of a folder.
func place(root, dir string) (target, error) {
	for module := dir; ; module = filepath.Dir(module) {
		if _, err := os.Stat(filepath.Join(module, "go.mod")); err == nil {
			pkg, err := filepath.Rel(module, dir)
			if err != nil {
				return target{}, err
			}
			shown, err := filepath.Rel(root, dir)
			return target{module: module, pkg: "./" + filepath.ToSlash(pkg), shown: filepath.ToSlash(shown)}, err
		}
		if module == root || module == filepath.Dir(module) {
			return target{}, fmt.Errorf("%s is in no module", dir)
		}
	}
}
