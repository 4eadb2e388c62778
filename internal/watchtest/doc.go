// Package watchtest runs the cases of the conformance kits under a watchdog. Code under test
// that ignores its context would hang a kit; here its case fails, says where the code hangs,
// and the kit goes on:
//
//	test goroutine ──► Run ──► body on a goroutine of its own ──► code under test
//	                    │            │
//	                    │◄── ended ──┘
//	                    └◄── limit on the clock: the case fails with the body's stacks;
//	                         the body is left behind and ends at its next report
//
// The stacks are those of the body's goroutine and of all that it has started.
package watchtest
