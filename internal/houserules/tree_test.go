package houserules

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/podwright/podwright"

// source is one parsed Go file of the module.
type source struct {
	path    string // slash path from the repository root
	dir     string // its directory, "." for the root
	test    bool
	syntax  *ast.File
	lines   int
	imports []string
}

// tree is every Go file below the repository root, the examples and tools
// modules included.
type tree struct {
	root  string
	fset  *token.FileSet
	files []*source
}

// load parses the repository. Test data and hidden folders are left out.
func load(t *testing.T) *tree {
	t.Helper()
	root, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	tr := &tree{root: root, fset: token.NewFileSet()}
	err = filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			name := d.Name()
			if p != root && (strings.HasPrefix(name, ".") || name == "testdata" || name == "bin" || name == "dist") {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(p, ".go") {
			return nil
		}
		return tr.add(p)
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(tr.files) < 10 {
		t.Fatalf("found only %d Go files below %s: the rules would pass on nothing", len(tr.files), root)
	}
	return tr
}

func (tr *tree) add(p string) error {
	text, err := os.ReadFile(p)
	if err != nil {
		return err
	}
	syntax, err := parser.ParseFile(tr.fset, p, text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	rel, err := filepath.Rel(tr.root, p)
	if err != nil {
		return err
	}
	rel = filepath.ToSlash(rel)
	s := &source{
		path: rel, dir: path.Dir(rel), syntax: syntax,
		test:  strings.HasSuffix(rel, "_test.go"),
		lines: strings.Count(string(text), "\n"),
	}
	for _, spec := range syntax.Imports {
		imported, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			return err
		}
		s.imports = append(s.imports, imported)
	}
	tr.files = append(tr.files, s)
	return nil
}

// at names a position as path:line.
func (tr *tree) at(s *source, pos token.Pos) string {
	return s.path + ":" + strconv.Itoa(tr.fset.Position(pos).Line)
}

// library reports whether s is code a user links: not a test, not an example,
// not a tool, not a main package, not a package that exists for our own tests.
func (s *source) library() bool {
	ours := s.room() == "internal" && strings.HasSuffix(s.syntax.Name.Name, "test")
	return !s.test && !ours && s.room() != "examples" && s.room() != "tools" && s.syntax.Name.Name != "main"
}

// internal reports whether users cannot import the file's package.
func (s *source) internal() bool {
	return strings.Contains("/"+s.dir+"/", "/internal/")
}

// room is the first element of the file's path, "" for the root package.
func (s *source) room() string {
	if s.dir == "." {
		return ""
	}
	first, _, _ := strings.Cut(s.dir, "/")
	return first
}

// within reports whether directory dir is base or below it.
func within(dir, base string) bool {
	return dir == base || strings.HasPrefix(dir, base+"/")
}

// calls reports each use of a selector pkg.name where pkg is imported from
// importPath.
func (tr *tree) calls(s *source, importPath string, names map[string]bool, report func(pos token.Pos, name string)) {
	local := ""
	for _, spec := range s.syntax.Imports {
		if p, _ := strconv.Unquote(spec.Path.Value); p == importPath {
			local = path.Base(importPath)
			if spec.Name != nil {
				local = spec.Name.Name
			}
		}
	}
	if local == "" {
		return
	}
	ast.Inspect(s.syntax, func(n ast.Node) bool {
		sel, ok := n.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		if id, ok := sel.X.(*ast.Ident); ok && id.Name == local && names[sel.Sel.Name] {
			report(sel.Pos(), sel.Sel.Name)
		}
		return true
	})
}
