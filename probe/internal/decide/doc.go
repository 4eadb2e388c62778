// Package decide holds the decisions of probing as functions over values: what one
// look at a container leads to, what a result leads to, and what is kept of the time
// before a restart of the engine.
//
//	what the worker remembers ─┐
//	what the pod shows ────────┼─► Tick ──► wait, end, or run ──► Judge ──► store, hold
//	what was recorded ─► Restore ┘
//
// There is no clock, lock, goroutine or call in it; numbers are those of
// spec/probe.md.
package decide
