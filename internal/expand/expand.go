package expand

import (
	"fmt"
	"os"
	"strings"
)

// MaxString returns how long one argument or one NAME=value of a program can be on Linux: 32 pages,
// with a zero byte at the end. It also bounds expansion, because every reference may multiply the
// text.
func MaxString() int { return 32*os.Getpagesize() - 1 }

// Text replaces $(NAME) with the value that lookup returns. Values are not expanded again, unknown
// names stay as written, and $$ is a literal $. A result longer than any program could take is an
// error.
func Text(text string, lookup func(name string) (string, bool)) (string, error) {
	limit := MaxString()
	if !strings.Contains(text, "$") && len(text) <= limit {
		return text, nil
	}
	var out strings.Builder
	for i := 0; i < len(text) && out.Len() <= limit; i++ {
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
				// Unclosed: the opening stays as written. Later references are unclosed too,
				// because no bracket follows.
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
	if out.Len() > limit {
		return "", fmt.Errorf("longer than the %d bytes a program can take", limit)
	}
	return out.String(), nil
}
