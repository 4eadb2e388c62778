package houserules

import (
	"slices"
	"strings"
)

// file is a map of one file.
func file(path, content string) map[string]string { return map[string]string{path: content} }

// body is a file of package p that imports a package and has one statement.
func body(imported, statement string) string {
	return "package p\n\nimport \"" + imported + "\"\n\nfunc f() { " + statement + " }\n"
}

// rules lists every rule with files that break it and files that keep it.
func rules() []rule {
	return slices.Concat(codeRules(), shapeRules(), textRules(), walkRules(), happensRules(), linkRules(), programRules(), snippetRules(), derivedRules(),
		randomRules(), budgetRules(), fileNameRules(), aliasRules(), roomRules(), oneHomeRules())
}

func codeRules() []rule {
	return []rule{
		{
			name: "no wall clock", check: noWallClock,
			breach: file("pleg/a.go", body("time", "_ = time.Now()")),
			keeps:  map[string]string{"pleg/a_test.go": body("time", "_ = time.Now()"), "pleg/a.go": body("time", "_ = time.Second")},
			finds:  []string{"pleg/a.go:5: time.Now"},
		},
		{
			name: "timeouts on the injected clock", check: timeoutsUseTheInjectedClock,
			breach: file("pleg/a.go", body("context", "_, _ = context.WithTimeout(nil, 0)")),
			keeps:  file("internal/timing/a.go", body("context", "_, _ = context.WithTimeout(nil, 0)")),
			finds:  []string{"pleg/a.go:5: context.WithTimeout"},
		},
		{
			name: "seconds have one home", check: secondsHaveOneHome,
			breach: map[string]string{
				"pleg/a.go": body("time", "n := 3; _ = time.Duration(n) * time.Second"), "examples/a/a.go": body("time", "n := 3; _ = time.Minute * time.Duration(n)"),
			},
			keeps: map[string]string{
				"internal/timing/a.go": body("time", "n := 3; _ = time.Duration(n) * time.Second"),
				"pleg/b.go":            body("time", "n := 3; _ = time.Duration(n) * time.Nanosecond; _ = 3 * time.Second"),
			},
			finds: []string{"pleg/a.go:5: time.Duration(...) * time.Second", "examples/a/a.go:5: time.Duration(...) * time.Minute"},
		},
		{
			name: "no timers for nothing", check: noTimersForNothing,
			breach: file("pleg/a.go", "package p\n\nfunc f(c clock.Clock) { c.NewTimer(0) }\n\nfunc g(c clock.Clock) { c.AfterFunc((time.Duration(0)), nil) }\n\nfunc h(c clock.Clock) { <-c.After(0 * time.Second) }\n\nfunc i(c clock.Clock) { c.NewTimer(due.Sub(c.Now())) }\n"),
			keeps:  file("pleg/a.go", "package p\n\nfunc f(c clock.Clock) { c.NewTimer(1); c.NewTimer(wait()) }\n\nfunc g(c clock.Clock, n int) { c.AfterFunc(time.Duration(n), nil); Reset() }\n"),
			finds:  []string{"pleg/a.go:3: NewTimer(0)", "pleg/a.go:5: AfterFunc(0)", "pleg/a.go:7: After(0)", "pleg/a.go:9: NewTimer for a moment"},
		},
		{
			name: "timers hold no clock up", check: timersHoldNoClockUp,
			breach: file("pleg/a.go", "package p\n\nfunc f(t clock.Timer) { t.Reset(1) }\n\nfunc g(c clock.Clock) { c.AfterFunc(1, func() { m.mu.Lock() }) }\n\nfunc h(c clock.Clock) { c.AfterFunc(1, h) }\n"),
			keeps: map[string]string{
				"pleg/a.go":            "package p\n\nimport \"context\"\n\nfunc f(c clock.Clock) { c.AfterFunc(1, func() { cancel(nil) }); x.Reset(); context.AfterFunc(ctx, f) }\n",
				"internal/timing/a.go": "package p\n\nfunc f(t clock.Timer) { t.Reset(1) }\n",
			},
			finds: []string{"pleg/a.go:3: Reset", "pleg/a.go:5: AfterFunc", "pleg/a.go:7: AfterFunc"},
		},
		{
			name: "hosts hold no lock", check: hostsHoldNoLock,
			breach: file("pleg/a.go", "package p\n\nfunc f() {\n\tmu.Lock()\n\tdefer mu.Unlock()\n\tif x {\n\t\to.Logger.Info(\"\")\n\t}\n}\n\n// g does it. The lock is\n// held.\nfunc g() { x.seconds.Record(ctx, 1) }\n\nfunc h() {\n\tmu.RLock()\n\tswitch {\n\tcase x:\n\t\tlog.V(1).Info(\"\")\n\t}\n}\n"),
			keeps:  file("pleg/a.go", "package p\n\nfunc f() {\n\tmu.Lock()\n\tif x {\n\t\tmu.Unlock()\n\t\to.Logger.Info(\"\")\n\t\treturn\n\t}\n\terr.Error()\n\tlater = func() { log.Info(\"\") }\n\tmu.Unlock()\n\tlog.Error(nil, \"\")\n}\n"),
			finds:  []string{"pleg/a.go:7: Info", "pleg/a.go:13: Record", "pleg/a.go:19: Info"},
		},
		{
			name: "no dot imports", check: noDotImports,
			breach: map[string]string{"pleg/a.go": "package p\n\nimport . \"time\"\n\nvar n = Now()\n", "pleg/a_test.go": "package p\n\nimport . \"time\"\n\nvar n = Now()\n"},
			keeps:  file("pleg/a.go", "package p\n\nimport now \"time\"\n\nvar n = now.Second\n"),
			finds:  []string{"pleg/a.go:3: dot import", "pleg/a_test.go:3: dot import"},
		},
		{
			name: "the machine's clock is a default", check: realClockIsADefault,
			breach: file("pleg/a.go", body("k8s.io/utils/clock", "_ = clock.RealClock{}.Now(); use(1, clock.RealClock{})")),
			keeps: map[string]string{
				"pleg/a.go": body("k8s.io/utils/clock", "o.Clock = clock.RealClock{}; _, _ = o.Clock.(clock.RealClock)"), "internal/dirlock/a.go": body("k8s.io/utils/clock", "clock.RealClock{}.Sleep(1)"),
			},
			finds: []string{"pleg/a.go:5: Now of the machine's clock", "pleg/a.go:5: the machine's clock is passed on"},
		},
		{
			name: "no sleep in tests", check: noSleepInTests,
			breach: file("pleg/a_test.go", body("time", "time.Sleep(1)")),
			finds:  []string{"pleg/a_test.go:5: time.Sleep"},
		},
		{
			name: "no background context", check: noBackgroundContext,
			breach: file("pleg/a.go", body("context", "_, _ = context.Background(), context.TODO()")),
			keeps: map[string]string{
				"examples/a/a.go":                   body("context", "_ = context.Background()"),
				"internal/instrument/instrument.go": body("context", "_ = context.Background()"),
			},
			finds: []string{"context.Background", "context.TODO"},
		},
		{
			name: "no process exit", check: noProcessExit,
			breach: map[string]string{"pleg/a.go": body("os", "os.Exit(1)"), "pleg/b.go": body("log", "log.Fatal(1)")},
			keeps:  file("examples/a/main.go", "package main\n\nimport \"os\"\n\nfunc main() { os.Exit(1) }\n"),
			finds:  []string{"pleg/a.go:5: os.Exit", "pleg/b.go:5: log.Fatal"},
		},
		{
			name: "no init", check: noInit,
			breach: file("pleg/a.go", "package p\n\nfunc init() {}\n"),
			keeps:  file("pleg/a.go", "package p\n\ntype a int\n\nfunc (a) init() {}\n"),
			finds:  []string{"pleg/a.go:3: func init"},
		},
		{
			name: "no package state", check: noPackageState,
			breach: file("pleg/a.go", "package p\n\nvar n int\n\nvar m = map[string]int{}\n\nfunc f() { m[\"a\"] = 1 }\n"),
			keeps: file("pleg/a.go", "package p\n\nimport \"errors\"\n\nvar (\n\terrA = errors.New(\"a\")\n\tm = map[string]int{\"a\": 1}\n)\n\n"+
				"func f(m map[string]int) { m[\"a\"] = 1 }\n"),
			finds: []string{"pleg/a.go:3: package variable n", "pleg/a.go:5: package variable m"},
		},
	}
}

func shapeRules() []rule {
	const m = module + "/"
	imports := func(pkg, imported string) string { return "package " + pkg + "\n\nimport _ \"" + imported + "\"\n" }
	methods := func(n int) string { return strings.Repeat("F()\n", n) }
	return []rule{
		{
			name: "allowed imports", check: allowedImports,
			breach: map[string]string{
				"pleg/a.go": imports("pleg", m+"status"), "probe/a.go": imports("probe", module),
				"status/a.go": imports("status", "k8s.io/client-go/rest"), "a.go": imports("podwright", m+"examples/minimal"),
			},
			keeps: map[string]string{
				"pleg/a.go": imports("pleg", m+"runtime"), "pleg/a_test.go": imports("pleg", m+"status"), "a.go": imports("podwright", m+"pleg"),
				"examples/a.go": imports("a", module),
			},
			finds: []string{
				"pleg/a.go imports " + m + "status", "probe/a.go imports " + module, "status/a.go imports k8s.io/client-go/rest",
				"a.go imports " + m + "examples/minimal",
			},
		},
		{
			name: "some rooms need no CRI", check: someRoomsNeedNoCRI,
			breach: map[string]string{
				"podworkers/a.go": imports("podworkers", m+"internal/middle"), "internal/middle/a.go": imports("middle", m+"runtime/cri"),
				"runtime/cri/a.go": imports("cri", "k8s.io/cri-api/pkg/apis/runtime/v1"), "status/a.go": imports("status", "google.golang.org/grpc/codes"),
			},
			keeps: map[string]string{
				"podworkers/a.go": imports("podworkers", m+"runtime"), "podworkers/a_test.go": imports("podworkers", m+"runtime/cri"),
				"podworkers/podsync/a.go": imports("podsync", m+"runtime/cri"), "runtime/a.go": imports("runtime", "errors"),
				"runtime/cri/a.go": imports("cri", "google.golang.org/grpc"), "pleg/a.go": imports("pleg", m+"runtime/cri"),
			},
			finds: []string{
				"podworkers needs no CRI, but imports internal/middle, runtime/cri, k8s.io/cri-api", "status needs no CRI, but imports google.golang.org/grpc/codes",
			},
		},
		{
			name: "pure cores stay pure", check: pureCoresStayPure,
			breach: file("podworkers/internal/machine/a.go", imports("machine", "sync/atomic")),
			keeps:  file("podworkers/internal/machine/a.go", imports("machine", "time")),
			finds:  []string{"podworkers/internal/machine/a.go imports sync/atomic"},
		},
		{
			name: "no back-reference to Engine", check: noBackReference,
			breach: map[string]string{
				"a.go": "package podwright\n\ntype Engine struct{}\n\ntype part struct{ e *Engine }\n\nfunc wire(e *Engine) {}\n\ntype user interface{ Use(Engine) }\n",
				"b.go": "package podwright\n\ntype embeds struct{ *Engine }\n\ntype joint struct{ p *parts }\n\nfunc build(p *parts) {}\n\ntype twice struct{ *parts }\n",
				"c.go": "package podwright\n\ntype same = parts\n\ntype like parts\n\nvar e holder[*Engine]\n",
			},
			keeps: file("a.go", "package podwright\n\ntype Engine struct{ *parts }\n\ntype parts struct{}\n\nfunc New() (*Engine, error) { return nil, nil }\n\nfunc (e *Engine) Run() {}\n\nfunc (p *parts) build() *parts { return p }\n"),
			finds: []string{"a.go:5: ", "a.go:7: ", "a.go:9: ", "b.go:3: ", "b.go:5: ", "b.go:7: ", "b.go:9: ", "c.go:3: ", "c.go:5: ", "c.go:7: "},
		},
		{
			name: "the root composes only", check: rootIsSmall,
			breach: map[string]string{
				"a.go": "package podwright\n\ntype Engine struct{}\n\n" + strings.Repeat("func (e *Engine) F() {}\n", 35) + "func (p *parts) G() {}\n",
				"b.go": "package podwright\n" + strings.Repeat("\n", 2000),
				"c.go": "package podwright\n", "d.go": "package podwright\n", "e.go": "package podwright\n", "f.go": "package podwright\n", "g.go": "package podwright\n",
				"h.go": "package podwright\n", "i.go": "package podwright\n", "j.go": "package podwright\n", "k.go": "package podwright\n",
			},
			keeps: file("a.go", "package podwright\n\ntype Engine struct{}\n\n"+strings.Repeat("func (e *Engine) F() {}\n", 35)+"func (p *parts) g() {}\n"),
			finds: []string{"has 11 files", "lines, budget 2000", "Engine has 36 methods"},
		},
		{
			name: "interfaces are small", check: interfacesAreSmall,
			breach: map[string]string{
				"pleg/a.go":  "package p\n\ntype A interface {\n" + methods(8) + "}\n\ntype B interface {\nC\n" + methods(4) + "}\n\ntype C interface {\n" + methods(4) + "}\n",
				"probe/a.go": "package probe\n\nimport \"" + m + "pleg\"\n\ntype D interface {\npleg.C\n" + methods(4) + "}\n\nfunc f(interface {\n" + methods(8) + "}) {}\n",
			},
			keeps: file("pleg/a.go", "package p\n\ntype A interface {\n"+methods(7)+"}\n"),
			finds: []string{"interface A has 8 methods", "interface B has 8 methods", "interface D has 8 methods", "an interface without a name has 8 methods"},
		},
		{
			name: "exported names have users", check: exportsHaveUsers,
			breach: map[string]string{
				"pleg/a.go":      "package pleg\n\nfunc Unused() *Named { return nil }\n\ntype Named struct{}\n\ntype Lost int\n\nconst One Lost = 1\n\ntype hidden struct{ F Inner }\n\ntype Inner struct{}\n",
				"pleg/a_test.go": "package pleg_test\n\nimport \"" + m + "pleg\"\n\nvar _ = pleg.One\n",
			},
			keeps: map[string]string{
				"pleg/a.go":       "package pleg\n\nfunc Used() *Named { return nil }\n\ntype Named struct{}\n\ntype State int\n\nconst (\n\tOne State = iota\n\tTwo\n)\n\nfunc Shown(s State) {}\n",
				"pleg/a_test.go":  "package pleg_test\n\nimport \"" + m + "pleg\"\n\nfunc ExampleShown() { pleg.Shown(0) }\n",
				"probe/a.go":      "package probe\n\nimport \"" + m + "pleg\"\n\nvar a = pleg.Used\n",
				"atest/a.go":      "package atest\n\nfunc Kit() {}\n",
				"probe/a_test.go": "package probe\n\nimport \"" + m + "atest\"\n\nvar b = atest.Kit\n",
			},
			finds: []string{"Unused has no user", "Lost has no user", "One has no user", "Inner has no user"},
		},
		{
			name: "size of files and functions", check: sizeBudgets,
			breach: map[string]string{
				"pleg/a.go": "package p\n" + strings.Repeat("\n", 500),
				"pleg/b.go": "package p\n\nfunc f() {\n" + strings.Repeat("\n", 79) + "}\n",
			},
			keeps: file("pleg/a.go", "package p\n"+strings.Repeat("\n", 400)+"func f() {\n"+strings.Repeat("\n", 78)+"}\n"),
			finds: []string{"pleg/a.go has 501 lines", "f has 81 lines"},
		},
		{
			name: "tests check for goroutine leaks", check: testsCheckForLeaks,
			breach: file("pleg/a_test.go", "package p\n"),
			keeps:  map[string]string{"pleg/a_test.go": "package p\n", "pleg/b_test.go": imports("p_test", "go.uber.org/goleak")},
			finds:  []string{"pleg has tests but no goleak check"},
		},
	}
}

func textRules() []rule {
	example := "package p_test\n\nfunc ExampleF() {\n\tprintln()\n\t// Output: 1\n}\n"
	return []rule{
		{
			name: "exported names are documented", check: exportedNamesAreDocumented,
			breach: file("pleg/a.go", "package p\n\ntype A struct{}\n\nfunc (A) F() {}\n\nconst C = 1\n\n// Options are options.\ntype Options struct{ N int }\n"),
			keeps:  file("pleg/a.go", "package p\n\n// A is a thing.\ntype A struct{}\n\n// F does.\nfunc (A) F() {}\n\nfunc f() {}\n"),
			finds:  []string{"type A has no comment", "F has no comment", "C has no comment", "Options.N has no comment"},
		},
		{
			name: "packages have doc.go and an example", check: packagesHaveDocAndExample,
			breach: map[string]string{"pleg/a.go": "package p\n", "pleg/internal/b/b.go": "package b\n"},
			keeps: map[string]string{
				"pleg/a.go": "package p\n", "pleg/doc.go": "// Package p.\npackage p\n", "pleg/a_test.go": example,
				"pleg/internal/b/b.go": "package b\n", "pleg/internal/b/doc.go": "// Package b.\npackage b\n",
			},
			finds: []string{"pleg has no doc.go", "pleg has no example", "pleg/internal/b has no doc.go"},
		},
		{
			name: "plain words", check: plainWords,
			breach: map[string]string{
				"pleg/a.go": "package p\n\n// f is called by nobody.\nfunc f() {}\n\ntype lineOfSight struct{ twin int }\n",
				"a.md":      "It begins\nanew.\nIt stays for\never. Who has credentials pulls alone.\n",
				"pleg/b.go": "package p\n\n// g waits. It stays for\n// ever.\nvar g = \"x\" +\n\t\"is put off, \" + \"or put \" + \"off\"\n\nvar h = []string{`a\nanew`}\n",
				"pleg/c.go": "package p\n\n// Who reads it is told. A list of such.\nvar c = 1\n",
				"pleg/d.go": body("os", "for sight, i := range os.Args {\n\t\tsettled, err := i, sight\n\t}\n\tfor range os.Args {\n\t}"),
			},
			keeps: map[string]string{
				"pleg/a.go":      "package p\n\n// f is called once, thereby. Who may read it? No one such file.\nfunc f() { nobody := 1; _ = nobody; _ = \"root:x:0\\nnobody:x:1\" }\n\ntype insight struct{}\n",
				"pleg/a_test.go": "package p\n\nvar s = \"nobody\"\n",
			},
			finds: []string{
				"pleg/a.go:3: \"nobody\"", "the name lineOfSight", "the name twin", "a.md:2: \"anew", "a.md:3: \"for\\never", "a.md:4: \"Who has\"", "pleg/b.go:3: \"for\\n ever",
				"pleg/b.go:5: \"put off\" in a text", "pleg/b.go:5: \"put off\" in a text", "pleg/b.go:8: \"anew\" in a text", "pleg/c.go:3: \"Who reads\"", "pleg/c.go:3: \"of such.\"",
				"pleg/d.go:5: the name sight", "pleg/d.go:6: the name settled",
			},
		},
		{
			name: "targets name tests that exist", check: targetsNameTests,
			breach: map[string]string{
				"Makefile": "a:\n\tgo test -run '^TestOld$$' .\n\tgo test -run '^(TestNew|TestGone)$$' .\n", "docs/testing.md": "`TestLost` is long.\n", "SECURITY.md": "`FuzzLost` tries.\n",
				"a_test.go": "package p\n\nfunc TestNew() {}\n",
			},
			keeps: map[string]string{
				"Makefile": "a:\n\tgo test -run '^$$' -bench . .\n\tgo test -run 'TestNew$$' .\n", "docs/testing.md": "`TestNew` is long.\n", "SECURITY.md": "`FuzzNew` tries.\n",
				"a_test.go": "package p\n\nfunc TestNew() {}\n\nfunc FuzzNew() {}\n",
			},
			finds: []string{"Makefile names TestOld", "Makefile names TestGone", "docs/testing.md names TestLost", "SECURITY.md names FuzzLost"},
		},
		{
			name: "no paths of a machine", check: noWorkplacePaths,
			breach: file("README.md", "see /wo"+"rk/main\n"),
			keeps:  file("README.md", "see docs\n"),
			finds:  []string{"README.md mentions /wo" + "rk/main"},
		},
	}
}
