// Package objects reads the config maps and secrets of one pod for one purpose,
// each at most once (spec/runtime.md 10, 11.1, 11.2).
//
//	name ──► Reader ──► known already? ──► the caller's source ──► object, or an error
//	                                                               that names it
//
// The content of a secret never appears in an error.
package objects
