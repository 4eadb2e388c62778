// Package runtimetest is the conformance suite for container runtimes: it checks that
// an implementation of [cri.RuntimeService] and [cri.ImageService] keeps the
// promises that the engine relies on. The fake, the embedded process runtime and the
// CRI adapter run it. Write a [Factory] to run it on yours:
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
//	               │          │  Reader ◄── polled on Subject.Clock
//	               └──────────┴─► cleanup: sandbox stopped and removed
//
// Cases are independent, run in any order and may share the runtime with other users:
// each has its own pod UID and looks only at its own objects. [Limits] declares what a
// runtime cannot do by design; no case depends on the implementation's name. What the CRI
// leaves open is open here: a runtime may add labels of its own, and may answer a second
// create call for a name either with an error or with the existing object.
//
// The package is not a benchmark, not a replacement for critest (it tests only
// the narrowed interfaces) and not a test of isolation: nothing here checks
// that a container is isolated from the host.
//
// # Time
//
// Every case has a deadline on its context. No case sleeps or requires speed. Cases
// wait by polling on [Subject.Clock], so that the suite also runs in a
// testing/synctest bubble: see [Cases].
package runtimetest
