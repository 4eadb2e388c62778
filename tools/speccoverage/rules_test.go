package main

import (
	"slices"
	"testing"
)

func TestFindRules(t *testing.T) {
	lettered := "## 1. X\n- U1 first. U2 second (see `pleg.md` R5).\n- HTTP2 is no rule.\n## Edge cases worth a test\n1. one\n2. two\n"
	if got, want := findRules(lettered, []string{"U", "R"}), []string{"U1", "U2", "edge 1", "edge 2"}; !slices.Equal(got, want) {
		t.Errorf("lettered: got %q, want %q", got, want)
	}
	numbered := "- 1.1 first\n| 1 | row |\n- 16.4 second, see 1.1\n"
	if got, want := findRules(numbered, nil), []string{"1.1", "16.4"}; !slices.Equal(got, want) {
		t.Errorf("numbered: got %q, want %q", got, want)
	}
}

func TestFindMentions(t *testing.T) {
	rules := []string{"U1", "U2", "U3", "U4", "6.4", "16.4", "edge 7", "edge 12"}
	tests := map[string][]string{
		"// U1-U3 hold":             {"U1", "U2", "U3"},
		`{name: "6.4 init order"}`:  {"6.4"},
		"spec/runtime.md 16.4.":     {"16.4"},
		"version 1.16.4 and 6.45":   nil,
		"// edge case 12: and more": {"edge 12"},
		"func TestEdge7(":           {"edge 7"},
	}
	for text, want := range tests {
		if got := findMentions(text, rules); !slices.Equal(got, want) {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}
