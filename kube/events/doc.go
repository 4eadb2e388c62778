// Package events brings the events of an engine to an API server.
//
//	Eventf ─► spam filter ─► queue (bounded, oldest go first) ─► Run ─► aggregate, count ─► POST or PATCH events
//	           per object                                         ▲             │ not answered, busy
//	                                                              └── 1 s … 30 s ┘
//
// A [Recorder] is the engine's podwright.EventRecorder: it never blocks, needs no server, and
// holds a bounded number of events however long the server is away. Filter, aggregation and
// counting are client-go's. Its broadcaster is not used: its calls take no context, its
// goroutine cannot be waited for, and it gives an event up after two minutes.
//
// Rules are numbered as in docs/spec/kube.md (KV4).
package events
