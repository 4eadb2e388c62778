// Package problem describes what waits longer than it should: what it is, since when, what it waits
// for, and what an operator can do about it.
//
// Each part of the engine returns its own problems, from facts that it keeps anyway. A part without
// problems returns nil and allocates nothing. The limits of all parts are in one table, limits.go.
//
//	part.Problems() ──┐
//	part.Problems() ──┼──► List ──► Engine.Problems, a gauge, one log line per change
//	part.Problems() ──┘      └────► Unhealthy ──► Engine.Healthy
package problem
