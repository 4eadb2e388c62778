package source

import (
	"bytes"
	stdjson "encoding/json"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// withoutSurrogates returns a JSON text in which each pair of escapes for a character beyond U+FFFF is that
// character. Tools that write ASCII only have no other way to write one, and the YAML parser refuses it. Half a
// pair becomes U+FFFD, as in Go and in the kubelet. Any other text is returned as it is: in YAML, unlike in JSON,
// a backslash may be text.
func withoutSurrogates(text []byte) []byte {
	if !bytes.HasPrefix(bytes.TrimLeft(text, " \t\r\n"), []byte("{")) || !hasSurrogate(text) || !stdjson.Valid(text) {
		return text
	}
	out := make([]byte, 0, len(text))
	for {
		i := bytes.IndexByte(text, '\\')
		if i < 0 {
			return append(out, text...)
		}
		out, text = append(out, text[:i]...), text[i:]
		first, ok := surrogate(text)
		if !ok {
			out, text = append(out, text[:2]...), text[2:] // the second character may be a backslash
			continue
		}
		text = text[6:]
		whole := rune(utf8.RuneError)
		if second, ok := surrogate(text); ok {
			if whole = utf16.DecodeRune(first, second); whole != utf8.RuneError {
				text = text[6:]
			}
		}
		out = utf8.AppendRune(out, whole)
	}
}

// hasSurrogate reports whether the text may hold an escape for half a pair.
func hasSurrogate(text []byte) bool {
	return bytes.Contains(text, []byte(`\ud`)) || bytes.Contains(text, []byte(`\uD`))
}

// surrogate returns the half of a pair that the text begins with the escape of.
func surrogate(text []byte) (rune, bool) {
	if len(text) < 6 || text[0] != '\\' || text[1] != 'u' {
		return 0, false
	}
	n, err := strconv.ParseUint(string(text[2:6]), 16, 16)
	return rune(n), err == nil && utf16.IsSurrogate(rune(n))
}
