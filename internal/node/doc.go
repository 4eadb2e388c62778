// Package node looks after the node as a whole: what concerns all pods, or none of them.
//
//	Health ──────────► may pods be set up? is the network up?
//	Hooks ───────────► what an agent does for its node (nodehooks.Hooks)
//	Preemption ──────► makes room for critical pods, before admission
//	Evictions ───────► pods go when the node runs out of something
//	Shutdown ────────► pods stop because the node does
//	Drain ───────────► pods stop because their owner says so
//	Images, Pulls ───► images that are not used go
//	DeadContainers ──► containers that have ended go
//	Resizer ─────────► resources of running pods change
//
// Each type declares the few methods it needs of its neighbours. None of them knows how
// the engine is composed.
package node
