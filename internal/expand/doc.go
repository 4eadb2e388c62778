// Package expand replaces references to variables in commands, arguments and paths,
// for the reconciler and for exec probes alike (spec/runtime.md 11.4).
package expand
