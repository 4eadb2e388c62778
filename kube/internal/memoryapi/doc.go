// Package memoryapi is an API server in memory, for tests in virtual time: it is the transport
// of a client, without a network, a disk or a goroutine of its own.
//
//	client-go ── Transport(user) ──► rights ──► get, list, create, update, patch, delete ──► objects
//	                                                                                           │
//	        watches ◄── events since a revision, bookmarks ◄── History ◄── change ◄────────────┘
//
// It does what nodes depend on: one revision for all objects, consistent and streamed lists,
// watches from a revision, UIDs and their preconditions, optimistic locking, writes that change
// nothing, status as a subresource, graceful deletion of pods, what a node may do with pods, and
// bound tokens. What it answers was observed on API servers of v1.36 (docs/spec/kube.md).
//
// It validates no object and sets no defaults, and has no controllers: [Server.CollectGarbage] is called by the
// test. Facts about API servers are proven on a real one (package apitest).
package memoryapi
