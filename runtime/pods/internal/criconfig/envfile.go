package criconfig

import (
	"fmt"
	"strings"
)

// FileKey finds a key in a file of lines NAME='value' (spec/runtime.md 11.7): the
// value is literal, in single quotes, and may span lines; blank lines and lines
// that begin with # are skipped, and a comment may follow the closing quote. The
// first match wins; what follows it is not read. A missing key has an empty value.
// Errors name the line, never its content.
func FileKey(content, key string) (string, error) {
	for line := 1; content != ""; line++ {
		if rest, skipped := skipBlank(content); skipped {
			content = rest
			continue
		}
		end := strings.IndexAny(content, "=\n")
		if end <= 0 || content[end] != '=' {
			return "", fmt.Errorf("line %d: want NAME='value'", line)
		}
		name := content[:end]
		if strings.ContainsAny(name, " \t\r'") {
			return "", fmt.Errorf("line %d: the name must be followed by '=' and hold no blank or quote", line)
		}
		value, rest, err := quoted(content[end+1:])
		if err != nil {
			return "", fmt.Errorf("line %d: %w", line, err)
		}
		if name == key {
			return value, nil
		}
		line += strings.Count(value, "\n")
		content = rest
	}
	return "", nil
}

// skipBlank drops the first line if it is blank or a comment.
func skipBlank(content string) (rest string, skipped bool) {
	line, rest, _ := strings.Cut(content, "\n")
	line = strings.TrimSpace(line)
	return rest, line == "" || line[0] == '#'
}

// quoted reads what follows '=' up to the end of the line on which the value ends.
// A blank, or nothing, after '=' means an empty value.
func quoted(text string) (value, rest string, err error) {
	if text == "" || strings.ContainsRune(" \t\r\n", rune(text[0])) {
		_, rest, _ = strings.Cut(text, "\n")
		return "", rest, nil
	}
	if text[0] != '\'' {
		return "", "", fmt.Errorf("the value must be in single quotes")
	}
	value, rest, closed := strings.Cut(text[1:], "'")
	if !closed {
		return "", "", fmt.Errorf("the closing quote is missing")
	}
	after, rest, _ := strings.Cut(rest, "\n")
	if after = strings.TrimSpace(after); after != "" && after[0] != '#' {
		return "", "", fmt.Errorf("something follows the closing quote")
	}
	return value, rest, nil
}
