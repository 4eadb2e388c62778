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
// Tests that use the fake directly do not need this package: they write scripts.
package faketest
