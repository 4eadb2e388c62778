package main

import (
	"bytes"
	"io"
	"strings"
	"testing"
)

// run feeds events and returns the closing text and verdict.
func run(t *testing.T, events ...string) (string, bool) {
	t.Helper()
	var out bytes.Buffer
	s := newSummary(&out)
	if err := s.read(strings.NewReader(strings.Join(events, "\n")), io.Discard); err != nil {
		t.Fatal(err)
	}
	ok := s.print()
	return out.String(), ok
}

func TestSummary(t *testing.T) {
	pass := `{"Action":"pass","Package":"p","Test":"TestA"}`
	tests := []struct {
		name   string
		events []string
		ok     bool
		want   string
	}{
		{"pass", []string{pass, `{"Action":"pass","Package":"p"}`}, true, "1 passed, 0 failed, 0 skipped\n"},
		{"nothing ran", []string{`{"Action":"skip","Package":"p"}`}, false, "0 passed, 0 failed, 0 skipped\n"},
		{"test failed", []string{
			pass, `{"Action":"output","Package":"p","Test":"TestB","Output":"b.go:1: boom\n"}`,
			`{"Action":"fail","Package":"p","Test":"TestB"}`, `{"Action":"fail","Package":"p"}`,
		}, false, "b.go:1: boom\n"},
		{"process ended in a test", []string{
			pass, `{"Action":"output","Package":"p","Test":"TestB/one","Output":"SIGSEGV: segmentation violation\n"}`, `{"Action":"fail","Package":"p"}`,
		}, false, "NO END  p TestB/one\nSIGSEGV: segmentation violation\n"},
		{"package failed without a test, as on a data race at exit", []string{pass, `{"Action":"fail","Package":"p"}`}, false, "package failed: p\n"},
		{"build failed", []string{pass, `{"Action":"build-output","ImportPath":"q","Output":"q.go:1: undefined\n"}`, `{"Action":"build-fail","ImportPath":"q"}`}, false, "q.go:1: undefined\n"},
		{"a failed package stays failed when a later command passes it", []string{
			pass, `{"Action":"fail","Package":"p"}`, `{"Action":"exit","Code":1}`, pass, `{"Action":"pass","Package":"p"}`, `{"Action":"exit"}`,
		}, false, "package failed: p\n"},
		{"a command that fails before any package", []string{pass, `{"Action":"pass","Package":"p"}`, `{"Action":"exit"}`, `go: no such module`, `{"Action":"exit","Code":1}`}, false, "1 go test commands failed"},
		{"exploration", []string{
			`{"Action":"output","Package":"p","Test":"TestA","Output":"    explore_test.go:9: one pod: 7 states, depth 3, 25 invariants, 0 violations\n"}`, pass,
		}, true, "explored: one pod: 7 states, depth 3, 25 invariants, 0 violations\n"},
		{"conformance run", []string{
			`{"Action":"run","Package":"github.com/podwright/podwright/runtime/fake","Test":"TestC/runtime/version_names_the_runtime"}`,
			`{"Action":"pass","Package":"github.com/podwright/podwright/runtime/fake","Test":"TestC/runtime/version_names_the_runtime"}`,
			`{"Action":"skip","Package":"github.com/podwright/podwright/runtime/fake","Test":"TestC/event/stream"}`,
			`{"Action":"pass","Package":"github.com/podwright/podwright/runtime/fake","Test":"TestC"}`,
		}, true, "runtimetest passed: runtime/fake TestC (1 cases, 1 not applicable)\n"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got, ok := run(t, test.events...)
			if ok != test.ok || !strings.Contains(got, test.want) {
				t.Errorf("ok = %v, output:\n%swant ok = %v and %q", ok, got, test.ok, test.want)
			}
		})
	}
}
