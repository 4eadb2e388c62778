package source

import (
	"bytes"
	"cmp"
	stdjson "encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"unicode/utf8"
)

// toJSON returns a document's content as JSON. Its keys are sorted.
func toJSON(content any) ([]byte, error) {
	var out bytes.Buffer
	f := newJSONForm(&out)
	if err := f.value(content, 0); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// writeCanonical writes the content of a manifest in canonical form: JSON with sorted keys,
// without null values and without the status. The form does not depend on layout, comments or the
// Go types of this release, so generated UIDs are the same in every release (D1).
func writeCanonical(w io.Writer, content any) error {
	var out bytes.Buffer
	f := newJSONForm(&out)
	f.canonical, f.to = true, w
	f.encoder.SetEscapeHTML(true)
	if err := f.value(content, 0); err != nil {
		return err
	}
	return f.flush(0)
}

// jsonForm writes JSON.
type jsonForm struct {
	out     *bytes.Buffer
	encoder *stdjson.Encoder
	// canonical leaves out null values and the status, and writes to the writer below.
	canonical bool
	to        io.Writer
}

func newJSONForm(out *bytes.Buffer) *jsonForm {
	f := &jsonForm{out: out, encoder: stdjson.NewEncoder(out)}
	f.encoder.SetEscapeHTML(false)
	return f
}

// flush passes the output on to the writer if it has more than least bytes.
func (f *jsonForm) flush(least int) error {
	if f.to == nil || f.out.Len() <= least {
		return nil
	}
	_, err := f.out.WriteTo(f.to)
	return err
}

// value writes one value, which is depth levels deep.
func (f *jsonForm) value(value any, depth int) error {
	switch x := value.(type) {
	case map[any]any:
		entries, err := entriesOf(x)
		if err != nil {
			return err
		}
		return f.object(entries, depth)
	case map[string]any:
		entries := make([]entry, 0, len(x))
		for key, inner := range x {
			entries = append(entries, entry{key, inner, nil})
		}
		slices.SortFunc(entries, entry.compare)
		return f.object(entries, depth)
	case []any:
		return f.list(x, depth)
	case int:
		f.out.Write(strconv.AppendInt(f.out.AvailableBuffer(), int64(x), 10))
		return nil
	}
	return f.scalar(value)
}

func (f *jsonForm) list(items []any, depth int) error {
	f.out.WriteByte('[')
	for i, item := range items {
		if i > 0 {
			f.out.WriteByte(',')
		}
		if err := f.value(item, depth+1); err != nil {
			return err
		}
	}
	f.out.WriteByte(']')
	return f.flush(32 << 10)
}

// entry is a key of a mapping, as a string and as in the document, with its value.
type entry struct {
	name  string
	value any
	key   any
}

func (e entry) compare(other entry) int {
	if c := cmp.Compare(e.name, other.name); c != 0 {
		return c
	}
	return cmp.Compare(fmt.Sprintf("%T", e.key), fmt.Sprintf("%T", other.key)) // 1 and "1" are different keys in YAML
}

// entriesOf returns the entries of a mapping in order.
func entriesOf(mapping map[any]any) ([]entry, error) {
	entries := make([]entry, 0, len(mapping))
	for key, value := range mapping {
		name, err := keyText(key)
		if err != nil {
			return nil, err
		}
		entries = append(entries, entry{name, value, key})
	}
	slices.SortFunc(entries, entry.compare)
	return entries, nil
}

func (f *jsonForm) object(entries []entry, depth int) error {
	f.out.WriteByte('{')
	first := true
	for _, e := range entries {
		if f.canonical && (e.value == nil || depth == 0 && e.name == "status") {
			continue
		}
		if !first {
			f.out.WriteByte(',')
		}
		first = false
		if err := f.scalar(e.name); err != nil {
			return err
		}
		f.out.WriteByte(':')
		if err := f.value(e.value, depth+1); err != nil {
			return err
		}
	}
	f.out.WriteByte('}')
	return f.flush(32 << 10)
}

// scalar writes a string, a number, a boolean or null.
func (f *jsonForm) scalar(value any) error {
	if text, ok := value.(string); ok {
		if plain(text) {
			f.out.WriteByte('"')
			f.out.WriteString(text)
			f.out.WriteByte('"')
			return nil
		}
		if !utf8.ValidString(text) {
			value = string([]rune(text)) // the encoder would write an escape for an invalid byte
		}
	}
	if err := f.encoder.Encode(value); err != nil {
		return err
	}
	f.out.Truncate(f.out.Len() - 1) // its line end
	return nil
}

// plain reports whether a string needs no escapes in JSON.
func plain(text string) bool {
	for i := range len(text) {
		switch c := text[i]; {
		case c < ' ', c > '~', c == '"', c == '\\', c == '<', c == '>', c == '&':
			return false
		}
	}
	return true
}

// keyText returns the key of a mapping as in JSON, where every key is a string. It writes numbers
// and booleans as Kubernetes tools do.
func keyText(key any) (string, error) {
	switch k := key.(type) {
	case string:
		return k, nil
	case int:
		return strconv.Itoa(k), nil
	case int64:
		return strconv.FormatInt(k, 10), nil
	case bool:
		return strconv.FormatBool(k), nil
	case float64:
		switch text := strconv.FormatFloat(k, 'g', -1, 32); text {
		case "+Inf":
			return ".inf", nil
		case "-Inf":
			return "-.inf", nil
		case "NaN":
			return ".nan", nil
		default:
			return text, nil
		}
	}
	return "", fmt.Errorf("a key is of type %T; it must be a text, a number or a truth value", key)
}
