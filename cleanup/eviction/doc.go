// Package eviction protects a node that runs out of memory, disk or process IDs: it publishes node
// conditions, reclaims what is not needed and, if that is not enough, stops pods, one at a time and
// in the order that users of Kubernetes know.
//
//	Stats ──► what is available ──► assess (pure) ──► node conditions ──► admit (pure)
//	 /proc, cgroups, statfs        ▲   │ limits, grace, minimum, transition
//	Policy.Own ──► Observe ────────┘   │
//	                                   ▼ a limit is due
//	            Reclaim: dead containers, images (disk only)
//	                                   ▼ still due
//	what pods use ──► rank (pure) ──► the first that is not critical ──► Killer
//
// Decisions are functions over values. A [Manager] reads their input every 10 s and carries the
// result out; it owns the goroutine of its Run. [LinuxStats] reads a Linux machine or a part of
// one.
//
// A program can have its own signals judged with the node's: see [OwnSignal] and its example.
//
// The package does not replace the kernel's OOM killer, which acts first if memory runs out within
// less than a period. It makes no decisions about pods that are not running.
//
// Rules are those of docs/spec/syncloop.md 16 and, for a program's own signals, OS1 to OS5 there.
package eviction
