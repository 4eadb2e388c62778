package main

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

const root = "../.."

// TestEveryTargetIsFound compares what is run with a plain search through the sources.
func TestEveryTargetIsFound(t *testing.T) {
	targets, err := find(root)
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, target := range targets {
		found = append(found, target.String())
	}
	var want []string
	function := regexp.MustCompile(`(?m)^func (Fuzz\w*)\(`)
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") || strings.Contains(path, "/testdata/") {
			return err
		}
		text, err := os.ReadFile(path)
		for _, m := range function.FindAllSubmatch(text, -1) {
			want = append(want, filepath.ToSlash(strings.TrimPrefix(filepath.Dir(path), root+"/"))+"."+string(m[1]))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(found)
	slices.Sort(want)
	if !slices.Equal(found, want) || len(want) < 20 {
		t.Errorf("found\n%s\nwant\n%s", strings.Join(found, "\n"), strings.Join(want, "\n"))
	}
}

// TestCorporaHaveTargets: a folder of inputs whose target has another name now would never be
// read.
func TestCorporaHaveTargets(t *testing.T) {
	targets, err := find(root)
	if err != nil {
		t.Fatal(err)
	}
	corpora, err := filepath.Glob(root + "/*/testdata/fuzz/*")
	for pattern := root + "/*/*"; err == nil && strings.Count(pattern, "*") < 8; pattern += "/*" {
		var more []string
		more, err = filepath.Glob(pattern + "/testdata/fuzz/*")
		corpora = append(corpora, more...)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range corpora {
		pkg := strings.TrimPrefix(filepath.Dir(filepath.Dir(filepath.Dir(path))), root+"/")
		if !slices.ContainsFunc(targets, func(t target) bool { return t.shown == filepath.ToSlash(pkg) && t.name == filepath.Base(path) }) {
			t.Errorf("%s belongs to no fuzz target", path)
		}
	}
}

func writeModule(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

const (
	goMod = "module example.com/m\n\ngo 1.26\n"
	head  = "package m\n\nimport \"testing\"\n\n"
	good  = "func FuzzGood(f *testing.F) { f.Fuzz(func(t *testing.T, n int) {}) }\n"
	bad   = "func FuzzBad(f *testing.F) { f.Fuzz(func(t *testing.T, n int) { if n > 9 { t.Fatal(\"over nine\") } }) }\n"
)

func TestFind(t *testing.T) {
	dir := writeModule(t, map[string]string{
		"go.mod": goMod, "a_test.go": head + good + "func Fuzzy(t *testing.T) {}\nfunc FuzzNot(n int) {}\n", "sub/go.mod": goMod, "sub/b/b_test.go": head + bad,
		"testdata/c_test.go": head + bad, ".hidden/d_test.go": head + bad, "e.go": "package m\n",
	})
	targets, err := find(dir)
	want := []target{{dir, "./.", ".", "FuzzGood"}, {filepath.Join(dir, "sub"), "./b", "sub/b", "FuzzBad"}}
	if err != nil || !slices.Equal(targets, want) {
		t.Errorf("%v, %v", targets, err)
	}
	for name, files := range map[string]map[string]string{
		"would never be fuzzed": {"go.mod": goMod, "a_test.go": "//go:build containerd\n\n" + head + good},
		"is in no module":       {"a_test.go": head + good},
		"expected":              {"go.mod": goMod, "a_test.go": "packag"},
	} {
		if targets, err := find(writeModule(t, files)); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%q: %v, %v", name, targets, err)
		}
	}
}

// TestTargetsAreRun fuzzes for real: what fails is found, kept in testdata and reported, what
// does not build too.
func TestTargetsAreRun(t *testing.T) {
	dir := writeModule(t, map[string]string{
		"go.mod": goMod, "a/a_test.go": head + good + bad, "b/b_test.go": head + "func FuzzBroken(f *testing.F) { f.Nothing() }\n",
	})
	targets, err := find(dir)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	r := runner{length: time.Second, work: t.TempDir(), out: &out}
	results := r.all(targets, 1)
	if print(&out, targets, results) || !strings.HasSuffix(out.String(), "fuzz: 1 of 3 targets passed\n") {
		t.Errorf("printed %s", &out)
	}
	for name, want := range map[string]string{"a.FuzzGood": "", "a.FuzzBad": "over nine", "b.FuzzBroken": "does not build"} {
		i := slices.IndexFunc(targets, func(t target) bool { return t.String() == name })
		if got := results[targets[i]]; want == "" && got.failed != "" || !strings.Contains(got.failed, want) {
			t.Errorf("%s: %+v", name, got)
		}
	}
	if log := out.String(); !strings.Contains(log, "the input (<nil>):\ngo test fuzz v1\nint(") {
		t.Errorf("the input is not shown: %s", log)
	}
	if kept, _ := filepath.Glob(filepath.Join(dir, "a/testdata/fuzz/FuzzBad/*")); len(kept) != 1 {
		t.Errorf("kept %v", kept)
	}
}

func TestJudge(t *testing.T) {
	const line = "fuzz: elapsed: 10s, execs: 5678 (2799/sec), new interesting: 25 (total: 29)\n"
	if got := judge([]byte("fuzz: elapsed: 0s, execs: 1 (1/sec), new interesting: 0 (total: 1)\n"+line), nil); got != (result{tried: 5678, interesting: 25}) {
		t.Errorf("%+v", got)
	}
	const early = "fuzz: elapsed: 0s, gathering baseline coverage: 0/96 completed\nfuzz: elapsed: 10s, gathering baseline coverage: 48/96 completed\nPASS\n"
	if got := judge([]byte(early), nil); got != (result{tried: 48}) {
		t.Errorf("no time for more than the inputs it keeps: %+v", got)
	}
	if got := judge([]byte("warning: no fuzz tests to fuzz\nPASS\n"), nil); !strings.Contains(got.failed, "tried no input") {
		t.Errorf("%+v", got)
	}
	const late = line + "--- FAIL: FuzzText (10.08s)\n    context deadline exceeded\nFAIL\n"
	if got := judge([]byte(late), errors.New("exit status 1")); got.failed != "" || got.tried != 5678 {
		t.Errorf("the engine's own deadline: %+v", got)
	}
	if got := judge([]byte(late+"Failing input written to testdata/fuzz/FuzzText/1\n"), errors.New("exit status 1")); got.failed == "" {
		t.Errorf("the engine's own deadline beside an input that failed: %+v", got)
	}
	if got := judge([]byte(line+"boom\n"), errors.New("exit status 1")); !strings.Contains(got.failed, "boom") {
		t.Errorf("%+v", got)
	}
}

func TestTargetWithoutResultFails(t *testing.T) {
	targets := []target{{name: "FuzzA"}, {name: "FuzzB"}}
	if print(io.Discard, targets, map[target]result{targets[0]: {tried: 1}}) {
		t.Error("a target that did not run passed")
	}
	if !print(io.Discard, targets[:1], map[target]result{targets[0]: {tried: 1}}) {
		t.Error("failed")
	}
}
