package criconfig

import "strings"

// Expand replaces $(NAME) by what lookup knows (spec/runtime.md 11.4). Values are
// not expanded again, unknown names stay as written, and $$ is a literal $.
func Expand(text string, lookup func(name string) (string, bool)) string {
	if !strings.Contains(text, "$") {
		return text
	}
	var out strings.Builder
	for i := 0; i < len(text); i++ {
		if text[i] != '$' || i+1 == len(text) {
			out.WriteByte(text[i])
			continue
		}
		switch text[i+1] {
		case '$':
			out.WriteByte('$')
			i++
		case '(':
			end := strings.IndexByte(text[i:], ')')
			if end < 0 {
				// Unclosed: only the opening is settled, later references
				// are none either, as no bracket follows.
				out.WriteByte('$')
				continue
			}
			reference := text[i : i+end+1]
			if value, ok := lookup(reference[2 : len(reference)-1]); ok {
				out.WriteString(value)
			} else {
				out.WriteString(reference)
			}
			i += end
		default:
			out.WriteByte('$')
		}
	}
	return out.String()
}
