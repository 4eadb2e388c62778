package houserules

import (
	"go/ast"
	"go/types"
	"regexp"
	"strings"
)

// hostsHoldNoLock: a logger, a recorder or a meter may block, may need a lock whose holder asks the engine, and may ask the engine
// itself. The rule sees what one function does between Lock and Unlock, and functions that say that a lock is held.
func hostsHoldNoLock(tr *tree, report report) {
	for _, s := range tr.files {
		if !s.library() {
			continue
		}
		look := locked{func(call *ast.CallExpr, what string) {
			report("%s: %s with a lock held; unlock first", tr.at(s, call.Pos()), what)
		}}
		ast.Inspect(s.syntax, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncDecl:
				if n.Body != nil {
					look.block(n.Body.List, heldByCaller.MatchString(strings.Join(strings.Fields(n.Doc.Text()), " ")))
				}
			case *ast.FuncLit:
				look.block(n.Body.List, false)
			}
			return true
		})
	}
}

// heldByCaller is how comments say that a lock is held.
var heldByCaller = regexp.MustCompile(`(lock|mu) (is|must be) held|caller holds the lock`)

// locked looks for calls with a lock held.
type locked struct {
	found func(call *ast.CallExpr, what string)
}

// block follows the statements of a block. What a nested block does to the lock ends with it: most return after an Unlock.
func (l locked) block(list []ast.Stmt, held bool) {
	for _, stmt := range list {
		switch name := lockCall(stmt); name {
		case "Lock", "RLock":
			held = true
			continue
		case "Unlock", "RUnlock":
			held = false
			continue
		}
		ast.Inspect(stmt, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncLit, *ast.GoStmt, *ast.DeferStmt:
				return false
			case *ast.BlockStmt:
				l.block(n.List, held)
				return false
			case *ast.CaseClause:
				l.block(n.Body, held)
				return false
			case *ast.CommClause:
				l.block(n.Body, held)
				return false
			case *ast.CallExpr:
				if what := hostCall(n); held && what != "" {
					l.found(n, what)
				}
			}
			return true
		})
	}
}

// lockCall returns the name of the method of a lock that a statement calls. The fence of syncloop counts as none: it is the turn
// of the goroutine that handles pods, and nothing that a program may call waits for it.
func lockCall(stmt ast.Stmt) string {
	if expression, ok := stmt.(*ast.ExprStmt); ok {
		if call, ok := expression.X.(*ast.CallExpr); ok && len(call.Args) == 0 {
			if method, ok := call.Fun.(*ast.SelectorExpr); ok && !strings.HasSuffix(types.ExprString(method.X), ".fence") {
				return method.Sel.Name
			}
		}
	}
	return ""
}

// hostCall returns what a call asks of the embedding program, empty if nothing.
func hostCall(call *ast.CallExpr) string {
	method, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return ""
	}
	on := types.ExprString(method.X)
	switch name := method.Sel.Name; name {
	case "Info", "Error", "Enabled":
		if strings.HasSuffix(on, "ogger") || strings.HasSuffix(on, "log") || strings.Contains(on, "ogger.V(") || strings.Contains(on, "log.V(") {
			return name
		}
	case "Record", "Add":
		if len(call.Args) > 1 && types.ExprString(call.Args[0]) == "ctx" {
			return name
		}
	case "Eventf":
		return name
	}
	return ""
}
