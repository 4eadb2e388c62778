// Package eviction protects a node that runs out of memory, disk or process IDs: it
// says so, reclaims what nobody needs, and if that is not enough stops pods, one at
// a time and in an order that users of Kubernetes know.
//
//	Stats ──► what is available ──► Assess (pure) ──► node conditions ──► Admit (pure)
//	 /proc, cgroups, statfs            │ limits, grace, minimum, transition
//	                                   ▼ a limit is due
//	            Reclaim: dead containers, images (disk only)
//	                                   ▼ still due
//	what pods use ──► Rank (pure) ──► the first that is not critical ──► Killer
//
// [Assess], [Rank], [Exceeded] and [Admit] are functions over values; a [Manager] reads
// their input every 10 s, carries the result out, and owns the goroutine of its
// Run. [Machine] reads a Linux machine or a part of it.
//
// It is no replacement for the kernel's OOM killer, which comes first if memory
// goes within less than a period, and decides nothing about pods that are not
// running.
//
// Rules are those of docs/spec/syncloop.md 16.
package eviction
