// Package watchtest runs the cases of the conformance kits under a watchdog. Code under test that
// ignores its context would hang a kit; here, only its case fails, the failure shows where the code
// hangs, and the kit continues:
//
//	test goroutine ──► Run ──► body on a goroutine of its own ──► code under test
//	                    │            │
//	                    │◄── ended ──┘
//	                    └◄── limit on the clock: the case fails with the body's stacks;
//	                         the body is left behind and ends at its next report
//
// The stacks are those of the body's goroutine and of all goroutines that it has started.
package watchtest
