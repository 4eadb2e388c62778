package source

import (
	stdjson "encoding/json"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/yaml"
)

// quantityLists are the fields that hold quantities by resource, quantityFields those that are
// one.
var (
	quantityLists  = []string{"limits", "requests", "overhead"}
	quantityFields = []string{"sizeLimit", "divisor"}
)

// badQuantity names the first field of a manifest whose quantity cannot be read, with a colon;
// empty if there is none. The decoder's own error does not say where it is.
func badQuantity(document []byte) string {
	var content map[string]any
	if yaml.Unmarshal(document, &content) != nil {
		return ""
	}
	spec, ok := content["spec"]
	if !ok {
		return ""
	}
	if path := findBadQuantity(spec, "spec"); path != "" {
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
	case map[string]any:
		list := slices.Contains(quantityLists, path[strings.LastIndexByte(path, '.')+1:])
		for _, key := range sorted(x) {
			at := path + "." + key
			if list || slices.Contains(quantityFields, key) {
				if !readsAsQuantity(x[key]) {
					return at
				}
				continue
			}
			if found := findBadQuantity(x[key], at); found != "" {
				return found
			}
		}
	}
	return ""
}

func readsAsQuantity(value any) bool {
	text, err := stdjson.Marshal(value)
	return err == nil && new(resource.Quantity).UnmarshalJSON(text) == nil
}
