// Package runonce runs the pods of an engine once: until each has ended, runs for good, or
// cannot run. Then it ends the engine and reports on each pod (spec/syncloop.md 21).
//
//	options ──► Runner ── Run ──► Engine ──► pods
//	              ▲ └───── Pods ────┘ │
//	              └──── statuses ─────┘
//
// A [Runner] is a sink of the engine that it runs: each status makes it look at all pods. What
// counts is what it sees there, so that a lost or late status delays it and changes nothing.
//
// The engine keeps its records: a second run in the same folder continues what the first one
// did not complete, and runs nothing again that had ended. See the example.
package runonce
