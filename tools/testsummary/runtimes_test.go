package main

import (
	"strings"
	"testing"
)

// Each runtime has its own column and its own conformance run; the tests before the
// first runtime belong to none.
func TestRuntimesSideBySide(t *testing.T) {
	const p = `"Package":"github.com/podwright/podwright/p"`
	suiteCase := `"Test":"TestC/runtime/version_names_the_runtime"`
	got, ok := run(t,
		`{"Action":"pass",`+p+`,"Test":"TestUnit"}`,
		`{"Action":"runtime","Runtime":"old 1"}`,
		`{"Action":"run",`+p+`,`+suiteCase+`}`,
		`{"Action":"pass",`+p+`,`+suiteCase+`}`,
		`{"Action":"pass",`+p+`,"Test":"TestC"}`,
		`{"Action":"output",`+p+`,"Test":"TestNew","Output":"=== RUN   TestNew\n"}`,
		`{"Action":"output",`+p+`,"Test":"TestNew","Output":"    n_test.go:7: the runtime has no streams: ask another\n"}`,
		`{"Action":"output",`+p+`,"Test":"TestNew","Output":"--- SKIP: TestNew (0.00s)\n"}`,
		`{"Action":"skip",`+p+`,"Test":"TestNew"}`,
		`{"Action":"runtime","Runtime":"new 2"}`,
		`{"Action":"run",`+p+`,`+suiteCase+`}`,
		`{"Action":"pass",`+p+`,`+suiteCase+`}`,
		`{"Action":"skip",`+p+`,"Test":"TestC/event/stream"}`,
		`{"Action":"pass",`+p+`,"Test":"TestC"}`,
		`{"Action":"pass",`+p+`,"Test":"TestNew"}`,
		`{"Action":"pass",`+p+`}`,
	)
	if !ok {
		t.Error("the run failed")
	}
	for _, want := range []string{
		"cases on a real runtime   old 1   new 2\n",
		"passed in p               2       3\n",
		"passed                    2       3\n",
		"failed                    0       0\n",
		"not applicable            1       1\n",
		"not applicable on old 1: p TestNew: the runtime has no streams: ask another\n",
		"not applicable on new 2: p TestC/event/stream: no reason given\n",
		"runtimetest passed: p TestC on old 1 (1 cases, 0 not applicable)\n",
		"runtimetest passed: p TestC on new 2 (1 cases, 1 not applicable)\n",
		"pass  github.com/podwright/podwright/p on new 2",
		"6 passed, 0 failed, 2 skipped\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in:\n%s", want, got)
		}
	}
}
