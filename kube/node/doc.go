// Package node makes the agent's machine a Node of a cluster: it registers the Node, publishes its
// status, and renews its lease.
//
//	Engine ── Register ──────► Registrar ── POST, PATCH ──► Node
//	       ── PublishStatus ─►     │     ── PATCH status ──► Node
//	       ── RenewLease ────►     │     ── PUT ───────────► Lease
//	       ◄── Changed ───────     │
//	                               ├── every 10 s ── images, handlers ── runtime
//	                               └◄─ watch ─────────────── Node
//
// The engine owns the schedule: it calls the hooks of [Registrar.Hooks] when they are due. Beside
// that, [Registrar.Run] looks at the machine and the runtime, and signals when there is something
// new, so that a runtime that does not answer delays no status.
//
// # Whose fields
//
// Every write is a patch of what differs in the agent's fields: its own conditions, addresses,
// capacity, allocatable, images, runtime handlers, features, nodeInfo and the port of its server.
// Other writers' conditions, labels, taints and annotations stay, and so do volumesInUse and
// volumesAttached. A patch carries the UID of the Node, so it never changes another Node of the
// same name.
//
// # A deleted Node
//
// The agent believes that the Node is gone only if a consistent read says so. Then it registers
// again, drains, or ends (Options.Leave). Until then it renews no lease.
//
// # The lease
//
// The lease controller of k8s.io/component-helpers is not used: it reads the wall clock, logs
// globally, and keeps renewing for a Node that is gone.
//
// The rules are KN in docs/spec/kube.md.
package node
