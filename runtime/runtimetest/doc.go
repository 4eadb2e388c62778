// Package runtimetest is the conformance suite for container runtimes: it tells
// whether an implementation of [runtime.RuntimeService] and
// [runtime.ImageService] keeps the promises the engine builds on. The fake, the
// embedded process runtime and the CRI adapter run it; write a [Factory] and
// yours does too:
//
//	func TestConformance(t *testing.T) {
//		runtimetest.Run(t, func(t *testing.T) runtimetest.Subject {
//			return runtimetest.Subject{
//				Runtime: client,
//				Images:  client,
//				Image:   "docker.io/library/busybox:1.36",
//				Command: runtimetest.Shell("/bin/sh"),
//			}
//		})
//	}
//
// Data flow of one case:
//
//	Factory ──► Subject ──► case: own pod, own sandbox, own log folder
//	               │          │  Program ──Command──► argv ──► container
//	               │          │  Lister, Inspector ◄── polled on Subject.Clock
//	               └──────────┴─► cleanup: sandbox stopped and removed
//
// Cases are independent, run in any order and may run beside other users of the
// same runtime: each has its own pod UID and looks only at its own objects. What
// a runtime cannot do by design is declared in [Limits]; a case never asks who
// the implementation is.
//
// The package is not a benchmark, not a replacement for critest (it tests only
// the narrowed interfaces) and not a test of isolation: nothing here checks
// that a container is kept away from the host.
//
// # Time
//
// Every case has a deadline on its context; nothing sleeps and nothing asserts
// that something was fast. Waiting means polling on [Subject.Clock], so that the
// suite runs in a testing/synctest bubble as well: see [Cases].
package runtimetest
