// Package syncertest is the conformance kit for pod syncers: it checks that a
// [podworkers.PodSyncer] keeps its side of the contract (docs/spec/podworkers.md 13), so that
// the workers can rely on it. The syncer of this module runs it. Write a [Factory] to run it
// on yours:
//
//	func TestConformance(t *testing.T) {
//		syncertest.Run(t, func(t *testing.T) syncertest.Subject {
//			s := NewProcessSyncer(t.TempDir())
//			return syncertest.Subject{Syncer: s, Pod: sleepingPod, Running: s.Processes}
//		})
//	}
//
// What a case does:
//
//	case ──as the workers would──► SyncPod, SyncTerminatingPod, ... ──► containers
//	  ▲                                                                    │
//	  └──── Running, Status, Held: what can be seen from outside ◄─────────┘
//
// A case is named after the rule that it checks: 13 is the table of the four methods, P1 to P7
// the rules below it, I11 the order of a life. An error of a call is repeated, as the workers
// do; only what a call that succeeds promises is checked. Cases are independent. One that needs what the subject does not
// have is skipped. Code that ignores its context fails its case, which shows the stacks, and
// the kit goes on.
//
// No case sleeps or asks for speed: cases wait on [Subject.Clock], and so run in a
// testing/synctest bubble too: see [Cases].
//
// The kit does not check what a container is or how a pod is made, and knows no runtime.
package syncertest
