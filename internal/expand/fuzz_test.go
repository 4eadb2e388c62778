package expand_test

import (
	"strings"
	"testing"

	"github.com/podwright/podwright/internal/expand"
)

// FuzzText: a value is never expanded again, what is unknown or unclosed stays as written,
// and the result is bounded (spec/runtime.md 11.4).
func FuzzText(f *testing.F) {
	for _, text := range []string{"$(A)", "$$(A)", "$(A", "$$$(A)$", "$(B)$(A)", "$()", "$($(A))", "x$"} {
		f.Add(text, "A", "1$(A)$$")
	}
	f.Fuzz(func(t *testing.T, text, name, value string) {
		known := func(asked string) (string, bool) { return value, asked == name }
		got, err := expand.Text(text, known)
		if err != nil {
			if len(text)+strings.Count(text, "$(")*len(value) <= expand.MaxString() {
				t.Errorf("%q: %v", text, err)
			}
			return
		}
		if len(got) > expand.MaxString() {
			t.Errorf("%d bytes", len(got))
		}
		if !strings.Contains(text, "$") && got != text {
			t.Errorf("%q became %q", text, got)
		}
		if literal, err := expand.Text(strings.ReplaceAll(text, "$", "$$"), known); err == nil && literal != text {
			t.Errorf("%q with every $ doubled became %q", text, literal)
		}
		if reference := "$(" + name + ")"; !strings.Contains(name, ")") {
			if got, err := expand.Text(reference, known); err == nil && got != value {
				t.Errorf("%q became %q, want %q", reference, got, value)
			}
		}
	})
}
