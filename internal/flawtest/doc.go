// Package flawtest tests a conformance kit with flawed subjects, because a kit that passes
// everything proves nothing. Every case has a flaw on which it must fail.
//
//	TestFlawsAreCaught ──► the test binary again ──► TestFlawed ──► each flaw's case, on a flawed subject
//	        ▲                                                              │
//	        └──────────────────── each of them failed ◄────────────────────┘
//
// The failures happen in a child process, so that only that process fails.
package flawtest
