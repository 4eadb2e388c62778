// Package statustest checks that a status sink keeps the contract of
// [status.StatusSink]. A sink's own test calls [Run] with a factory:
//
//	factory(t) ─► Subject{Sink, Stored, …} ─► one per case
//	                 │                │
//	      Store, ReadPod, DeletePod   what arrived, seen from outside
//
// Abilities are asked for, never names: a case runs only if the subject has what
// it needs, so a plain sink runs fewer cases than one in front of an API.
//
// The package is for tests. It is not a sink and does not test the manager,
// though some cases run a real one on top of the sink.
package statustest
