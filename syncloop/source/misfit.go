package source

import (
	"cmp"
	stdjson "encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"unicode"
)

// checkTop refuses content that cannot be a manifest of any kind. The decoder's own words for it
// are those of Go.
func checkTop(content any) error {
	fields, ok := content.(map[any]any)
	if !ok {
		return fmt.Errorf("want fields, such as kind: Pod, got %s", nameOf(content))
	}
	for _, name := range []string{"apiVersion", "kind"} {
		if value := fields[name]; value != nil {
			if _, ok := value.(string); !ok {
				return fmt.Errorf("%s: want text, got %s", name, nameOf(value))
			}
		}
	}
	return nil
}

// nameOf says what kind of value there is.
func nameOf(value any) string {
	switch value.(type) {
	case nil:
		return "nothing"
	case []any:
		return "a list"
	case map[any]any:
		return "a map"
	case string:
		return "text"
	case bool:
		return "true or false"
	}
	return "a number"
}

// misfit is the decoder's error about a value of the wrong type, in the words of manifests.
type misfit struct{ cause *stdjson.UnmarshalTypeError }

func (m misfit) Unwrap() error { return m.cause }

func (m misfit) Error() string {
	want := map[reflect.Kind]string{
		reflect.String: "text", reflect.Bool: "true or false", reflect.Slice: "a list", reflect.Map: "a map", reflect.Struct: "a map",
		reflect.Int32: "a whole number", reflect.Int64: "a whole number",
	}[m.cause.Type.Kind()]
	// The path has the names of embedded structs too, which are no fields of a manifest.
	path := slices.DeleteFunc(strings.Split(m.cause.Field, "."), func(name string) bool { return len(name) > 0 && unicode.IsUpper(rune(name[0])) })
	field := strings.Join(path, ".")
	number, literal := strings.CutPrefix(m.cause.Value, "number ")
	if literal && !strings.ContainsAny(number, ".eE") {
		return fmt.Sprintf("%s: the number %s is out of range", field, number)
	}
	got := map[string]string{"string": "text", "bool": "true or false", "array": "a list", "object": "a map", "number": "a number"}[m.cause.Value]
	text := fmt.Sprintf("%s: want %s, got %s", field, cmp.Or(want, "another type"), cmp.Or(got, number))
	if want == "text" && (m.cause.Value == "bool" || m.cause.Value == "number") {
		text += "; put it in quotes"
	}
	return text
}

// inWords returns the decoder's error in the words of manifests, if there are any for it.
func inWords(err error) error {
	if wrong, ok := errors.AsType[*stdjson.UnmarshalTypeError](err); ok && wrong.Field != "" {
		return misfit{wrong}
	}
	return err
}
