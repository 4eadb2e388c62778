package registrykey

import (
	"slices"
	"strings"
)

// defaultKey is the key under which clients keep what is for the default registry, whose images use
// another name.
const defaultKey = "index.docker.io"

// Ring holds values by key. The zero value holds none. It is not safe for concurrent changes.
type Ring[T any] struct {
	byKey map[string][]T
	// keys are in descending order, so that longer paths come before their prefixes.
	keys []string
}

// Add adds a value under a key in the form of [Normalize]. Values of one key stay in the order in
// which they were added.
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

// Lookup returns the values for a repository, as named by [Repository], in the order in which to
// try them (spec/runtime.md 10.4).
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
