package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	serializer "k8s.io/apimachinery/pkg/runtime/serializer/json"
	"sigs.k8s.io/yaml"

	"github.com/podwright/podwright/syncloop/source"
)

const (
	// maxMisfits bounds how many misfits of one manifest are named.
	maxMisfits = 100
	// maxMisfitDepth is more than the depth of any field of a pod.
	maxMisfitDepth = 30
)

// misfit is a value of a manifest that has the wrong type.
type misfit struct{ field, text string }

func (m misfit) Error() string { return joined(": ", m.field, m.text) }

// withMisfits replaces the error about a value of the wrong type by one for each such value, and adds the unknown
// fields. A decoder names only the first value, without its place in a list, and no unknown field beside it.
func withMisfits(all []error, content []byte) (out []error) {
	for _, one := range all {
		var misfits []misfit
		var unknown []error
		if errors.Is(one, source.ErrMalformed) && isMisfit(one) {
			misfits, unknown = misfitsOf(content)
		}
		if len(misfits) == 0 {
			out = append(out, one)
		}
		for _, m := range misfits {
			out = append(out, m)
		}
		out = append(out, unknown...)
	}
	return out
}

// isMisfit reports whether an error is about a value of the wrong type. Others, such as a quantity that takes too long to read,
// keep a manifest from being decoded at all.
func isMisfit(err error) bool {
	_, ok := errors.AsType[*json.UnmarshalTypeError](err)
	return ok || ofDecoding.MatchString(err.Error())
}

var ofDecoding = regexp.MustCompile(`quantities must match|parsing time`)

// misfitsOf returns the misfits in a pod's manifest and, if there are any, the unknown fields beside them.
func misfitsOf(manifest []byte) (found []misfit, unknown []error) {
	text, err := yaml.YAMLToJSON(manifest)
	if err != nil {
		return nil, nil
	}
	var content any
	values := json.NewDecoder(bytes.NewReader(text))
	values.UseNumber() // numbers stay as they are written
	if values.Decode(&content) != nil {
		return nil, nil
	}
	document, _ := content.(map[string]any) // of several documents, the first may be empty
	if document["apiVersion"] != "v1" || document["kind"] != "Pod" {
		return nil, nil
	}
	scheme := apiruntime.NewScheme()
	scheme.AddKnownTypes(v1.SchemeGroupVersion, &v1.Pod{})
	f := misfitFinder{pods: serializer.NewSerializerWithOptions(serializer.DefaultMetaFactory, scheme, scheme, serializer.SerializerOptions{Strict: true})}
	f.find(document, "", 0, func(part any) any { return part })
	if len(f.found) == 0 {
		return nil, nil
	}
	if strict, ok := apiruntime.AsStrictDecodingError(f.decode(document)); ok {
		unknown = strict.Errors()
	}
	return f.found, unknown
}

// misfitFinder decodes a document in parts.
type misfitFinder struct {
	pods  apiruntime.Decoder
	found []misfit
}

func (f *misfitFinder) decode(document any) error {
	text, err := json.Marshal(document)
	if err == nil {
		kind := v1.SchemeGroupVersion.WithKind("Pod") // a part has none
		_, _, err = f.pods.Decode(text, &kind, nil)
	}
	return err
}

// find finds the misfits in a value, and reports whether the value as a whole is one. Those inside it become null, so
// that the rest can be decoded. alone returns the document that has nothing but a part, in the place of the value.
func (f *misfitFinder) find(value any, field string, depth int, alone func(part any) any) bool {
	err := f.decode(alone(value))
	if err == nil || apiruntime.IsStrictDecodingError(err) || len(f.found) == maxMisfits {
		return false
	}
	before := len(f.found)
	if depth < maxMisfitDepth && !f.wrongKind(value, alone) {
		f.inside(value, field, depth+1, alone)
	}
	if len(f.found) > before {
		return false
	}
	f.found = append(f.found, misfit{field, misfitText(err)})
	return true
}

// wrongKind reports whether a map or list may not be where it is, whatever it has.
func (f *misfitFinder) wrongKind(value any, alone func(part any) any) bool {
	var empty any = map[string]any{}
	if _, ok := value.([]any); ok {
		empty = []any{}
	}
	err := f.decode(alone(empty))
	return err != nil && !apiruntime.IsStrictDecodingError(err)
}

func (f *misfitFinder) inside(value any, field string, depth int, alone func(part any) any) {
	switch x := value.(type) {
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(x)) {
			if f.find(x[name], below(field, name), depth, func(part any) any { return alone(map[string]any{name: part}) }) {
				x[name] = nil
			}
		}
	case []any:
		for i := range x {
			if f.find(x[i], fmt.Sprintf("%s[%d]", field, i), depth, func(part any) any { return alone([]any{part}) }) {
				x[i] = nil
			}
		}
	}
}

// below is the path of a field in another one, or of a key such as a label's.
func below(field, name string) string {
	if strings.ContainsAny(name, ".[]/") {
		return field + "[" + name + "]"
	}
	return joined(".", field, name)
}

// misfitText says what a value should have been.
func misfitText(err error) string {
	wrong, ok := errors.AsType[*json.UnmarshalTypeError](err)
	if !ok {
		return err.Error()
	}
	want, known := map[reflect.Kind]string{
		reflect.String: "text", reflect.Bool: "true or false", reflect.Slice: "a list", reflect.Map: "a map", reflect.Struct: "a map",
		reflect.Int32: "a whole number", reflect.Int64: "a whole number",
	}[wrong.Type.Kind()]
	if !known {
		return err.Error()
	}
	number, isNumber := strings.CutPrefix(wrong.Value, "number ")
	if isNumber && !strings.ContainsAny(number, ".eE") {
		return "the number " + number + " is out of range"
	}
	got := map[string]string{"string": "text", "bool": "true or false", "array": "a list", "object": "a map", "number": "a number"}[wrong.Value]
	text := fmt.Sprintf("want %s, got %s", want, cmp.Or(got, number))
	if want == "text" && (wrong.Value == "bool" || wrong.Value == "number") {
		text += "; put it in quotes"
	}
	return text
}
