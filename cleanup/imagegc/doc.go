// Package imagegc removes unused images when they are old or the disk is full, and says for every
// image why it stays.
//
//	images, containers, desired pods ──► observe ──► first seen, last used
//	                                                    │
//	disk usage, policy, now ────────────────────────► decide (pure) ──► Plan
//	                                                                      │
//	RemoveImage ◄── in order, until enough is freed ◄── Collector.Collect ┘
//
// The decision is a function over values. A [Collector] reads its input, executes the plan and
// remembers when each image was first seen and last used. That memory is lost with the process:
// after a start every image counts as new, which errs on the safe side.
//
// Pinned images are never removed, nor are images used by any container, dead or alive, images that
// a desired or stopping pod or Options.Keep names, or images first seen less than Policy.MinAge ago.
//
// Rules are numbered as in docs/spec/cleanup.md 8.2.
package imagegc
