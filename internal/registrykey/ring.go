package registrykey

import (
	"slices"
	"strings"
)

// defaultKey is the name under which clients keep what is for the default registry. Its images
// have another name.
const defaultKey = "index.docker.io"

// Ring holds values by key. The zero value holds none. It is not safe for concurrent changes.
type Ring[T any] struct {
	byKey map[string][]T
	// keys descending, so that longer paths come before their prefixes.
	keys []string
}

// Add adds a value under a key, which [Normalize] has brought into its form. Values of one key
// stay in the order in which they are added.
func (r *Ring[T]) Add(key string, value T) {
	if r.byKey == nil {
		r.byKey = map[string][]T{}
	}
	if _, known := r.byKey[key]; !known {
		i, _ := slices.BinarySearchFunc(r.keys, key, func(a, b string) int { return strings.Compare(b, a) })
		r.keys = slices.Insert(r.keys, i, key)
	}
	r.byKey[key] = append(r.byKey[key], value)
}

// Lookup returns the values for a repository as [Repository] names it, in the order in which
// they are to be tried (spec/runtime.md 10.4).
func (r *Ring[T]) Lookup(repository string) []T {
	var out []T
	for _, key := range r.keys {
		if Matches(key, repository) {
			out = append(out, r.byKey[key]...)
		}
	}
	if len(out) == 0 && strings.HasPrefix(repository, "docker.io/") {
		out = append(out, r.byKey[defaultKey]...)
	}
	return out
}
