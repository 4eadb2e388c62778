package source

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/podwright/podwright/internal/podinfo"
)

// quantityLists are the fields that map resources to quantities; quantityFields are single
// quantities.
var (
	quantityLists  = []string{"limits", "requests", "overhead"}
	quantityFields = []string{"sizeLimit", "divisor"}
)

// badQuantity returns the path of the first field whose quantity cannot be parsed and a colon, or
// an empty string if there is none. The decoder's own error does not say which field it is.
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
	entries, _ := entriesOf(fields) // toJSON has refused keys that JSON does not have
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

// readsAsQuantity does not parse quantities that take too long (D10): hugeQuantity has refused
// those in fields of the API, but a manifest may have these names in other places.
func readsAsQuantity(value any) bool {
	if text, ok := value.(string); ok && !podinfo.ReadableQuantity(text) {
		return false
	}
	text, err := toJSON(value)
	return err == nil && new(resource.Quantity).UnmarshalJSON(text) == nil
}
