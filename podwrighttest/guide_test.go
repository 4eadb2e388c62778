package podwrighttest_test

import (
	"os"
	"strings"
	"testing"
)

// The snippets of the guide are taken from the examples, which run.
func TestGuideShowsTheExamples(t *testing.T) {
	page, err := os.ReadFile("../docs/guide/testing.md")
	if err != nil {
		t.Fatal(err)
	}
	code := ""
	for _, file := range []string{
		"example_test.go", "../syncloop/source/sourcetest/sourcetest_test.go", "../podworkers/syncertest/syncertest_test.go",
		"../status/statustest/statustest_test.go",
	} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		code += flat(string(text))
	}
	blocks := strings.Split(string(page), "```go\n")[1:]
	if len(blocks) < 6 {
		t.Errorf("%d snippets", len(blocks))
	}
	for _, block := range blocks {
		snippet, _, closed := strings.Cut(block, "```")
		if !closed || !strings.Contains(code, flat(snippet)) {
			t.Errorf("no example has this snippet:\n%s", snippet)
		}
	}
}

// flat returns code without its indentation and empty lines.
func flat(code string) string {
	var lines []string
	for line := range strings.Lines(code) {
		if line = strings.TrimSpace(line); line != "" {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "\n") + "\n"
}
