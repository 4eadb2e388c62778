// Package checkpoint remembers pods across a crash: what cannot be read back from
// the runtime is on the disk before anybody acts on it (spec/status.md 9,
// spec/cleanup.md 10).
//
//	changes ─► records in memory ── batches ──► Store ──► state/pods/<uid>
//	                             ◄─── Load ───
//
// A [Record] is about one pod UID: admission, first start, termination with its
// cause and grace, the newest status with what each sink has of it, and per
// container its readiness, probe results, restart count and newest two ends.
package checkpoint
