// Package mirror keeps mirror pods of static pods at an API, so that users of the API see
// what the node runs without it.
//
//	setup round of a static pod ──Want──► Reconciler ──► Client (an API, or FakeClient)
//	                                    (own goroutine)      │
//	syncloop.Store ◄── source "api" ◄────── watch ◄──────────┘
//
// A mirror pod never delays its static pod: [Reconciler.Want] only notes what should
// exist, and a separate goroutine talks to the API. Whatever the API answers, the static
// pod keeps running. A mirror pod that is deleted comes back.
//
// An engine has no API of its own. A user who has one adapts it to [Client], and feeds
// its watch to the engine as a source named "api" (see package syncloop on sources).
// [FakeClient] stands in for an API in tests and on nodes without one.
//
// Rules are numbered as in docs/spec/syncloop.md 8.
package mirror
