// Package houserules holds, as tests, those rules of this repository that a machine can check: who
// may import whom, no hidden global state, no wall clock, no background contexts, no sleeping
// tests, documentation on every exported name, and the size budgets.
//
// The package has no code of its own; `go test ./internal/houserules` parses the whole module and
// names each offending line. A rule that must be broken gets an entry, with the reason, in the
// exceptions table beside the rule.
package houserules
