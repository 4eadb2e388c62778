// Package node makes the agent's machine a Node of a cluster: it registers the Node, tells
// how it is, and renews its lease.
//
//	Engine ── Register ──────► Registrar ── POST, PATCH ──► Node
//	       ── PublishStatus ─►     │     ── PATCH status ──► Node
//	       ── RenewLease ────►     │     ── PUT ───────────► Lease
//	       ◄── Changed ───────     │
//	                               ├── every 10 s ── images, handlers ── runtime
//	                               └◄─ watch ─────────────── Node
//
// The engine owns the schedule: it calls the hooks of [Registrar.Hooks] when they are due.
// [Registrar.Run] looks at the machine and the runtime beside it and says when there is
// something new, so that a runtime that does not answer delays no status.
//
// # Whose fields
//
// Every write is a patch of what differs in the fields of the agent: its own conditions,
// addresses, capacity, allocatable, images, runtime handlers, features, nodeInfo and the
// port of its server. Conditions, labels, taints and annotations of others stay, and so do
// volumesInUse and volumesAttached. A patch carries the UID of the Node, so it never
// changes another Node of the same name.
//
// # A Node that goes
//
// That the Node is gone is believed only when a consistent read says so. Then the agent
// registers again, or drains, or ends ([Policy]). Meanwhile no lease is renewed.
//
// # The lease
//
// The lease controller of k8s.io/component-helpers is not used: it keeps its own time with
// the wall clock, logs globally, and goes on renewing for a Node that is gone.
//
// Rules are those of docs/spec/kube.md, KN.
package node
