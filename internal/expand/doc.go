// Package expand replaces references to variables in commands, arguments and paths, both for the
// reconciler and for exec probes (spec/runtime.md 11.4).
package expand
