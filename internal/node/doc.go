// Package node looks after the node as a whole: what concerns all pods, or none of them.
//
//	Health ──────────► may pods be set up? is the network up?
//	Hooks ───────────► what an agent does for its node (nodehooks.Hooks)
//	Preemption ──────► makes room for critical pods, before admission
//	Evictions ───────► evicts pods when the node runs out of something
//	Shutdown ────────► stops pods because the node stops
//	Drain ───────────► stops pods because their owner asks for it
//	Images, Pulls ───► removes unused images
//	DeadContainers ──► removes containers that have ended
//	Resizer ─────────► resources of running pods change
//
// Each type declares the few methods that it needs of its neighbors. None of them knows how the
// engine is composed.
package node
