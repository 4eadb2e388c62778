// Package registrykey finds what is kept for an image under the keys of registry credentials
// (spec/runtime.md 10.2-10.4): hosts with globs, ports and paths, as in pull secrets and in
// what credential plugins answer.
//
//	key ── Add ──► Ring ── Lookup(Repository(image)) ──► values, longest key first
package registrykey
