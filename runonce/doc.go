// Package runonce runs the pods of an engine once: until each has ended, runs as a service, or
// cannot run. Then it ends the engine and reports on each pod (spec/syncloop.md 21).
//
//	options ──► Runner ── Run ──► Engine ──► pods
//	              ▲ └───── Pods ────┘ │
//	              └──── statuses ─────┘
//
// A [Runner] is a sink of the engine that it runs: each status makes it look at all pods. It
// decides only by what it sees then, so a lost or late status delays it but changes nothing.
//
// The engine keeps its records: a second run in the same folder continues what the first one
// did not complete, and does not rerun what had ended. See the example.
package runonce
