package fields_test

import (
	"flag"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"go.uber.org/goleak"
	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/internal/fields"
)

var write = flag.Bool("fields.write", false, "write docs/fields.md")

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const root = "../.."

// TestEveryFieldHasOneVerdict: FD1.
func TestEveryFieldHasOneVerdict(t *testing.T) {
	missing, unknown := fields.Check(reflect.TypeFor[v1.PodSpec](), fields.Table())
	for _, name := range missing {
		t.Errorf("%s has no verdict: say in the table what becomes of it", name)
	}
	for _, name := range unknown {
		t.Errorf("%s has a verdict and is no field, is below one that is not honoured, or has two", name)
	}
}

// nextSpec is a PodSpec as a later Kubernetes may have it.
type nextSpec struct {
	v1.PodSpec `json:",inline"`
	Turbo      string        `json:"turbo,omitempty"`
	More       []*nextDetail `json:"more,omitempty"`
}

type nextDetail struct {
	v1.Probe `json:",inline"`
	Depth    *int32 `json:"depth,omitempty"`
}

// TestNewFieldIsMissed: FD1. A field that a new version of the types adds, at the top or below an
// honoured field, is reported, and so is one that is gone.
func TestNewFieldIsMissed(t *testing.T) {
	next := reflect.TypeFor[nextSpec]()
	missing, _ := fields.Check(next, fields.Table())
	if got := strings.Join(missing, " "); got != "nextSpec.more nextSpec.turbo" {
		t.Errorf("missing %q", got)
	}
	table := append(fields.Table(), fields.Row{Type: "nextSpec", Fields: "turbo more", Verdict: fields.Honoured})
	if missing, _ := fields.Check(next, table); strings.Join(missing, " ") != "nextDetail.depth" {
		t.Errorf("missing %q below an honoured field", missing)
	}
	table[len(table)-1].Verdict = fields.NoEffect
	if missing, _ := fields.Check(next, table); len(missing) > 0 {
		t.Errorf("missing %q below a field without effect", missing)
	}
	_, unknown := fields.Check(reflect.TypeFor[v1.PodSpec](), append(table, fields.Row{Type: "Probe", Fields: "timeoutSeconds", Verdict: fields.Honoured}))
	if got := strings.Join(unknown, " "); got != "Probe.timeoutSeconds (twice) nextSpec.more nextSpec.turbo" {
		t.Errorf("unknown %q", got)
	}
}

// TestTableNamesWhatExists: each verdict names code that decides and a test that shows it.
func TestTableNamesWhatExists(t *testing.T) {
	for _, row := range fields.Table() {
		if row.Verdict == fields.NoEffect {
			if row.Why == "" || row.Decided != "" || row.Test != "" {
				t.Errorf("%s.%s has no effect: say why and nothing else", row.Type, row.Fields)
			}
			continue
		}
		if row.Verdict != fields.Honoured && row.Why == "" {
			t.Errorf("%s.%s: the reason that the pod shows is missing", row.Type, row.Fields)
		}
		file, name, _ := strings.Cut(row.Decided, " ")
		if !declares(t, filepath.Join(root, file), name) {
			t.Errorf("%s.%s: %s has no function %q", row.Type, row.Fields, file, name)
		}
		folder, name, _ := strings.Cut(row.Test, " ")
		tests, err := filepath.Glob(filepath.Join(root, folder, "*_test.go"))
		if err != nil {
			t.Fatal(err)
		}
		found := false
		for _, file := range tests {
			found = found || strings.HasPrefix(name, "Test") && declares(t, file, name)
		}
		if !found {
			t.Errorf("%s.%s: %s has no test %q", row.Type, row.Fields, folder, name)
		}
	}
}

// parsed remembers the functions of each file.
var parsed = map[string]map[string]bool{}

func declares(t *testing.T, path, name string) bool {
	t.Helper()
	if parsed[path] == nil {
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Errorf("%v", err)
			return false
		}
		parsed[path] = map[string]bool{}
		for _, d := range file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok {
				parsed[path][f.Name.Name] = true
			}
		}
	}
	return parsed[path][name]
}

// TestTableIsDocumented: docs/fields.md is the table; make fields writes it.
func TestTableIsDocumented(t *testing.T) {
	path := filepath.Join(root, "docs", "fields.md")
	want := fields.Markdown(fields.Table())
	if *write {
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := os.ReadFile(path); err != nil || string(got) != want {
		t.Errorf("docs/fields.md is not the table of this package (%v): make fields", err)
	}
}
