package source

import (
	"bytes"
	"errors"
	"fmt"

	"go.yaml.in/yaml/v2"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
)

// maxMarks is how many lines, commas, brackets and dashes one YAML document may have. The parser
// needs a few hundred bytes for each value between them, so their number, rather than the size,
// determines how much memory it takes to read a document.
const maxMarks = 1 << 20

// document is a parsed YAML or JSON document: maps, lists and scalars.
type document struct {
	content any
	// repeated names the keys that a mapping has twice, or that a later merge replaces; the last one counts.
	repeated error
	// size is the approximate size of the content in bytes, with aliases expanded.
	size int64
}

// parse reads a document. Its content, with aliases expanded, may have limit bytes minus those
// that earlier documents used (SRC5). The parser shares the values that aliases repeat, and gives
// up after 400,000 repeated values. Later steps copy each repetition, so parse measures them first.
func parse(text []byte, used, limit int64) (document, error) {
	if n := marks(text); n > maxMarks {
		return document{}, fmt.Errorf("%w: it has more than %d lines, items and brackets", ErrTooLarge, maxMarks)
	}
	text = withoutSurrogates(text)
	var d document
	err := yaml.UnmarshalStrict(text, &d.content)
	var strict *yaml.TypeError
	if errors.As(err, &strict) { // only keys can be wrong here
		d = document{}
		err = yaml.Unmarshal(text, &d.content)
	}
	if err != nil {
		return document{}, err
	}
	left := limit - used
	if !fits(d.content, &left) {
		return document{}, fmt.Errorf("%w: it has more than %d MiB once its aliases are replaced by their content; use fewer aliases",
			ErrTooLarge, limit>>20)
	}
	d.size = limit - used - left
	if strict != nil {
		d.repeated = repeated(text, d.content, strict)
	}
	return d, nil
}

// warning splits the error of a strict decoder in two: its objections, together with the repeated
// keys of the document, and the error that makes the document unusable.
func (d document) warning(err error) (warning, fatal error) {
	var objections []error
	if d.repeated != nil {
		objections = append(objections, d.repeated)
	}
	if strict, ok := apiruntime.AsStrictDecodingError(err); ok {
		objections, err = append(objections, strict.Errors()...), nil
	}
	if len(objections) == 0 {
		return nil, err
	}
	return fmt.Errorf("%w: %w", ErrUnknownField, apiruntime.NewStrictDecodingError(objections)), err
}

// marks counts the marks that begin or end a value in YAML. Quoted text counts too: the result is
// an upper bound, and computing it needs no parser. YAML has five line breaks and may be in UTF-16:
// there, one byte stands for each mark, in either order, so that more than the marks count.
func marks(text []byte) (n int) {
	begins := []string{"\n", "\r", "\u0085", "\u2028", "\u2029", ",", "[", "{", "- ", "? "}
	if bytes.HasPrefix(text, []byte("\xff\xfe")) || bytes.HasPrefix(text, []byte("\xfe\xff")) {
		begins = []string{"\n", "\r", "\x85", "\x28", "\x29", ",", "[", "{", "-", "?"}
	}
	for _, mark := range begins {
		n += bytes.Count(text, []byte(mark))
	}
	return n
}

// fits reports whether a value fits into the bytes that are left, and subtracts its size. It stops
// at the first byte too many. A value without aliases never needs more bytes than its text.
func fits(value any, left *int64) bool {
	switch x := value.(type) {
	case nil:
		return true
	case string:
		*left -= int64(len(x))
	case map[any]any:
		for key, inner := range x {
			if !fits(key, left) || !fits(inner, left) {
				return false
			}
		}
	case []any:
		for _, inner := range x {
			if !fits(inner, left) {
				return false
			}
		}
	}
	*left--
	return *left >= 0
}
