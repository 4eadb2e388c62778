// Package statussink sends the statuses of pods to an API server, and keeps mirror pods of static
// pods there.
//
//	status.Manager ── ReadPod ──► watch copy, if it is fresh; else GET ──► API
//	       │  merges
//	       ├──────── Store ─────► pace ─► PATCH pods/status: UID, what differs ─► API
//	       │                       │        │ refused: read again, then Recreated, Conflict or Gone
//	       │                       └ Retry-After
//	       └──────── DeletePod ─► pace ─► DELETE grace 0, UID ─► API
//	mirror.Reconciler ─ Create, Get, Delete ─► [Mirrors] ─► API
//
// [Sink] is a [status.StatusSink]: give it to the engine in Observe.Sinks, and [Mirrors] as the client of
// its mirror pods. The sink decides nothing about pods: when a status is sent, what it contains and when a
// finished pod is deleted is up to package status. The sink takes care of three things: it distinguishes
// the lives of a pod by UID, it keeps what others wrote, and it pauses when an API server asks for that.
//
// Rules are numbered as in docs/spec/kube.md (KT).
package statussink
