package main

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"path/filepath"
	"strconv"
)

// mutant is one change, activated by its number.
type mutant struct {
	id       int
	file     string
	function string
	line     int
	change   string
	nth      int // among the same changes in the same function
}

// where names the mutant in the output.
func (m mutant) where() string {
	return fmt.Sprintf("%s:%d %s: %s", filepath.Base(m.file), m.line, m.function, m.label())
}

// name names the mutant in a way that survives moved lines.
func (m mutant) name() string {
	return fmt.Sprintf("%s:%s: %s", filepath.Base(m.file), m.function, m.label())
}

func (m mutant) label() string {
	if m.nth == 0 {
		return m.change
	}
	return fmt.Sprintf("%s (%d)", m.change, m.nth+1)
}

// switchboard is the file added to the package: the functions that the changed code calls.
const switchboard = `package %s

import (
	"os"
	"strconv"
)

var mutantActive, _ = strconv.Atoi(os.Getenv("MUTANT"))

func mutantChoose(id int, a, b func() bool) bool {
	if mutantActive == id {
		return b()
	}
	return a()
}

func mutantFlip(id int, v bool) bool { return v != (mutantActive == id) }

func mutantKeep(id int) bool { return mutantActive != id }
`

// generator rewrites a package so that it contains all mutants at once.
type generator struct {
	fset     *token.FileSet
	file     string
	function string
	seen     map[string]int
	mutants  []mutant
}

// rewrite returns the source of the file with all its mutants in it.
func (g *generator) rewrite(file string) (pkg string, source []byte, err error) {
	g.fset, g.file, g.seen = token.NewFileSet(), file, map[string]int{}
	tree, err := parser.ParseFile(g.fset, file, nil, parser.SkipObjectResolution)
	if err != nil {
		return "", nil, err
	}
	for _, d := range tree.Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok || f.Body == nil || describes(f) {
			continue
		}
		g.function = f.Name.Name
		g.block(f.Body)
	}
	var b bytes.Buffer
	err = format.Node(&b, g.fset, tree)
	return tree.Name.Name, b.Bytes(), err
}

// describes reports whether a function only produces text.
func describes(f *ast.FuncDecl) bool {
	switch f.Name.Name {
	case "String", "Symbol", "method":
		return true
	}
	return false
}

// add records a mutant and returns its number as an expression.
func (g *generator) add(at token.Pos, change string) ast.Expr {
	key := g.function + change
	m := mutant{
		id: len(g.mutants) + 1, file: g.file, function: g.function,
		line: g.fset.Position(at).Line, change: change, nth: g.seen[key],
	}
	g.seen[key]++
	g.mutants = append(g.mutants, m)
	return &ast.BasicLit{Kind: token.INT, Value: strconv.Itoa(m.id)}
}

func (g *generator) block(b *ast.BlockStmt) {
	if b != nil {
		g.list(b.List)
	}
}

func (g *generator) list(stmts []ast.Stmt) {
	for i, s := range stmts {
		text, pos := g.text(s), s.Pos()
		g.stmt(s)
		if droppable(s) {
			stmts[i] = &ast.IfStmt{
				Cond: call("mutantKeep", g.add(pos, text+" is dropped")),
				Body: &ast.BlockStmt{List: []ast.Stmt{s}},
			}
		}
	}
}

// droppable reports whether a statement is there only for its effect.
func droppable(s ast.Stmt) bool {
	switch s := s.(type) {
	case *ast.ExprStmt, *ast.IncDecStmt:
		return true
	case *ast.AssignStmt:
		return s.Tok != token.DEFINE
	}
	return false
}

func (g *generator) stmt(s ast.Stmt) {
	switch s := s.(type) {
	case *ast.BlockStmt:
		g.block(s)
	case *ast.IfStmt:
		g.stmt(s.Init)
		g.condition(&s.Cond)
		g.block(s.Body)
		g.stmt(s.Else)
	case *ast.ForStmt:
		g.stmt(s.Init)
		g.expr(&s.Cond)
		g.block(s.Body)
	case *ast.RangeStmt:
		g.block(s.Body)
	case *ast.SwitchStmt:
		g.stmt(s.Init)
		for _, c := range s.Body.List {
			clause := c.(*ast.CaseClause) //nolint:forcetypeassert // there are no other statements
			if s.Tag == nil {
				for i := range clause.List {
					g.condition(&clause.List[i])
				}
			}
			g.list(clause.Body)
		}
	case *ast.ReturnStmt:
		for i := range s.Results {
			g.expr(&s.Results[i])
		}
	case *ast.AssignStmt:
		for i := range s.Rhs {
			g.expr(&s.Rhs[i])
		}
	case *ast.ExprStmt:
		g.expr(&s.X)
	}
}

// turned maps an operator to its replacements.
var turned = map[token.Token][]token.Token{
	token.EQL: {token.NEQ}, token.NEQ: {token.EQL},
	token.LSS: {token.LEQ, token.GEQ}, token.LEQ: {token.LSS, token.GTR},
	token.GTR: {token.GEQ, token.LEQ}, token.GEQ: {token.GTR, token.LSS},
	token.LAND: {token.LOR}, token.LOR: {token.LAND},
}

// condition mutates an expression that decides something; it is also negated as a whole, unless
// another mutant is equivalent.
func (g *generator) condition(e *ast.Expr) {
	text, at := g.text(*e), (*e).Pos()
	same := false
	switch x := (*e).(type) {
	case *ast.BinaryExpr:
		same = x.Op == token.EQL || x.Op == token.NEQ
	case *ast.UnaryExpr:
		same = x.Op == token.NOT
	}
	g.expr(e)
	if !same {
		*e = choose(g.add(at, text+" is negated"), *e, not(*e))
	}
}

func (g *generator) expr(e *ast.Expr) {
	switch x := (*e).(type) {
	case *ast.BinaryExpr:
		text, op, at := g.text(x), x.Op, x.OpPos
		g.expr(&x.X)
		g.expr(&x.Y)
		var result ast.Expr = x
		for _, other := range turned[op] {
			changed := &ast.BinaryExpr{X: x.X, Op: other, Y: x.Y}
			result = choose(g.add(at, fmt.Sprintf("%s: %s becomes %s", text, op, other)), result, changed)
		}
		*e = result
	case *ast.UnaryExpr:
		text, at := g.text(x), x.Pos()
		g.expr(&x.X)
		if x.Op == token.NOT {
			*e = choose(g.add(at, text+" loses its !"), x, x.X)
		}
	case *ast.Ident:
		if x.Name == "true" || x.Name == "false" {
			*e = call("mutantFlip", g.add(x.Pos(), x.Name+" is turned"), ast.NewIdent(x.Name))
		}
	case *ast.ParenExpr:
		g.expr(&x.X)
	case *ast.CallExpr:
		for i := range x.Args {
			g.expr(&x.Args[i])
		}
	case *ast.CompositeLit:
		for i := range x.Elts {
			if kv, ok := x.Elts[i].(*ast.KeyValueExpr); ok {
				g.expr(&kv.Value)
			} else {
				g.expr(&x.Elts[i])
			}
		}
	case *ast.FuncLit:
		g.block(x.Body)
	}
}

func not(e ast.Expr) ast.Expr {
	return &ast.UnaryExpr{Op: token.NOT, X: &ast.ParenExpr{X: e}}
}

func call(name string, args ...ast.Expr) *ast.CallExpr {
	return &ast.CallExpr{Fun: ast.NewIdent(name), Args: args}
}

// choose evaluates to a while the mutant is off, and to b while it is on. Only one of them is evaluated.
func choose(id, a, b ast.Expr) ast.Expr {
	return call("mutantChoose", id, lazy(a), lazy(b))
}

func lazy(e ast.Expr) ast.Expr {
	return &ast.FuncLit{
		Type: &ast.FuncType{Params: &ast.FieldList{}, Results: &ast.FieldList{List: []*ast.Field{{Type: ast.NewIdent("bool")}}}},
		Body: &ast.BlockStmt{List: []ast.Stmt{&ast.ReturnStmt{Results: []ast.Expr{e}}}},
	}
}

// text returns the source of a node, on one line and not too long.
func (g *generator) text(n ast.Node) string {
	var b bytes.Buffer
	if err := format.Node(&b, g.fset, n); err != nil {
		return "?"
	}
	line := string(bytes.Join(bytes.Fields(b.Bytes()), []byte(" ")))
	if len(line) > 60 {
		line = line[:57] + "..."
	}
	return line
}
