// Package preemption chooses which pods have to make room for one that the node
// needs more.
//
//	critical pod ─┐
//	active pods ──┼──► Select (pure) ──► fewest pods, least guaranteed first
//	allocatable ──┘         └──► ErrNoRoom: all of them would not be enough
//
// It decides only; stopping pods and admitting the one that needs the room is the
// caller's affair.
//
// Rules are those of docs/spec/syncloop.md 16.
package preemption
