package houserules

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
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
	texts []text // every file, Go or not
}

// text is one file of the repository as it is.
type text struct{ path, content string }

// maxText is the size up to which files are read.
const maxText = 1 << 20

// load reads the repository and parses its Go files. Test data and hidden folders
// count as text only.
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
		name := d.Name()
		if d.IsDir() {
			if name == ".git" || name == "bin" || name == "dist" {
				return filepath.SkipDir
			}
			return nil
		}
		info, err := d.Info()
		// In a linked work tree .git is a file that names the repository.
		if err != nil || !info.Mode().IsRegular() || info.Size() > maxText || name == ".git" {
			return err
		}
		content, err := os.ReadFile(p)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, p)
		if err != nil {
			return err
		}
		return tr.add(filepath.ToSlash(rel), string(content))
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(tr.files) < 10 {
		t.Fatalf("found only %d Go files below %s: the rules would pass on nothing", len(tr.files), root)
	}
	return tr
}

// loadFiles is a tree of the given files by path.
func loadFiles(t *testing.T, files map[string]string) *tree {
	t.Helper()
	tr := &tree{fset: token.NewFileSet()}
	for _, p := range slices.Sorted(maps.Keys(files)) {
		if err := tr.add(p, files[p]); err != nil {
			t.Fatal(err)
		}
	}
	return tr
}

func (tr *tree) add(p, content string) error {
	tr.texts = append(tr.texts, text{p, content})
	hidden := strings.HasPrefix(p, ".") || strings.Contains(p, "/.")
	if !strings.HasSuffix(p, ".go") || hidden || strings.Contains("/"+p, "/testdata/") {
		return nil
	}
	syntax, err := parser.ParseFile(tr.fset, p, content, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	s := &source{
		path: p, dir: path.Dir(p), syntax: syntax,
		test:  strings.HasSuffix(p, "_test.go"),
		lines: strings.Count(content, "\n"),
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

// calls reports each use of pkg.name, one of names, where pkg is imported from
// importPath.
func (tr *tree) calls(s *source, importPath string, names map[string]bool, report func(pos token.Pos, name string)) {
	tr.uses(s, importPath, func(pos token.Pos, name string) {
		if names[name] {
			report(pos, name)
		}
	})
}

// uses reports each use of pkg.name where pkg is imported from importPath, under any name.
func (tr *tree) uses(s *source, importPath string, report func(pos token.Pos, name string)) {
	locals := map[string]bool{}
	for _, spec := range s.syntax.Imports {
		if p, _ := strconv.Unquote(spec.Path.Value); p == importPath {
			local := baseName(importPath)
			if spec.Name != nil {
				local = spec.Name.Name
			}
			locals[local] = true
		}
	}
	if len(locals) == 0 {
		return
	}
	ast.Inspect(s.syntax, func(n ast.Node) bool {
		sel, ok := n.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		if id, ok := sel.X.(*ast.Ident); ok && locals[id.Name] {
			report(sel.Pos(), sel.Sel.Name)
		}
		return true
	})
}

// importedDirs are the folders of the module's packages that a file imports, by their names in it.
func (s *source) importedDirs() map[string]string {
	dirs := map[string]string{}
	for _, spec := range s.syntax.Imports {
		imported, _ := strconv.Unquote(spec.Path.Value)
		if dir, ok := strings.CutPrefix(imported+"/", module+"/"); ok {
			local := baseName(imported)
			if spec.Name != nil {
				local = spec.Name.Name
			}
			dirs[local] = path.Clean(dir)
		}
	}
	return dirs
}

// cellsOf are the cells of a row of a table.
func cellsOf(line string) []string {
	cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
	for i := range cells {
		cells[i] = strings.TrimSpace(cells[i])
	}
	return cells
}

// baseName is the name a package has by default: the path's last element that is
// not a version.
func baseName(importPath string) string {
	base := path.Base(importPath)
	if len(base) > 1 && base[0] == 'v' && strings.Trim(base[1:], "0123456789") == "" {
		return path.Base(path.Dir(importPath))
	}
	return base
}

func set(names ...string) map[string]bool {
	m := make(map[string]bool, len(names))
	for _, n := range names {
		m[n] = true
	}
	return m
}
