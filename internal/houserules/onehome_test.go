package houserules

import (
	"go/ast"
	"go/token"
	"slices"
	"strconv"
	"strings"
)

// oneHomeRules keep an idea in the one package that has it: a second copy comes to differ.
func oneHomeRules() []rule {
	const head = "package p\n\nimport v1 \"k8s.io/api/core/v1\"\n\n"
	return []rule{
		{
			name: "what a pod's metadata and phase say has one home", check: podWordsHaveOneHome,
			breach: map[string]string{
				"pleg/a.go": head + "func f(p *v1.Pod) bool { return p.Annotations[\"kubernetes.io/config.mirror\"] != \"\" }\n",
				"pleg/b.go": head + "func f(p v1.PodPhase) bool {\n\treturn p == v1.PodFailed || p == v1.PodSucceeded\n}\n\nfunc g(p v1.PodPhase) bool { return p != v1.PodSucceeded && p != v1.PodFailed }\n",
				"pleg/c.go": head + "func f(p *v1.Pod) string { return p.Name + \"_\" + p.Namespace }\n",
				"pleg/d.go": "package p\n\ntype recorder interface{ Eventf(string, ...any) }\n",
			},
			keeps: map[string]string{
				"internal/podinfo/a.go": head + "const Source = \"kubernetes.io/config.source\"\n\ntype Recorder interface{ Eventf(string, ...any) }\n\nfunc f(p *v1.Pod) string { return p.Name + \"_\" + p.Namespace }\n",
				"pleg/a.go":             head + "func f(p v1.PodPhase, n int) bool { return p == v1.PodFailed || n > 0 }\n\nfunc g(a, b string) string { return a + \"_\" + b }\n",
				"pleg/a_test.go":        "package p\n\ntype recorder interface{ Eventf(string, ...any) }\n",
			},
			finds: []string{
				"pleg/a.go:5: \"kubernetes.io/config.mirror\"", "pleg/b.go:6: compares with both terminal phases", "pleg/b.go:9: compares with both terminal phases",
				"pleg/c.go:5: a full name", "pleg/d.go:3: an interface with Eventf",
			},
		},
		{
			name: "files are replaced in one place", check: renamesHaveOneHome,
			breach: file("pleg/a.go", body("os", "_ = os.Rename(\"a\", \"b\")")),
			keeps:  map[string]string{"pleg/a_test.go": body("os", "_ = os.Rename(\"a\", \"b\")"), "kube/server/checkpoint.go": body("os", "_ = os.Rename(\"a\", \"b\")")},
			finds:  []string{"pleg/a.go:5: os.Rename"},
		},
		{
			name: "instruments are made in one place", check: instrumentsHaveOneHome,
			breach: file("pleg/a.go", "package p\n\nfunc f(m metric.Meter) { m.Int64Counter(\"x\"); m.Float64Histogram(\"y\") }\n"),
			keeps:  map[string]string{"internal/instrument/a.go": "package p\n\nfunc f(m metric.Meter) { m.Int64Counter(\"x\") }\n", "pleg/a.go": "package p\n\nfunc f(s *set) { s.Counter(\"x\") }\n"},
			finds:  []string{"pleg/a.go:3: Int64Counter", "pleg/a.go:3: Float64Histogram"},
		},
	}
}

// podWordsHaveOneHome finds second copies of podinfo's annotations, Terminal, FullName and EventRecorder.
func podWordsHaveOneHome(tr *tree, report report) {
	for _, s := range tr.files {
		if !s.library() || s.dir == derivedOwner {
			continue
		}
		ast.Inspect(s.syntax, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.BasicLit:
				if text, err := strconv.Unquote(n.Value); err == nil && n.Kind == token.STRING && strings.HasPrefix(text, "kubernetes.io/config.") {
					report("%s: %q; %s has the name of this annotation", tr.at(s, n.Pos()), text, derivedOwner)
				}
			case *ast.BinaryExpr:
				compared := append(comparedWith(n.X), comparedWith(n.Y)...)
				if (n.Op == token.LOR || n.Op == token.LAND) && slices.Contains(compared, "PodFailed") && slices.Contains(compared, "PodSucceeded") {
					report("%s: compares with both terminal phases; ask %s.Terminal", tr.at(s, n.Pos()), derivedOwner)
				}
				if fullName(n) {
					report("%s: a full name; ask %s.FullName", tr.at(s, n.Pos()), derivedOwner)
				}
			case *ast.InterfaceType:
				for _, f := range n.Methods.List {
					if len(f.Names) == 1 && f.Names[0].Name == "Eventf" {
						report("%s: an interface with Eventf; use %s.EventRecorder", tr.at(s, n.Pos()), derivedOwner)
					}
				}
			}
			return true
		})
	}
}

// comparedWith returns the name that a comparison compares with.
func comparedWith(e ast.Expr) []string {
	comparison, ok := e.(*ast.BinaryExpr)
	if !ok || comparison.Op != token.EQL && comparison.Op != token.NEQ {
		return nil
	}
	if with, ok := comparison.Y.(*ast.SelectorExpr); ok {
		return []string{with.Sel.Name}
	}
	return nil
}

// fullName reports whether a sum is NAME + "_" + NAMESPACE, both fields.
func fullName(sum *ast.BinaryExpr) bool {
	left, ok := sum.X.(*ast.BinaryExpr)
	if !ok || sum.Op != token.ADD || left.Op != token.ADD {
		return false
	}
	between, ok := left.Y.(*ast.BasicLit)
	return ok && between.Value == `"_"` && field(left.X, "Name") && field(sum.Y, "Namespace")
}

func field(e ast.Expr, name string) bool {
	sel, ok := e.(*ast.SelectorExpr)
	return ok && sel.Sel.Name == name
}

// renameOwners may rename files by themselves, and why.
var renameOwners = map[string]string{
	"kube/server/checkpoint.go":   "the runtime wrote the file",
	"runtime/runtimetest/logs.go": "rotates a log as an agent does",
}

// renamesHaveOneHome: a file is replaced so that a crash leaves the old or the new one, which takes more than a rename.
func renamesHaveOneHome(tr *tree, report report) { renamesWithout(tr, renameOwners, report) }

func renamesWithout(tr *tree, exempt map[string]string, report report) {
	for _, s := range tr.files {
		if !s.library() || s.dir == "internal/durable" || exempt[s.path] != "" {
			continue
		}
		tr.calls(s, "os", set("Rename"), func(pos token.Pos, _ string) {
			report("%s: os.Rename; package internal/durable replaces files", tr.at(s, pos))
		})
	}
}

// instrumentMakers are the methods of a meter.
var instrumentMakers = set(
	"Int64Counter", "Int64UpDownCounter", "Int64Histogram", "Int64Gauge", "Int64ObservableCounter", "Int64ObservableUpDownCounter", "Int64ObservableGauge",
	"Float64Counter", "Float64UpDownCounter", "Float64Histogram", "Float64Gauge", "Float64ObservableCounter", "Float64ObservableUpDownCounter", "Float64ObservableGauge",
)

// instrumentsHaveOneHome: an instrument that is made elsewhere is missing in docs/metrics.md and has unbounded labels.
func instrumentsHaveOneHome(tr *tree, report report) {
	for _, s := range tr.files {
		if !s.library() || within(s.dir, "internal/instrument") {
			continue
		}
		ast.Inspect(s.syntax, func(n ast.Node) bool {
			if call, ok := n.(*ast.CallExpr); ok {
				if method, ok := call.Fun.(*ast.SelectorExpr); ok && instrumentMakers[method.Sel.Name] {
					report("%s: %s; package internal/instrument makes instruments", tr.at(s, n.Pos()), method.Sel.Name)
				}
			}
			return true
		})
	}
}
