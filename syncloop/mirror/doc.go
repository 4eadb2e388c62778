// Package mirror keeps the twins of static pods at an API, so that people see there
// what runs on a node by its own will.
//
//	setup round of a static pod ──Want──► Reconciler ──► Client (an API, or FakeClient)
//	                                    (own goroutine)      │
//	syncloop.Store ◄── source "api" ◄────── watch ◄──────────┘
//
// A mirror pod is never in the way of what it mirrors: [Reconciler.Want] only notes
// what should be, a goroutine of its own talks to the API, and whatever that says
// or does not say, the static pod runs on. A mirror that somebody deletes comes back.
//
// An engine has no API of its own. [Client] is what it asks of one; a user who has
// an API adapts it, and feeds its watch to the engine as a source named "api" (see
// the package syncloop on sources, and the example of [FakeClient], which stands in for
// an API in tests and on nodes without one).
//
// Rules are numbered as in docs/spec/syncloop.md 8.
package mirror
