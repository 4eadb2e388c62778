package criconfig

import "github.com/podwright/podwright/internal/expand"

// Expand replaces $(NAME) by what lookup knows (spec/runtime.md 11.4). A result longer
// than any program could take is an error.
func Expand(text string, lookup func(name string) (string, bool)) (string, error) {
	return expand.Text(text, lookup)
}
