package houserules

import (
	"fmt"
	"go/ast"
	"go/token"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

const (
	// happensPage tells what happens when.
	happensPage = "docs/what-happens-when.md"
	minEvents   = 10
)

// sightings begin the lines that say what an operator sees of an event.
var sightings = []string{"- Status:", "- Events:", "- Metrics:", "- Explain:"}

var (
	// specRules is one page of docs/spec and the rules that are cited of it.
	specRules = regexp.MustCompile(`^([a-z]+\.md) (.+)$`)
	// reason and metricName are names that the engine gives events and metrics.
	reason     = regexp.MustCompile("`([A-Z][A-Za-z]+)`")
	metricName = regexp.MustCompile("`((?:kubelet|podwright|prober|container)_[a-z_]+)`")
)

// happensRules keep the page of events true.
func happensRules() []rule {
	seen := "- Status: Pending\n- Events: `Started`\n- Metrics: `kubelet_pods`\n- Explain: all\n"
	event := func(steps, seen string) string {
		return "## A pod starts\n\n| step | what happens | where | rule |\n|---|---|---|---|\n" + steps + "\n" + seen + "\n"
	}
	step := func(where, rules string) string { return "| 1 | it starts | " + where + " | " + rules + " |\n" }
	good := event(step("`pleg/a.go` `F`", "pleg.md 4.1, R1; status.md CK2"), seen)
	files := func(page string) map[string]string {
		return map[string]string{
			happensPage: page, "docs/spec/pleg.md": "- R1 A rule. R2 Another.\n- 4.1 A third.\n", "docs/spec/status.md": "CK2 is one.\n",
			"pleg/a.go": "package p\n\nconst event, metric = \"Started\", \"kubelet_pods\"\n\nfunc F() {}\n",
		}
	}
	return []rule{{
		name: "what happens when", check: eventsAreTrue,
		breach: files(event(step("`pleg/a.go` `G`", "pleg.md R3; gone.md R1; R1")+step("in the loop", "pleg.md R2"),
			"- Status: Pending\n- Events: `Stopped`\n- Metrics: `kubelet_lost`\n") + event("", seen)),
		keeps: files(strings.Repeat(good, minEvents)),
		finds: []string{
			"pleg/a.go has no G", "pleg.md has no rule R3", "gone.md does not exist", "\"R1\" names no page", "names no file", "no library code has \"Stopped\"",
			"no library code has \"kubelet_lost\"", "has no line \"- Explain:\"", "has no steps", "has 2 events",
		},
	}}
}

// eventsAreTrue wants each step of the page to name functions and rules that exist, and each
// event and metric to be one of the engine's.
func eventsAreTrue(tr *tree, report report) {
	var page string
	for _, t := range tr.texts {
		if t.path == happensPage {
			page = t.content
		}
	}
	events := strings.Split(page, "\n## ")[1:]
	if strings.HasPrefix(page, "## ") {
		events = strings.Split("\n"+page, "\n## ")[1:]
	}
	if len(events) < minEvents {
		report("%s has %d events, want %d", happensPage, len(events), minEvents)
	}
	literals := tr.literals()
	for _, text := range events {
		title, body, _ := strings.Cut(text, "\n")
		tr.checkSteps(title, body, report)
		for _, line := range sightings {
			if !strings.Contains(body, "\n"+line) {
				report("%q has no line %q", title, line)
			}
		}
		for line := range strings.Lines(body) {
			var names [][]string
			switch {
			case strings.HasPrefix(line, "- Events:"):
				names = reason.FindAllStringSubmatch(line, -1)
			case strings.HasPrefix(line, "- Metrics:"):
				names = metricName.FindAllStringSubmatch(line, -1)
			}
			for _, name := range names {
				if !literals[name[1]] {
					report("%q: no library code has %q", title, name[1])
				}
			}
		}
	}
}

// checkSteps checks the table of one event.
func (tr *tree) checkSteps(title, body string, report report) {
	steps := 0
	for line := range strings.Lines(body) {
		cells := cellsOf(line)
		if _, err := strconv.Atoi(cells[0]); err != nil || len(cells) != 4 {
			continue
		}
		steps++
		name := fmt.Sprintf("%s, step %d", title, steps)
		tr.walkFiles(walk{name, cells[2]}, report)
		for cited := range strings.SplitSeq(cells[3], ";") {
			tr.checkCited(name, strings.TrimSpace(cited), report)
		}
	}
	if steps == 0 {
		report("%q has no steps", title)
	}
}

// checkCited checks the rules of one page that a step cites.
func (tr *tree) checkCited(step, cited string, report report) {
	m := specRules.FindStringSubmatch(cited)
	if m == nil {
		report("%q: %q names no page of docs/spec and its rules", step, cited)
		return
	}
	at := slices.IndexFunc(tr.texts, func(t text) bool { return t.path == "docs/spec/"+m[1] })
	if at < 0 {
		report("%q: docs/spec/%s does not exist", step, m[1])
		return
	}
	for name := range strings.SplitSeq(m[2], ",") {
		name = strings.TrimSpace(name)
		if !regexp.MustCompile(`(?m)(^|[ (#*])` + regexp.QuoteMeta(name) + `([ .:,;)]|$)`).MatchString(tr.texts[at].content) {
			report("%q: docs/spec/%s has no rule %s", step, m[1], name)
		}
	}
}

// literals are the string constants of the library's code.
func (tr *tree) literals() map[string]bool {
	out := map[string]bool{}
	for _, s := range tr.files {
		if !s.library() {
			continue
		}
		ast.Inspect(s.syntax, func(n ast.Node) bool {
			if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
				if text, err := strconv.Unquote(lit.Value); err == nil {
					out[text] = true
				}
			}
			return true
		})
	}
	return out
}
