package houserules

import (
	"go/ast"
	"strconv"
	"strings"
)

// derivedOwner is the one package that tells what follows from the fields of a pod.
const derivedOwner = "internal/podinfo"

// derivingImports are packages that compute the same values, not always to the same result.
var derivingImports = []string{"k8s.io/component-helpers/", "k8s.io/kubectl/", "k8s.io/kubernetes/"}

// criticalClasses are the names from which follows that a pod is critical.
var criticalClasses = set("system-node-critical", "system-cluster-critical")

// amounts are the fields whose sums are what a pod requests and is limited to.
var amounts = set("Requests", "Limits", "Overhead")

// derivedRules keep what follows from a pod's fields in one place (FD3).
func derivedRules() []rule {
	const head = "package p\n\nimport v1 \"k8s.io/api/core/v1\"\n\n"
	return []rule{{
		name: "one function per derived value", check: derivedInOnePlace,
		breach: map[string]string{
			"pleg/a.go":         "package p\n\nimport _ \"k8s.io/component-helpers/resource\"\n",
			"pleg/b.go":         head + "func class(pod *v1.Pod) v1.PodQOSClass { return v1.PodQOSBurstable }\n",
			"runtime/pods/c.go": head + "func f(pod *v1.Pod, c v1.Container) {\n\tq := c.Resources.Requests[v1.ResourceCPU]\n\tq.Add(c.Resources.Limits[v1.ResourceCPU])\n\tq.Sub(pod.Spec.Overhead[v1.ResourceCPU])\n\tq.Add(*c.Resources.Requests.Cpu())\n}\n",
			"status/d.go":       head + "func f(pod *v1.Pod) bool { return pod.Spec.PriorityClassName == \"system-node-critical\" }\n",
		},
		keeps: map[string]string{
			"internal/podinfo/a.go": head + "func Class(pod *v1.Pod) v1.PodQOSClass { return \"\" }\n\nconst c = \"system-node-critical\"\n\nfunc f(pod *v1.Pod) { q := pod.Spec.Overhead[\"\"]; q.Add(pod.Spec.Overhead[\"\"]) }\n",
			"pleg/a.go":             head + "func f(class v1.PodQOSClass, c v1.Container) { q := c.Resources.Limits[\"\"]; q.Add(q); _ = q }\n",
			"pleg/a_test.go":        head + "func class(pod *v1.Pod) v1.PodQOSClass { return \"system-node-critical\" }\n",
		},
		finds: []string{
			"pleg/a.go: import of k8s.io/component-helpers/resource", "pleg/b.go:5: class returns a QoS class",
			"runtime/pods/c.go:7: Add", "runtime/pods/c.go:8: Sub", "runtime/pods/c.go:9: Add", "status/d.go:5: \"system-node-critical\"",
		},
	}}
}

// derivedInOnePlace: two functions for one value come to differ, as those of QoS once did.
func derivedInOnePlace(tr *tree, report report) {
	for _, s := range tr.files {
		if s.test || s.dir == derivedOwner || s.room() == "examples" || s.room() == "tools" {
			continue
		}
		for _, imported := range s.imports {
			for _, prefix := range derivingImports {
				if strings.HasPrefix(imported, prefix) {
					report("%s: import of %s; ask %s", s.path, imported, derivedOwner)
				}
			}
		}
		ast.Inspect(s.syntax, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncDecl:
				if returnsClass(n.Type) {
					report("%s: %s returns a QoS class; ask %s.QoS", tr.at(s, n.Pos()), n.Name.Name, derivedOwner)
				}
			case *ast.BasicLit:
				if text, err := strconv.Unquote(n.Value); err == nil && criticalClasses[text] {
					report("%s: %q; ask %s.Critical", tr.at(s, n.Pos()), text, derivedOwner)
				}
			case *ast.CallExpr:
				if method, ok := n.Fun.(*ast.SelectorExpr); ok && (method.Sel.Name == "Add" || method.Sel.Name == "Sub") && len(n.Args) == 1 && isAmount(n.Args[0]) {
					report("%s: %s of requests, limits or overhead; ask %s for the sum", tr.at(s, n.Pos()), method.Sel.Name, derivedOwner)
				}
			}
			return true
		})
	}
}

// returnsClass reports whether a function has a QoS class among its results.
func returnsClass(f *ast.FuncType) bool {
	if f.Results == nil {
		return false
	}
	for _, result := range f.Results.List {
		if t, ok := result.Type.(*ast.SelectorExpr); ok && t.Sel.Name == "PodQOSClass" {
			return true
		}
	}
	return false
}

// isAmount reports whether an expression reads one resource from requests, limits or overhead:
// Requests[name], or *Requests.Cpu().
func isAmount(e ast.Expr) bool {
	switch e := e.(type) {
	case *ast.StarExpr:
		return isAmount(e.X)
	case *ast.ParenExpr:
		return isAmount(e.X)
	case *ast.IndexExpr:
		list, ok := e.X.(*ast.SelectorExpr)
		return ok && amounts[list.Sel.Name]
	case *ast.CallExpr:
		method, ok := e.Fun.(*ast.SelectorExpr)
		if !ok {
			return false
		}
		list, ok := method.X.(*ast.SelectorExpr)
		return ok && amounts[list.Sel.Name]
	}
	return false
}
