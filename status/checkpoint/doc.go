// Package checkpoint remembers pods across a crash: what cannot be read back from the runtime is on
// disk before anything acts on it (spec/status.md 9, spec/cleanup.md 10).
//
//	changes ─► Keeper ── batches ──► Store ──► FS: state/pods/<uid>
//	          (memory,  ◄── Load ──  (files:    temp file, sync, rename,
//	           classes,               checksum,  sync of the folder
//	           retries)               sizes)
//
// # Record
//
// A [Record] is about one pod UID: admission, first start, termination with its cause and grace,
// the newest status with how much of it each sink has, and per container its readiness, probe
// results, restart count and newest two ends.
//
// # Keeper
//
// [Keeper] holds all records in memory and decides when one is written. A change is [Durable] (an
// end, a terminal phase, an admission, a restart) or [Lazy] (readiness, acknowledgements). Durable
// changes are written at once; [Keeper.Sync] waits for them. Lazy changes wait at most a second, to
// be written together with others. Changes that pile up while one batch is written go into the
// next, so many pods share the cost of one. An update that leaves the record as it was is never
// written.
//
// # Files
//
// [Files] is a [Store] in a folder: one small file per pod with a checksum, sealed if there is a
// [Key]. Every disk operation goes through [FS], so that a test can make any of them fail, or end
// the process before and after it.
//
// # Merging
//
// Pure functions decide what holds when the record, the runtime and an API disagree after a
// restart: [Record.Remembered], [Interrupted], [Termination.RemainingGrace].
package checkpoint
