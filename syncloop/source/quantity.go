package source

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/podwright/podwright/internal/podinfo"
)

// quantityLists are the fields that hold quantities by resource, quantityFields those that are
// one.
var (
	quantityLists  = []string{"limits", "requests", "overhead"}
	quantityFields = []string{"sizeLimit", "divisor"}
)

// badQuantity names the first field of a manifest whose quantity cannot be read, with a colon;
// empty if there is none. The decoder's own error does not say where it is.
func badQuantity(content any) string {
	manifest, _ := content.(map[any]any)
	if path := findBadQuantity(manifest["spec"], "spec"); path != "" {
		return path + ": "
	}
	return ""
}

func findBadQuantity(value any, path string) string {
	switch x := value.(type) {
	case []any:
		for i, inner := range x {
			if found := findBadQuantity(inner, fmt.Sprintf("%s[%d]", path, i)); found != "" {
				return found
			}
		}
	case map[any]any:
		return badField(x, path)
	}
	return ""
}

func badField(fields map[any]any, path string) string {
	list := slices.Contains(quantityLists, path[strings.LastIndexByte(path, '.')+1:])
	entries, _ := entriesOf(fields) // a key that JSON does not have was refused before
	for _, e := range entries {
		at := path + "." + e.name
		if list || slices.Contains(quantityFields, e.name) {
			if !readsAsQuantity(e.value) {
				return at
			}
			continue
		}
		if found := findBadQuantity(e.value, at); found != "" {
			return found
		}
	}
	return ""
}

// readsAsQuantity reads no quantity that would take too long (D10): the API has none in a field
// of another name, but a manifest may.
func readsAsQuantity(value any) bool {
	if text, ok := value.(string); ok && !podinfo.ReadableQuantity(text) {
		return false
	}
	text, err := toJSON(value)
	return err == nil && new(resource.Quantity).UnmarshalJSON(text) == nil
}
