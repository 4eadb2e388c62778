// Package decide holds the decisions of probing as functions over values: what follows from one
// look at a container, what follows from a result, and what is kept from before a restart of the
// engine.
//
//	what the worker remembers ─┐
//	what the pod shows ────────┼─► Tick ──► wait, end, or run ──► Judge ──► store, hold
//	what was recorded ─► Restore ┘
//
// It has no clock, lock, goroutine or call; numbers are those of spec/probe.md.
package decide
