// Package events sends the events of an engine to an API server.
//
//	Eventf ─► spam filters ─► queue (bounded, drops the oldest) ─► Run ─► aggregate, count ─► POST or PATCH events
//	          per event, object                                     ▲             │ no answer, or busy
//	                                                               └── 1 s … 30 s ┘
//
// A [Recorder] is the engine's podwright.EventRecorder: it never blocks, needs no server, and holds
// a bounded number of events however long the server is unavailable. The filter, aggregation and
// counting are client-go's. Its broadcaster is not used, because its calls take no context, its
// goroutine cannot be waited for, and it gives up on an event after two minutes.
//
// The rules are KV4 in docs/spec/kube.md.
package events
