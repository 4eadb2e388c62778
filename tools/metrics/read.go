package main

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// instrumentPackage is the package that makes the instruments.
const instrumentPackage = "github.com/podwright/podwright/internal/instrument"

// made is an instrument that the source makes.
type made struct {
	name, description string
	// method is the method of instrument.Set that makes it.
	method  string
	labels  []label
	buckets []string
	// dir is the folder of the package, with slashes.
	dir string
}

// label is a label; no values means an open set.
type label struct {
	key    string
	values []string
	open   bool // there may be others
}

// kinds maps each method of a set to what it makes, in Prometheus' terms.
func kinds() map[string]string {
	return map[string]string{
		"Counter": "counter", "SecondsCounter": "counter", "ReadCounter": "counter",
		"Gauge": "gauge", "UpDown": "gauge", "ReadGauge": "gauge", "ReadSeconds": "gauge",
		"Sizes": "histogram", "Durations": "histogram",
	}
}

// read returns every instrument below root, in the order of their names, or everything that cannot
// be read.
func read(root string) ([]made, error) {
	var all []made
	var problems []error
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := d.Name()
		if d.IsDir() {
			if name == "testdata" || name == "bin" || strings.HasPrefix(name, ".") && path != root {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			return nil
		}
		inner, err := filepath.Rel(root, filepath.Dir(path))
		if err != nil {
			return err
		}
		if strings.HasPrefix(filepath.ToSlash(inner)+"/", "internal/instrument/") || strings.HasPrefix(inner, "tools") {
			return nil
		}
		found, err := readFile(path)
		for i := range found {
			found[i].dir = filepath.ToSlash(inner)
		}
		all = append(all, found...)
		problems = append(problems, err)
		return nil
	})
	slices.SortStableFunc(all, func(a, b made) int { return strings.Compare(a.name, b.name) })
	for i := 1; i < len(all); i++ {
		if all[i].name == all[i-1].name {
			problems = append(problems, fmt.Errorf("metric %s is made in %s and in %s", all[i].name, all[i-1].dir, all[i].dir))
		}
	}
	return all, errors.Join(append(problems, err)...)
}

// readFile returns the instruments that a file makes.
func readFile(path string) (all []made, err error) {
	files := token.NewFileSet()
	syntax, err := parser.ParseFile(files, path, nil, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	if !slices.ContainsFunc(syntax.Imports, func(s *ast.ImportSpec) bool { return s.Path.Value == strconv.Quote(instrumentPackage) }) {
		return nil, nil
	}
	var problems []error
	for _, d := range syntax.Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok || f.Body == nil {
			continue
		}
		options := sharedOptions(f)
		ast.Inspect(f, func(n ast.Node) bool {
			call, method := setCall(n)
			if call == nil {
				if other := unreadable(n); other != "" {
					problems = append(problems, fmt.Errorf("%s: %s", files.Position(n.Pos()), other))
				}
				return true
			}
			m, err := instrument(call, method, options)
			if err != nil {
				problems = append(problems, fmt.Errorf("%s: %w", files.Position(call.Pos()), err))
			}
			all = append(all, m)
			return true
		})
	}
	return all, errors.Join(problems...)
}

// sharedOptions returns the variables of a function that hold an option for several instruments.
func sharedOptions(f *ast.FuncDecl) map[string]*ast.CallExpr {
	options := map[string]*ast.CallExpr{}
	ast.Inspect(f, func(n ast.Node) bool {
		a, ok := n.(*ast.AssignStmt)
		if !ok || len(a.Lhs) != len(a.Rhs) {
			return true
		}
		for i, left := range a.Lhs {
			name, isName := left.(*ast.Ident)
			call, isCall := a.Rhs[i].(*ast.CallExpr)
			if isName && isCall && optionKind(call) != "" {
				options[name.Name] = call
			}
		}
		return true
	})
	return options
}

// optionKind is By, From or Buckets if call is instrument.By, instrument.From or instrument.Buckets.
func optionKind(call *ast.CallExpr) string {
	s, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return ""
	}
	if p, ok := s.X.(*ast.Ident); !ok || p.Name != "instrument" {
		return ""
	}
	switch s.Sel.Name {
	case "By", "From", "Buckets":
		return s.Sel.Name
	}
	return ""
}

// setCall returns a call of a method that makes an instrument. Variables that hold a set must be called set.
func setCall(n ast.Node) (call *ast.CallExpr, method string) {
	call, ok := n.(*ast.CallExpr)
	if !ok {
		return nil, ""
	}
	s, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return nil, ""
	}
	if set, ok := s.X.(*ast.Ident); !ok || set.Name != "set" || kinds()[s.Sel.Name] == "" {
		return nil, ""
	}
	return call, s.Sel.Name
}

// unreadable says what hides an instrument from this program: a set with another name.
func unreadable(n ast.Node) string {
	call, ok := n.(*ast.CallExpr)
	if !ok || len(call.Args) < 2 {
		return ""
	}
	s, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || kinds()[s.Sel.Name] == "" {
		return ""
	}
	return "make instruments with a variable set := instrument.New(meter), so that docs/metrics.md can have them"
}

// instrument reads one call.
func instrument(call *ast.CallExpr, method string, shared map[string]*ast.CallExpr) (m made, err error) {
	m.method = method
	if len(call.Args) < 2 {
		return m, errors.New("an instrument has a name and a description")
	}
	if m.name, err = text(call.Args[0]); err != nil {
		return m, err
	}
	if m.description, err = text(call.Args[1]); err != nil {
		return m, err
	}
	if m.description == "" {
		return m, fmt.Errorf("metric %s says nothing about itself", m.name)
	}
	for _, arg := range call.Args[2:] {
		option, ok := arg.(*ast.CallExpr)
		if name, is := arg.(*ast.Ident); is {
			option, ok = shared[name.Name]
		}
		if !ok || optionKind(option) == "" {
			return m, fmt.Errorf("metric %s: an option is instrument.By, instrument.From or instrument.Buckets, or a variable of the function that holds one", m.name)
		}
		if err := m.take(option); err != nil {
			return m, fmt.Errorf("metric %s: %w", m.name, err)
		}
	}
	return m, nil
}

// take adds what an option specifies.
func (m *made) take(option *ast.CallExpr) error {
	var all []string
	for _, arg := range option.Args {
		value, err := text(arg)
		if err != nil {
			return err
		}
		all = append(all, value)
	}
	if optionKind(option) == "Buckets" {
		m.buckets = all
	} else if len(all) > 0 {
		m.labels = append(m.labels, label{key: all[0], values: all[1:], open: optionKind(option) == "From"})
	}
	return nil
}

// text returns the value of a literal.
func text(e ast.Expr) (string, error) {
	literal, ok := e.(*ast.BasicLit)
	if !ok {
		return "", errors.New("names, descriptions, labels and boundaries are literals, so that docs/metrics.md can have them")
	}
	if literal.Kind != token.STRING {
		return literal.Value, nil
	}
	return strconv.Unquote(literal.Value)
}
