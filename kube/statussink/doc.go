// Package statussink brings the statuses of pods to an API server, and mirror pods of
// static pods.
//
//	status.Manager ── ReadPod ──► watch copy, if it is fresh; else GET ──► API
//	       │  merges
//	       ├──────── Store ─────► pace ─► PATCH pods/status: UID, what differs ─► API
//	       │                       │        │ refused: read again, then Recreated, Conflict or Gone
//	       │                       └ Retry-After
//	       └──────── DeletePod ─► pace ─► DELETE grace 0, UID ─► API
//	mirror.Reconciler ─ Create, Get, Delete ─► [Mirrors] ─► API
//
// [Sink] is a [status.StatusSink]: give it to the engine in Observe.Sinks, and [Mirrors] as
// the client of its mirror pods. The sink decides nothing about pods: when a status is
// sent, what it holds and when a finished pod is deleted is package status's business.
// What is the sink's own: each life of a pod is told apart by its UID, what others wrote
// stays, and an API server that asks for a pause gets one.
//
// Rules are numbered as in docs/spec/kube.md (KT).
package statussink
