package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// vulnerability is an entry of a database, about a function of the standard library in every
// version.
func vulnerability(id, pkg, function string, modified time.Time) map[string]any {
	return map[string]any{
		"schema_version": "1.3.1", "id": id, "modified": modified, "published": modified, "details": "made up",
		"affected": []any{map[string]any{
			"package":            map[string]any{"name": "stdlib", "ecosystem": "Go"},
			"ranges":             []any{map[string]any{"type": "SEMVER", "events": []any{map[string]any{"introduced": "0"}}}},
			"ecosystem_specific": map[string]any{"imports": []any{map[string]any{"path": pkg, "symbols": []string{function}}}},
		}},
	}
}

func writeJSON(t *testing.T, path string, value any) {
	t.Helper()
	text, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	write(t, path, string(text))
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// newCheck returns a check of a module that calls strings.ToUpper, and not strings.ToLower,
// with a database that knows of something in both.
func newCheck(t *testing.T, modified time.Time, allowed string) (check, *bytes.Buffer) {
	t.Helper()
	root := t.TempDir()
	write(t, filepath.Join(root, "app", "go.mod"), "module example.com/app\n\ngo 1.26\n")
	write(t, filepath.Join(root, "app", "main.go"), "package main\n\nimport \"strings\"\n\nfunc main() { println(strings.ToUpper(\"x\")) }\n")
	write(t, filepath.Join(root, "allowed.txt"), allowed)
	database := filepath.Join(root, "db")
	var index []any
	for id, function := range map[string]string{"GO-2000-0001": "ToUpper", "GO-2000-0002": "ToLower"} {
		writeJSON(t, filepath.Join(database, "ID", id+".json"), vulnerability(id, "strings", function, modified))
		index = append(index, map[string]any{"id": id, "modified": modified})
	}
	writeJSON(t, filepath.Join(database, "index", "db.json"), map[string]any{"modified": modified})
	writeJSON(t, filepath.Join(database, "index", "vulns.json"), index)
	writeJSON(t, filepath.Join(database, "index", "modules.json"), []any{map[string]any{"path": "stdlib", "vulns": index}})
	out := &bytes.Buffer{}
	return check{
		root: root, database: "file://" + database, offline: "pass", allowed: filepath.Join(root, "allowed.txt"),
		modules: []string{"app"}, out: out, now: time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC),
	}, out
}

// TestReachableVulnerabilityFails runs govulncheck itself.
func TestReachableVulnerabilityFails(t *testing.T) {
	recent, old := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC), time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for name, tc := range map[string]struct {
		modified      time.Time
		allowed, want string
	}{
		"reachable":    {recent, "", "GO-2000-0001 in app: example.com/app.main calls what is vulnerable in stdlib@"},
		"explained":    {recent, "GO-2000-0001 2026-11-23 only in this test", ""},
		"expired":      {recent, "GO-2000-0001 2026-11-22 only in this test", "until 2026-11-22"},
		"stale":        {recent, "GO-2000-0001 2027-01-01 only in this test\nGO-2000-0002 2027-01-01 only in this test", "GO-2000-0002, which is not found any more"},
		"old database": {old, "GO-2000-0001 2027-01-01 only in this test", "more than 90 days old"},
	} {
		c, out := newCheck(t, tc.modified, tc.allowed)
		err := c.run(t.Context())
		if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
			t.Errorf("%s: %v; want %q", name, err, tc.want)
		}
		if err != nil && strings.Contains(err.Error(), "GO-2000-0002 in") {
			t.Errorf("%s: what is not reachable is a finding: %v", name, err)
		}
		if want := "vuln: app: 1 reachable, 1 more"; !strings.Contains(out.String(), want) {
			t.Errorf("%s: printed %q, want %q", name, out, want)
		}
	}
}

func TestSilentServerPassesOnlyIfAskedTo(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	defer server.Close()
	c, out := newCheck(t, time.Time{}, "")
	c.database = server.URL
	if err := c.run(t.Context()); err != nil || !strings.Contains(out.String(), "NOT CHECKED: "+server.URL+" does not answer as a database: status 404") {
		t.Errorf("printed %q, err %v", out, err)
	}
	c.offline = "fail"
	if err := c.run(t.Context()); !errors.Is(err, errNoAnswer) {
		t.Error(err)
	}
	c.offline, c.database = "pass", "file:///nowhere"
	if err := c.run(t.Context()); err == nil {
		t.Error("a folder that is not there passed")
	}
	for _, c := range []check{{offline: "maybe", modules: []string{"."}}, {offline: "pass"}} {
		if err := c.run(t.Context()); err == nil {
			t.Errorf("%+v passed", c)
		}
	}
}

func TestAllowanceNeedsDateAndReason(t *testing.T) {
	for _, bad := range []string{"GO-1", "GO-1 2026-01-01", "GO-1 2026-01-01 because", "GO-1 soon it will be mended"} {
		if list, err := parseAllowed("# head\n" + bad); err == nil || !strings.Contains(err.Error(), "line 2") {
			t.Errorf("%q: %v, %v", bad, list, err)
		}
	}
	text, err := os.ReadFile("allowed.txt")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := parseAllowed(string(text)); err != nil {
		t.Error(err)
	}
}
