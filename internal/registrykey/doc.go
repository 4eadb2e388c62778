// Package registrykey finds the values kept for an image under the keys of registry credentials
// (spec/runtime.md 10.2-10.4): hosts with globs, ports and paths, as in pull secrets and in the
// answers of credential plugins.
//
//	key ── Add ──► Ring ── Lookup(Repository(image)) ──► values, longest key first
package registrykey
