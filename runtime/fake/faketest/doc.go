// Package faketest lets the conformance suite of package runtimetest run on the
// fake runtime: the fake runs no processes, so programs travel as data.
//
//	runtimetest.Program ──command──► argv ["program", json] ──► ContainerConfig
//	                                                                  │
//	fake.Script ◄──────────────────────script─────────────────────────┘
//
// Any path to a fake works, also through gRPC and a CRI client:
//
//	f := fake.New(faketest.Options())
//	subject := faketest.Subject(client, client) // client of f
//
// It is not needed, and not meant, for tests that use the fake for themselves:
// they write scripts.
package faketest
