// Package worklimit bounds how many calls of a kind are made at a time, such that a call
// that is never answered delays other pods only briefly (spec/runtime.md 24).
//
//	Do ──► Ask ──► its turn? ──► call ──► End
//	                 │  ▲
//	                 ▼  │ a slot is free: a call was answered, or counts as waiting itself
//	               waits in order
//
// [Queue] is the pure part, a value to which time is passed. [Limiter] adds the lock, the
// clock and the channels. A caller waits on its own goroutine; there is no other.
package worklimit
