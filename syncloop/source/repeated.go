package source

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"go.yaml.in/yaml/v2"
)

// repeated returns what is left of a strict parser's objections to a document with this content. The parser takes
// a key that a merge (<<) brings, and that the mapping has too, for one that is given twice. What is left is
// about keys whose value is not the one beside them: a mapping has them twice, or a merge behind them replaces
// it. Nil: nothing is left.
func repeated(text []byte, content any, strict *yaml.TypeError) error {
	var own yaml.MapSlice // the parser leaves merges out of it, and keeps what is repeated
	if err := yaml.Unmarshal(text, &own); err != nil {
		return strict
	}
	wrong := map[string]bool{}
	if !overruled(own, content, wrong) {
		return nil
	}
	lines := slices.DeleteFunc(slices.Clone(strict.Errors), func(line string) bool {
		_, about, _ := strings.Cut(line, ": ")
		return !wrong[about]
	})
	if len(lines) == 0 {
		return strict
	}
	return &yaml.TypeError{Errors: lines}
}

// overruled reports whether a value has keys, at any depth, whose values are not those of the content, or that
// are given twice. It adds what the parser says about them to wrong.
func overruled(own, content any, wrong map[string]bool) (found bool) {
	switch x := own.(type) {
	case yaml.MapSlice:
		return overruledKeys(x, content, wrong)
	case []any:
		list, _ := content.([]any)
		if len(list) != len(x) {
			return true
		}
		for i, item := range x {
			found = overruled(item, list[i], wrong) || found
		}
		return found
	}
	return !reflect.DeepEqual(own, content)
}

func overruledKeys(own yaml.MapSlice, content any, wrong map[string]bool) (found bool) {
	mapping, isMapping := content.(map[any]any)
	if !isMapping {
		return true
	}
	seen := make(map[any]bool, len(own))
	for _, item := range own {
		value, given := mapping[item.Key]
		if differs := overruled(item.Value, value, wrong); differs || !given || seen[item.Key] {
			wrong[fmt.Sprintf("key %#v already set in map", item.Key)] = true
			found = true
		}
		seen[item.Key] = true
	}
	return found
}
