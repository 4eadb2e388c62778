package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const source = `package p

import "github.com/podwright/podwright/internal/instrument"

func f() {
	set, byKind := instrument.New(nil), instrument.By("kind", "a", "")
	BODY
}
`

// tree writes a repository with one package.
func tree(t *testing.T, body string) string {
	t.Helper()
	root := t.TempDir()
	for _, dir := range []string{"docs", "pleg"} {
		if err := os.Mkdir(filepath.Join(root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(root, "pleg", "metrics.go"), []byte(strings.Replace(source, "BODY", body, 1)), 0o644); err != nil {
		t.Fatal(err)
	}
	return root
}

func TestPageIsWhatTheSourceSays(t *testing.T) {
	root := tree(t, `set.Counter("podwright_n_total", "Things | more.", byKind, instrument.By("pod"))
	set.Durations("kubelet_took_seconds", "Time.", instrument.Buckets(1, 2))
	set.Counter("podwright_m_total", "Some.", instrument.From("kind", "a", "b"))
	set.ReadGauge("podwright_size_bytes", "Size.")`)
	if err := run(root, false); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(filepath.Join(root, "docs", "metrics.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{
		"| `podwright_n_total` |  | counter | `kind`: a, \"\"; `pod` | Things \\| more. | pleg |",
		"| `podwright_m_total` |  | counter | `kind`: a, b and others | Some. | pleg |",
		"| `kubelet_took_seconds` | **K** | histogram, seconds |  | Time. | pleg |",
		"| `podwright_size_bytes` |  | gauge, bytes |  | Size. | pleg |",
	} {
		if !strings.Contains(string(got), line+"\n") {
			t.Errorf("the page lacks %s", line)
		}
	}
	if err := run(root, true); err != nil {
		t.Error(err)
	}
	file := filepath.Join(root, "pleg", "metrics.go")
	text, _ := os.ReadFile(file)
	if err := os.WriteFile(file, []byte(strings.Replace(string(text), `"a"`, `"b"`, 1)), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := run(root, true); err == nil {
		t.Error("a changed label is not noticed")
	}
}

func TestHiddenInstrumentsAreRefused(t *testing.T) {
	for name, body := range map[string]string{
		"name in a variable":    `set.Counter(name, "Things.")`,
		"no description":        `set.Counter("a", "")`,
		"options from a helper": `set.Counter("a", "Things.", labels()...)`,
		"set of another name":   `all := set; all.Counter("a", "Things.")`,
		"label in a variable":   `set.Counter("a", "Things.", instrument.By(key))`,
		"one name twice":        `set.Counter("a", "Things."); set.Gauge("a", "Things.")`,
	} {
		if _, err := read(tree(t, body)); err == nil {
			t.Errorf("%s: nothing is said", name)
		}
	}
}
