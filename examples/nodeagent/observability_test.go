package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// promtool is the program that checks rules, from Debian's package prometheus. PODWRIGHT_PROMTOOL
// names it where it has to be there.
func promtool(t *testing.T, dir string, args ...string) {
	t.Helper()
	program := os.Getenv("PODWRIGHT_PROMTOOL")
	if program == "" {
		var err error
		if program, err = exec.LookPath("promtool"); err != nil {
			t.Skip("without promtool (Debian's package prometheus)")
		}
	}
	cmd := exec.Command(program, args...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

// TestObservabilityFiles: Prometheus takes the rules, the configuration and each query of the
// dashboard, and every alert comes when it should.
func TestObservabilityFiles(t *testing.T) {
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS("observability")); err != nil {
		t.Fatal(err)
	}
	writeManifest(t, dir, "nodeagent-token", "a token\n")
	var rules []map[string]string
	for i, query := range dashboardQueries(t) {
		rules = append(rules, map[string]string{"record": fmt.Sprintf("query:%d", i), "expr": strings.ReplaceAll(query, "$instance", ".*")})
	}
	text, err := yaml.Marshal(map[string]any{"groups": []any{map[string]any{"name": "dashboard", "rules": rules}}})
	if err != nil {
		t.Fatal(err)
	}
	writeManifest(t, dir, "dashboard.yaml", string(text))
	promtool(t, dir, "check", "rules", "alerts.yaml", "dashboard.yaml")
	promtool(t, dir, "check", "config", "prometheus.yaml")
	promtool(t, dir, "test", "rules", "alerts_test.yaml")
}

// TestEveryAlertSaysWhatToDo: a summary of some length, a severity, and a test that names the alert.
func TestEveryAlertSaysWhatToDo(t *testing.T) {
	tests, err := os.ReadFile("observability/alerts_test.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range alerts(t) {
		if s := a.Annotations["summary"]; len(s) < 60 || !strings.Contains(s, "$labels") {
			t.Errorf("%s: the summary %q says neither where nor what to do", a.Alert, s)
		}
		if s := a.Labels["severity"]; s != "page" && s != "ticket" {
			t.Errorf("%s: severity %q", a.Alert, s)
		}
		if !regexp.MustCompile(`\b` + a.Alert + `\b`).Match(tests) {
			t.Errorf("%s: no test names it", a.Alert)
		}
	}
}

// TestObservabilitySeries: an agent on the process runtime to which nothing has happened yet has
// every series of alerts and dashboard, but those of a container runtime.
func TestObservabilitySeries(t *testing.T) {
	t.Parallel()
	manifests := t.TempDir()
	args := []string{"--manifests", manifests, "--root", t.TempDir()}
	drainAtEnd(t, args...)
	awaitSeries(t, startAgent(t, args...), manifests, "host", func(name string) bool {
		return strings.HasPrefix(name, "kubelet_runtime_operations_") || name == "container_oom_events_total"
	})
}

// awaitSeries starts a probed pod and one that crashes, waits until the agent shows every series
// that alerts and dashboard name, and compares all it shows with docs/metrics.md.
func awaitSeries(t *testing.T, a *testAgent, manifests, image string, without func(name string) bool) {
	t.Helper()
	writeManifest(t, manifests, "probed.yaml", pod("probed", image, "sleep 1000",
		"    readinessProbe: {exec: {command: [sh, -c, exit 0]}, periodSeconds: 1}"))
	writeManifest(t, manifests, "crash.yaml", pod("crash", image, "exit 1"))
	a.awaitPhase("probed", v1.PodRunning)
	queries := dashboardQueries(t)
	for _, alert := range alerts(t) {
		queries = append(queries, alert.Expr)
	}
	var page []sample
	await(t, "every series of alerts and dashboard", func() error {
		page = samples(a.metricsPage())
		missing := map[string]bool{}
		for _, query := range queries {
			for _, s := range selectors(query) {
				if !without(s.name) && !slices.ContainsFunc(page, s.matches) {
					missing[s.text] = true
				}
			}
		}
		if len(missing) > 0 {
			return fmt.Errorf("missing: %s", strings.Join(slices.Sorted(maps.Keys(missing)), ", "))
		}
		return nil
	})
	documented, compared := documentedMetrics(t), 0
	for _, s := range page {
		name := s.name
		if _, ok := documented[name]; !ok {
			name = regexp.MustCompile(`_(bucket|sum|count)$`).ReplaceAllString(name, "")
		}
		if !regexp.MustCompile(`^(kubelet|podwright|prober|container)_`).MatchString(name) {
			continue
		}
		compared++
		labels := maps.Clone(s.labels)
		delete(labels, "le")
		if got, want := slices.Sorted(maps.Keys(labels)), documented[name]; want == nil || !slices.Equal(got, want) {
			t.Errorf("%s has the labels %q, docs/metrics.md says %q", s.name, got, want)
		}
	}
	if compared < 300 {
		t.Errorf("only %d series of the engine on the page", compared)
	}
}

// metricsPage is what Prometheus would scrape.
func (a *testAgent) metricsPage() string {
	code, body := a.get("/metrics")
	if code != 200 {
		a.t.Fatalf("/metrics: %d %s", code, body)
	}
	return body
}

// sample is one line of a page.
type sample struct {
	name   string
	labels map[string]string
}

var (
	sampleLine = regexp.MustCompile(`(?m)^([a-z_:]+)(?:\{(.*)\})? \S+$`)
	labelPair  = regexp.MustCompile(`([a-zA-Z_]+)(=~|!=|!~|=)"((?:[^"\\]|\\.)*)"`)
	grouping   = regexp.MustCompile(`\b(by|on|without|ignoring)\s*\([^)]*\)`)
	selected   = regexp.MustCompile(`\b((?:kubelet|podwright|prober|kube|container|process|go)_[a-z0-9_]+)(\{[^}]*\})?`)
)

func samples(page string) (all []sample) {
	for _, line := range sampleLine.FindAllStringSubmatch(page, -1) {
		s := sample{name: line[1], labels: map[string]string{}}
		for _, pair := range labelPair.FindAllStringSubmatch(line[2], -1) {
			s.labels[pair[1]] = pair[3]
		}
		all = append(all, s)
	}
	return all
}

// selector is what a query asks for. Of its matchers those count that say what a label is:
// the agent does not know what Prometheus calls job and instance.
type selector struct {
	text, name string
	labels     map[string]string
}

func selectors(query string) (all []selector) {
	for _, found := range selected.FindAllStringSubmatch(grouping.ReplaceAllString(query, ""), -1) {
		s := selector{text: found[0], name: found[1], labels: map[string]string{}}
		for _, pair := range labelPair.FindAllStringSubmatch(found[2], -1) {
			if pair[2] == "=" && pair[1] != "job" {
				s.labels[pair[1]] = pair[3]
			}
		}
		all = append(all, s)
	}
	return all
}

func (s selector) matches(x sample) bool {
	for key, value := range s.labels {
		if x.labels[key] != value {
			return false
		}
	}
	return s.name == x.name
}

// documentedMetrics are the labels, in order, of each metric of docs/metrics.md.
func documentedMetrics(t *testing.T) map[string][]string {
	t.Helper()
	_ = os.Getenv("PODWRIGHT_DOCS") // the result is not remembered if tools/ci sees other pages
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "metrics.md"))
	if err != nil {
		t.Fatal(err)
	}
	all := map[string][]string{}
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(line, " | ")
		if len(cells) < 6 || !strings.HasPrefix(cells[0], "| `") {
			continue
		}
		labels := []string{}
		for _, found := range regexp.MustCompile("`([a-z_]+)`").FindAllStringSubmatch(cells[3], -1) {
			labels = append(labels, found[1])
		}
		slices.Sort(labels)
		all[strings.Trim(cells[0], "| `")] = labels
	}
	return all
}

type alertRule struct {
	Alert, Expr         string
	Labels, Annotations map[string]string
}

func alerts(t *testing.T) (all []alertRule) {
	t.Helper()
	text, err := os.ReadFile("observability/alerts.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var file struct{ Groups []struct{ Rules []alertRule } }
	if err := yaml.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	for _, g := range file.Groups {
		all = append(all, g.Rules...)
	}
	return all
}

// dashboardQueries returns the queries of the dashboard; its panels have their own ids, and none
// is without a description.
func dashboardQueries(t *testing.T) (all []string) {
	t.Helper()
	text, err := os.ReadFile("observability/dashboard.json")
	if err != nil {
		t.Fatal(err)
	}
	var board struct {
		Panels []struct {
			ID                       int
			Type, Title, Description string
			Targets                  []struct{ Expr string }
		}
	}
	if err := json.Unmarshal(text, &board); err != nil {
		t.Fatal(err)
	}
	ids := map[int]bool{}
	for _, p := range board.Panels {
		if ids[p.ID] || p.Type != "row" && (p.Title == "" || p.Description == "" || len(p.Targets) == 0) {
			t.Errorf("panel %d %q: its id is another's, or it lacks title, description or query", p.ID, p.Title)
		}
		ids[p.ID] = true
		for _, target := range p.Targets {
			all = append(all, target.Expr)
		}
	}
	return all
}
