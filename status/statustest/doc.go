// Package statustest checks that a status sink keeps the contract of [status.StatusSink]. A sink's
// own test calls [Run] with a factory:
//
//	factory(t) ─► Subject{Sink, Stored, …} ─► one per case
//	                 │                │
//	      Store, ReadPod, DeletePod   what arrived, seen from outside
//
// The kit looks for abilities, not names: a case runs only if the subject has what it needs, so a
// plain sink runs fewer cases than one in front of an API. A case is named after the rule of
// docs/spec/status.md that it checks. Code that ignores its context fails its case, which shows the
// stacks, and the kit continues.
//
// The package is for tests. It is not a sink and does not test the manager,
// though some cases run a real one on top of the sink.
package statustest
