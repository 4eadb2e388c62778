package houserules

import (
	"go/ast"
	"go/token"
)

// wallClock are the functions of package time that read or wait on the machine's
// clock. Library code takes a k8s.io/utils/clock instead.
var wallClock = set("Now", "Sleep", "After", "Since", "Until", "Tick", "NewTimer", "NewTicker", "AfterFunc")

func noWallClock(tr *tree, report report) {
	for _, s := range tr.files {
		if !s.library() {
			continue
		}
		tr.calls(s, "time", wallClock, func(pos token.Pos, name string) {
			report("%s: time.%s; take a clock in the options", tr.at(s, pos), name)
		})
	}
}

// timeoutOwners may limit contexts by the machine's time, and why.
var timeoutOwners = map[string]string{
	"internal/timing": "chooses between the machine's clock and any other",
}

// timeoutsUseTheInjectedClock: context.WithTimeout counts real time even if the
// clock in the options is virtual.
func timeoutsUseTheInjectedClock(tr *tree, report report) {
	timeoutsWithout(tr, timeoutOwners, report)
}

func timeoutsWithout(tr *tree, exempt map[string]string, report report) {
	for _, s := range tr.files {
		if !s.library() || exempt[s.dir] != "" {
			continue
		}
		tr.calls(s, "context", set("WithTimeout", "WithDeadline", "WithTimeoutCause", "WithDeadlineCause"), func(pos token.Pos, name string) {
			report("%s: context.%s; use timing.WithTimeout with the clock of the options", tr.at(s, pos), name)
		})
	}
}

// secondsHaveOneHome: multiplying a number of seconds from outside may overflow to nothing, or
// to a time that is over.
func secondsHaveOneHome(tr *tree, report report) {
	for _, s := range tr.files {
		if s.test || s.dir == "internal/timing" {
			continue
		}
		made, units := map[token.Pos]string{}, map[token.Pos]string{}
		tr.calls(s, "time", set("Duration"), func(pos token.Pos, name string) { made[pos] = name })
		tr.calls(s, "time", set("Second", "Minute", "Hour"), func(pos token.Pos, name string) { units[pos] = name })
		ast.Inspect(s.syntax, func(n ast.Node) bool {
			product, ok := n.(*ast.BinaryExpr)
			if !ok || product.Op != token.MUL {
				return true
			}
			for _, pair := range [2][2]ast.Expr{{product.X, product.Y}, {product.Y, product.X}} {
				call, isCall := pair[0].(*ast.CallExpr)
				if unit := units[pair[1].Pos()]; isCall && made[call.Fun.Pos()] != "" && unit != "" {
					report("%s: time.Duration(...) * time.%s may overflow; use timing.Seconds", tr.at(s, product.Pos()), unit)
				}
			}
			return true
		})
	}
}

// noTimersForNothing: a timer that is due when it is made fires only at the next step of a fake clock, and two of them at once
// in a synctest bubble crash Go 1.26's race detector (go.dev/issue/78156).
func noTimersForNothing(tr *tree, report report) {
	for _, s := range tr.files {
		if !s.library() {
			continue
		}
		ast.Inspect(s.syntax, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok || len(call.Args) == 0 {
				return true
			}
			method, isMethod := call.Fun.(*ast.SelectorExpr)
			switch {
			case !isMethod:
			case isZero(call.Args[0]) && set("NewTimer", "Reset", "After", "AfterFunc")[method.Sel.Name]:
				report("%s: %s(0); go on at once instead, as timing.Sleep does", tr.at(s, call.Pos()), method.Sel.Name)
			case method.Sel.Name == "NewTimer" && isDifference(call.Args[0]):
				report("%s: NewTimer for a moment, which may have come; use timing.Alarm", tr.at(s, call.Pos()))
			}
			return true
		})
	}
}

// isDifference reports whether an expression is the difference of two times.
func isDifference(e ast.Expr) bool {
	call, ok := e.(*ast.CallExpr)
	if !ok {
		return false
	}
	method, isMethod := call.Fun.(*ast.SelectorExpr)
	return isMethod && set("Sub", "Until")[method.Sel.Name]
}

// timersHoldNoClockUp: a fake clock fills the channels of its timers, and calls the functions of AfterFunc, under a lock that
// everybody needs who asks for the time.
func timersHoldNoClockUp(tr *tree, report report) {
	for _, s := range tr.files {
		if !s.library() {
			continue
		}
		ofContexts := map[token.Pos]bool{} // context.AfterFunc calls its function in a goroutine
		tr.calls(s, "context", set("AfterFunc"), func(pos token.Pos, _ string) { ofContexts[pos] = true })
		ast.Inspect(s.syntax, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			method, isMethod := call.Fun.(*ast.SelectorExpr)
			switch {
			case !isMethod:
			case method.Sel.Name == "Reset" && len(call.Args) == 1 && s.dir != "internal/timing":
				report("%s: Reset; a timer that has fired and was not read would hold up a fake clock: use timing.Restart", tr.at(s, call.Pos()))
			case method.Sel.Name == "AfterFunc" && len(call.Args) == 2 && !ofContexts[method.Pos()] && !onlySignals(call.Args[1]):
				report("%s: AfterFunc may wait; its function may only call close, cancel, wake or spawn", tr.at(s, call.Pos()))
			}
			return true
		})
	}
}

// onlySignals reports whether a function only makes one call that does not wait.
func onlySignals(f ast.Expr) bool {
	literal, ok := f.(*ast.FuncLit)
	if !ok || len(literal.Body.List) != 1 {
		return false
	}
	statement, ok := literal.Body.List[0].(*ast.ExprStmt)
	if !ok {
		return false
	}
	call, ok := statement.X.(*ast.CallExpr)
	if !ok {
		return false
	}
	name := ""
	switch f := call.Fun.(type) {
	case *ast.Ident:
		name = f.Name
	case *ast.SelectorExpr:
		name = f.Sel.Name
	}
	return set("close", "cancel", "wake", "spawn")[name]
}

// isZero reports whether an expression is 0 as it is written: 0, time.Duration(0), 0*time.Second.
func isZero(e ast.Expr) bool {
	switch e := e.(type) {
	case *ast.BasicLit:
		return e.Value == "0"
	case *ast.ParenExpr:
		return isZero(e.X)
	case *ast.CallExpr:
		f, ok := e.Fun.(*ast.SelectorExpr)
		return ok && f.Sel.Name == "Duration" && len(e.Args) == 1 && isZero(e.Args[0])
	case *ast.BinaryExpr:
		return e.Op == token.MUL && (isZero(e.X) || isZero(e.Y))
	}
	return false
}

// noDotImports: what comes from such an import has no package before its name, so no rule finds it.
func noDotImports(tr *tree, report report) {
	for _, s := range tr.files {
		for _, spec := range s.syntax.Imports {
			if spec.Name != nil && spec.Name.Name == "." {
				report("%s: dot import of %s", tr.at(s, spec.Pos()), spec.Path.Value)
			}
		}
	}
}

// realClockOwners may use the machine's clock whatever the options say, and why.
var realClockOwners = map[string]string{
	"internal/dirlock": "waits 0.1 s at most for another process, which lives in the machine's time",
	"kube/apitest":     "starts real servers, which live in the machine's time",
}

// realClockIsADefault: clock.RealClock{} is the value of an option that was left out. A call of its methods, or of a
// function with it, passes over the clock in the options.
func realClockIsADefault(tr *tree, report report) {
	realClockWithout(tr, realClockOwners, report)
}

func realClockWithout(tr *tree, exempt map[string]string, report report) {
	for _, s := range tr.files {
		if !s.library() || exempt[s.dir] != "" {
			continue
		}
		clocks := map[token.Pos]bool{}
		tr.calls(s, "k8s.io/utils/clock", set("RealClock"), func(pos token.Pos, _ string) { clocks[pos] = true })
		isClock := func(e ast.Expr) bool {
			made, ok := e.(*ast.CompositeLit)
			return ok && clocks[made.Pos()]
		}
		ast.Inspect(s.syntax, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.SelectorExpr:
				if isClock(n.X) {
					report("%s: %s of the machine's clock; take a clock in the options", tr.at(s, n.Pos()), n.Sel.Name)
				}
			case *ast.CallExpr:
				for _, arg := range n.Args {
					if isClock(arg) {
						report("%s: the machine's clock is passed on; take a clock in the options", tr.at(s, arg.Pos()))
					}
				}
			}
			return true
		})
	}
}

func noSleepInTests(tr *tree, report report) {
	for _, s := range tr.files {
		if !s.test {
			continue
		}
		tr.calls(s, "time", set("Sleep"), func(pos token.Pos, _ string) {
			report("%s: time.Sleep in a test; wait for the event, or use virtual time", tr.at(s, pos))
		})
	}
}

func noBackgroundContext(tr *tree, report report) {
	for _, s := range tr.files {
		// Counters begin at 0 before there is a caller; a value has nothing of its context.
		if !s.library() || s.path == "internal/instrument/instrument.go" {
			continue
		}
		tr.calls(s, "context", set("Background", "TODO"), func(pos token.Pos, name string) {
			report("%s: context.%s; contexts come from the caller", tr.at(s, pos), name)
		})
	}
}

func noProcessExit(tr *tree, report report) {
	for _, s := range tr.files {
		if !s.library() {
			continue
		}
		tr.calls(s, "os", set("Exit"), func(pos token.Pos, _ string) {
			report("%s: os.Exit in the library", tr.at(s, pos))
		})
		tr.calls(s, "log", set("Fatal", "Fatalf", "Fatalln", "Panic", "Panicf"), func(pos token.Pos, name string) {
			report("%s: log.%s in the library", tr.at(s, pos), name)
		})
	}
}

func noInit(tr *tree, report report) {
	for _, s := range tr.files {
		for _, d := range s.syntax.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil && f.Name.Name == "init" {
				report("%s: func init", tr.at(s, f.Pos()))
			}
		}
	}
}
