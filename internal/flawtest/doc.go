// Package flawtest checks a conformance kit by flawed subjects: a kit that passes everything proves
// nothing. Every case has a flaw, and fails on it.
//
//	TestFlawsAreCaught ──► the test binary again ──► TestFlawed ──► each flaw's case, on a flawed subject
//	        ▲                                                              │
//	        └──────────────────── each of them failed ◄────────────────────┘
//
// The failures are those of a child process, so that they fail nothing but it.
package flawtest
