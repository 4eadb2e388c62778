// Package preemption chooses which pods have to make room for one that the node
// needs more.
//
//	critical pod ─┐
//	active pods ──┼──► Select (pure) ──► fewest pods, least guaranteed first
//	allocatable ──┘         └──► an error: all of them would not be enough
//
// It only decides. The caller stops the pods and admits the one that needs the room.
//
// Rules are those of docs/spec/syncloop.md 16.
package preemption
