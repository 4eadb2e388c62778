package source

import (
	"fmt"
	"reflect"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/podwright/podwright/internal/podinfo"
)

// hugeText says what is wrong with a quantity that takes too long to read or to add up (D10).
const hugeText = "the quantity is out of range: its power of ten must be between -1000 and 1000, and it must have no more than 1000 digits"

// hugeQuantity returns the path of the first field whose quantity takes too long to parse, or an
// empty string if there is none. It must run before the manifest is decoded.
func hugeQuantity(content any) string {
	return findHuge(content, reflect.TypeFor[v1.Pod](), "")
}

// findHuge examines a value that is going to be decoded into a type. It finds quantities
// wherever the API has them.
func findHuge(value any, as reflect.Type, path string) string {
	for as.Kind() == reflect.Pointer {
		as = as.Elem()
	}
	switch x := value.(type) {
	case string:
		if as == reflect.TypeFor[resource.Quantity]() && !podinfo.ReadableQuantity(x) {
			return path
		}
	case []any:
		for i := 0; i < len(x) && as.Kind() == reflect.Slice; i++ {
			if found := findHuge(x[i], as.Elem(), fmt.Sprintf("%s[%d]", path, i)); found != "" {
				return found
			}
		}
	case map[any]any:
		return findHugeIn(x, as, path)
	}
	return ""
}

// findHugeIn is findHuge for a mapping.
func findHugeIn(object map[any]any, as reflect.Type, path string) string {
	switch as.Kind() {
	case reflect.Map:
		entries, _ := entriesOf(object) // toJSON has refused keys that JSON does not have
		for _, e := range entries {
			if found := findHuge(e.value, as.Elem(), path+"["+e.name+"]"); found != "" {
				return found
			}
		}
	case reflect.Struct:
		for i := range as.NumField() {
			f := as.Field(i)
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			found := ""
			if name == "" { // inline
				found = findHuge(object, f.Type, path)
			} else if inner, ok := object[name]; ok {
				found = findHuge(inner, f.Type, strings.TrimPrefix(path+"."+name, "."))
			}
			if found != "" {
				return found
			}
		}
	}
	return ""
}

// quantities refuses quantities that take too long to add up, in every field that has one.
func (v *validator) quantities(value reflect.Value, p *field.Path) {
	if value.Type() == reflect.TypeFor[resource.Quantity]() {
		if q := value.Interface().(resource.Quantity); !podinfo.BoundedQuantity(q) {
			v.add(&field.Error{Type: field.ErrorTypeInvalid, Field: p.String(), BadValue: field.OmitValueType{}, Detail: hugeText})
		}
		return
	}
	switch value.Kind() {
	case reflect.Pointer:
		if !value.IsNil() {
			v.quantities(value.Elem(), p)
		}
	case reflect.Slice:
		for i := range value.Len() {
			v.quantities(value.Index(i), p.Index(i))
		}
	case reflect.Map:
		if value.Type().Elem() == reflect.TypeFor[resource.Quantity]() {
			for at := value.MapRange(); at.Next(); {
				v.quantities(at.Value(), p.Key(at.Key().String()))
			}
		}
	case reflect.Struct:
		for i := range value.NumField() {
			f := value.Type().Field(i)
			if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name != "" {
				v.quantities(value.Field(i), p.Child(name))
			} else if f.IsExported() { // inline
				v.quantities(value.Field(i), p)
			}
		}
	}
}
