package houserules

import (
	"path"
	"regexp"
	"slices"
	"strings"
)

const (
	// maxReadmeLines is two screens.
	maxReadmeLines = 110
	// jobsHeading begins the table of what readers want to do.
	jobsHeading = "## I want to ..."
)

var (
	mdLink    = regexp.MustCompile(`\[([^\]]*)\]\(([^)\s]+)\)`)
	mdExample = regexp.MustCompile("^`(Example[A-Za-z0-9_]*)`$")
	mdFenced  = regexp.MustCompile("(?ms)^ *```.*?^ *```$")
	mdHeading = regexp.MustCompile(`(?m)^#+ (.+)$`)
	// slugDrops are the characters that a heading loses when it becomes an anchor.
	slugDrops = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
)

// linkRules keep pages that refer to files, headings and examples true.
func linkRules() []rule {
	example := "package p_test\n\nfunc ExampleF() {\n\tprintln()\n\t// Output: 1\n}\n\nfunc ExampleG() {}\n"
	job := func(cell string) string {
		return "# P\n\n" + jobsHeading + "\n| I want to | package | example |\n|---|---|---|\n| see | `p` | " + cell + " |\n"
	}
	return []rule{
		{
			name: "links lead somewhere", check: linksLeadSomewhere,
			breach: map[string]string{
				"docs/a.md": "# A page\n\n[b](b.md) [c](../c) [d](#a-part) [e](../README.md#no-part)\n", "README.md": "# P\n",
			},
			keeps: map[string]string{
				"docs/a.md": "# A page\n\n## `x`: Why, and how?\n\n[b](../b/c.go) [b](../b) [d](#x-why-and-how) [e](../README.md#p) [f](https://example.com/) `[g](h)`\n```\n[i](j)\n```\n",
				"README.md": "# P\n", "b/c.go": "package c\n",
			},
			finds: []string{"docs/b.md does not exist", "docs/a.md: c does not exist", "docs/a.md has no heading for #a-part", "README.md has no heading for #no-part"},
		},
		{
			name: "the README names examples by job", check: jobsHaveExamples,
			breach: map[string]string{
				"README.md":   job("[`ExampleF`](p/a_test.go)") + "| hear | `p` | [`ExampleH`](p/a_test.go), [`ExampleG`](p/a_test.go) |\n| say | `p` | the tests |\n" + strings.Repeat("\n", 110),
				"p/a_test.go": example,
			},
			keeps: map[string]string{"README.md": job("[`ExampleF`](p/a_test.go), [all](p/a_test.go)"), "p/a_test.go": example},
			finds: []string{"p/a_test.go has no ExampleH", "ExampleG has no checked output", "\"say\" has no example", "lines, which is more than two screens"},
		},
	}
}

// linksLeadSomewhere wants what the pages' relative links name to exist: files, folders and headings.
func linksLeadSomewhere(tr *tree, report report) {
	pages, dirs := map[string]string{}, map[string]bool{".": true}
	for _, t := range tr.texts {
		pages[t.path] = t.content
		for dir := path.Dir(t.path); dir != "."; dir = path.Dir(dir) {
			dirs[dir] = true
		}
	}
	for _, t := range tr.texts {
		if !strings.HasSuffix(t.path, ".md") || strings.Contains("/"+t.path, "/testdata/") {
			continue
		}
		prose := regexp.MustCompile("`[^`\n]*\\]\\([^`\n]*`").ReplaceAllString(mdFenced.ReplaceAllString(t.content, ""), "")
		for _, m := range mdLink.FindAllStringSubmatch(prose, -1) {
			file, anchor, _ := strings.Cut(m[2], "#")
			if strings.Contains(file, ":") {
				continue
			}
			to := t.path
			if file != "" {
				to = path.Join(path.Dir(t.path), file)
			}
			content, isFile := pages[to]
			if !isFile && !dirs[to] {
				report("%s: %s does not exist", t.path, to)
			} else if anchor != "" && strings.HasSuffix(to, ".md") && !slices.Contains(anchors(content), anchor) {
				report("%s: %s has no heading for #%s", t.path, to, anchor)
			}
		}
	}
}

// anchors are the names by which links reach the headings of a page.
func anchors(page string) (out []string) {
	for _, m := range mdHeading.FindAllStringSubmatch(mdFenced.ReplaceAllString(page, ""), -1) {
		text := mdLink.ReplaceAllString(m[1], "$1")
		out = append(out, strings.ReplaceAll(slugDrops.ReplaceAllString(strings.ToLower(strings.TrimSpace(text)), ""), " ", "-"))
	}
	return out
}

// jobsHaveExamples wants each row of the README's table to lead to an example, and those to have
// checked output.
func jobsHaveExamples(tr *tree, report report) {
	for _, t := range tr.texts {
		if t.path != "README.md" {
			continue
		}
		if n := strings.Count(t.content, "\n"); n > maxReadmeLines {
			report("README.md has %d lines, which is more than two screens", n)
		}
		_, table, _ := strings.Cut(t.content, jobsHeading)
		table, _, _ = strings.Cut(table, "\n## ")
		for line := range strings.Lines(table) {
			cells := cellsOf(line)
			job := cells[0]
			if len(cells) != 3 || job == "I want to" || strings.HasPrefix(job, "---") {
				continue
			}
			links := mdLink.FindAllStringSubmatch(cells[2], -1)
			if len(links) == 0 {
				report("%q has no example", job)
			}
			for _, m := range links {
				if name := mdExample.FindStringSubmatch(m[1]); name != nil {
					tr.checkExample(m[2], name[1], report)
				}
			}
		}
	}
}

// checkExample wants a file to have an example with checked output.
func (tr *tree) checkExample(file, name string, report report) {
	s := tr.file(file)
	if s == nil {
		return // a link to nowhere is another rule's
	}
	f := funcOf(s, name)
	switch {
	case f == nil:
		report("%s has no %s", file, name)
	case !checked(tr, s, f):
		report("%s: %s has no checked output", file, name)
	}
}
