// Package pleg reads a container runtime, keeps one status per pod, and says
// which pods changed. It is the only reader of the runtime in an engine: pod
// lifecycle event generation (the name is the kubelet's) and status cache.
//
//	          every period                    changed pods only
//	runtime ──2 list calls──► fingerprints ──► inspect (bounded, timed) ──► cache ──► Get, GetNewerThan
//	   ▲                         ▲                                           │
//	   │ Refresh: this pod only  │ Publish                                   └──► Subscription (one set per consumer)
//	   └── worker, event stream ─┘
//
// # What it promises
//
// Truth is what the runtime lists now. Everything else (events of a stream, a
// request for a refresh, a published result) only decides when to look, so a
// lost, doubled or reordered hint changes latency, never the outcome.
//
// Observations are ordered by [runtime.Stamp], never by a clock. A status that
// [Generator.GetNewerThan] returns for a stamp was read, or was seen unchanged,
// after that stamp was drawn. The status a subscriber reads after an event is at
// least as new as the event.
//
// An unchanged pod costs no runtime call, no allocation and no goroutine. A
// changed pod costs one inspection, whatever changed in it. Inspections run in
// parallel up to a bound; one that fails, hangs or panics harms its pod only.
//
// # What it is not
//
// It knows nothing of pod specs and decides nothing about pods. A container that
// is created, dies and is removed between two lists is never seen: dead
// containers are the memory of the scheme, so whoever removes them must leave
// the newest one of each name.
//
// # Deliberate differences from the kubelet
//
// Waiting obeys the caller's context. Delivery is a set per subscriber instead
// of a bounded channel, so nothing is ever dropped. A pod whose inspection is
// outstanding does not profit from a relist, and does not hold up the others. A
// pod that had something running and vanishes as a whole is believed gone only
// after further lists agree ([Options].ConfirmVanished): runtimes show empty lists
// for a while after a restart. The rules are in docs/spec/pleg.md; comments cite
// them by their ids.
package pleg
