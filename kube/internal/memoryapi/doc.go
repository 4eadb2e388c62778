// Package memoryapi is an API server in memory, for tests in virtual time: it is the transport of a
// client, without a network, a disk or goroutines of its own.
//
//	client-go ── Transport(user) ──► rights ──► get, list, create, update, patch, delete ──► objects
//	                                                                                           │
//	        watches ◄── events since a revision, bookmarks ◄── History ◄── change ◄────────────┘
//
// It does what nodes depend on: one revision for all objects, consistent and streamed lists,
// watches from a revision, UIDs and their preconditions, optimistic locking, no-op writes, status
// as a subresource, graceful deletion of pods, a node's rights to pods, and bound tokens. Its
// answers match those observed on API servers of v1.36 (docs/spec/kube.md).
//
// It does not validate objects or set defaults, and has no controllers: the test calls
// [Server.CollectGarbage]. Facts about API servers are proven on a real one (package apitest).
package memoryapi
